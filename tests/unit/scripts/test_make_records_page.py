"""docs/records.md is what the recipes and the table of records say."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_page_is_made_from_the_recipes():
    """`python scripts/make_records_page.py` would change nothing; every recipe has its row."""
    spec = importlib.util.spec_from_file_location("make_records_page", ROOT / "scripts" / "make_records_page.py")
    assert spec and spec.loader
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    page = (ROOT / "docs" / "records.md").read_text(encoding="utf-8")
    assert script.page() == page
    rows = {line.split("](")[0][3:]: line for line in page.splitlines() if line.startswith("| [")}
    assert len(rows) == 32
    assert all(line.endswith("| no |") for line in rows.values())
    assert "| 0:10:28 |" in rows["huawei-10m28"] and "| 48,240 | partial |" in rows["huawei-10m28"]
    assert "| 0:02:38 |" in rows["alibaba-2m38"] and "| 93.04 |" in rows["alibaba-2m38"]
    assert "| complete | loss_scale | no |" in rows["lambda-4"]
    assert (
        "| partial | validation view, start and shape, formula, cool-down, direction, initialiser"
        in rows["huawei-10m28"]
    )
