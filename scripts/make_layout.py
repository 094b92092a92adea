"""Write the tree in section 2 of docs/architecture.md anew: each module with its layer and its own first sentence."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- made by scripts/make_layout.py -->\n```\n", "```\n<!-- end -->"
LAYERS = {
    "recipe": 1,
    "record": 2,
    "dataset": 2,
    "train": 3,
    "launch": 3,
    "plan": 3,
    "report": 3,
    "tune": 4,
    "cli": 5,
}
NAME_WIDTH = 24


def layout(package: Path) -> str:
    """The tree as text."""
    lines = [f"{package.name}/"]
    lines += [_line(path, path.name, "  ", 0) for path in sorted(package.glob("*.py"))]
    for folder, layer in LAYERS.items():
        if (package / folder).is_dir():
            lines.append(f"  {folder}/")
            lines += _folder(package / folder, layer)
    return "\n".join(lines) + "\n"


def _folder(folder: Path, layer: int) -> Iterator[str]:
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder).as_posix()
        if name != "__init__.py":
            yield _line(path, name, "    ", layer)


def _line(path: Path, name: str, indent: str, layer: int) -> str:
    said = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0].rstrip(".")
    return f"{indent}{name:<{NAME_WIDTH}} L{layer}  {said}"


def page_with_layout(page: str) -> str:
    """The page with its tree replaced."""
    before, _, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"{PAGE}: the marks of the tree are missing")
    return before + BEGIN + layout(ROOT / "dawnrun") + END + after


if __name__ == "__main__":
    PAGE.write_text(page_with_layout(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"wrote {PAGE}\n")
