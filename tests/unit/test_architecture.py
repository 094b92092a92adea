"""docs/architecture.md tells of the tree as it is."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_the_tree_on_the_page_is_the_trees() -> None:
    """`make docs` writes it anew."""
    spec = importlib.util.spec_from_file_location("make_layout", ROOT / "scripts" / "make_layout.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert module.page_with_layout(page) == page


def test_files_stay_under_300_lines() -> None:
    long = {
        path.relative_to(ROOT).as_posix(): lines
        for path in (ROOT / "dawnrun").rglob("*.py")
        if (lines := path.read_text(encoding="utf-8").count("\n")) > 300
    }
    assert not long
