"""docs/architecture.md tells of the tree as it is."""

import importlib.util
import re
from pathlib import Path

from dawnrun.recipe import schema
from dawnrun.recipe.fields import Part

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


def _built() -> list[str]:
    """Lines of the Python blocks, without those of what is not built yet."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) > 2
    return [line for block in blocks for line in block.splitlines() if "not built yet" not in line]


def test_classes_and_functions_on_the_page_exist() -> None:
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "dawnrun").rglob("*.py"))
    there = set(re.findall(r"^\s*(?:class|def) (\w+)", source, re.MULTILINE))
    told = {name for line in _built() for name in re.findall(r"^\s*(?:class|def) (\w+)", line)}
    assert told - there == set()


def test_keys_of_recipes_and_sites_on_the_page_exist() -> None:
    missing, name = [], ""
    for line in _built():
        if line and not line.startswith(" "):
            name = found[1] if (found := re.match(r"class (\w+):", line)) else ""
        part = getattr(schema, name, None)
        if isinstance(part, type) and issubclass(part, Part):
            keys = re.findall(r"(?:^|; |: )\s*([a-z]\w*):", line.split("#")[0].removeprefix(f"class {name}"))
            missing += [f"{name}.{key}" for key in keys if key not in part.model_fields and not hasattr(part, key)]
    assert missing == []
