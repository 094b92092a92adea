"""Write the tables of docs/recipes.md from the schema: `python scripts/make_recipe_docs.py`."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic_core import PydanticUndefined

from dawnrun.recipe.describe import allowed, children, field_at, is_list
from dawnrun.recipe.dump import flow_text
from dawnrun.recipe.fields import Part
from dawnrun.recipe.pieces import Curve, Segment
from dawnrun.recipe.schema import Recipe, Site

PAGE = Path(__file__).parent.parent / "docs" / "recipes.md"
_TABLES = re.compile(r"(<!-- keys of (\w+): made by scripts/make_recipe_docs.py -->\n).*?(<!-- end -->\n)", re.S)


def page(text: str) -> str:
    """The page with every table made anew."""
    kinds: dict[str, type[Part]] = {"Recipe": Recipe, "Segment": Segment, "Site": Site}
    return _TABLES.sub(lambda match: f"{match[1]}\n{table(kinds[match[2]])}\n{match[3]}", text)


def table(kind: type[Part]) -> str:
    """A row for each key."""
    rows = [f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in _rows(kind, ())]
    return "\n".join(["| key | what it may be | default | meaning |", "|---|---|---|---|", *rows])


def _rows(kind: type[Part], path: tuple[str | int, ...]) -> Iterator[tuple[str, str, str, str]]:
    """(key, what it may be, default, meaning) of a part and of what is in it."""
    for name, field in children(field_at(kind, path)[0]).items():
        annotation, constraints = field_at(kind, (*path, name))
        inner, curve = children(annotation), annotation is Curve
        key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in (*path, name)).lstrip(".")
        below: tuple[str | int, ...] = (*path, name, 0) if is_list(annotation) else (*path, name)
        if inner and not curve:
            kind_of = "a list of mappings" if is_list(annotation) else "a mapping"
            yield f"`{key.replace('[0]', '[]')}`", kind_of, _default(field, whole=False), field.description or ""
            yield from _rows(kind, below)
        else:
            words = allowed(annotation, constraints)
            yield f"`{key.replace('[0]', '[]')}`", words, _default(field, whole=True), field.description or ""


def _default(field: Any, *, whole: bool) -> str:
    """`**needed**`, the default as a recipe would write it, or nothing for a mapping whose keys have their own."""
    if field.default is PydanticUndefined:
        return "**needed**"
    if not whole:
        return ""
    if isinstance(field.default, Curve):
        return f"`{field.default.constant}`"
    default = str(field.default) if isinstance(field.default, Path) else field.default
    return "-" if default is None else f"`{flow_text(default)}`"


def main() -> None:
    """Rewrite the page in place."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
