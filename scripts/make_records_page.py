"""Write docs/records.md from the recipes and configs/records.csv: `python scripts/make_records_page.py`."""

import re
from collections.abc import Iterator
from pathlib import Path

from dawnrun.recipe.builtin import names
from dawnrun.recipe.reader import Document, read
from dawnrun.recipe.schema import Recipe
from dawnrun.report.records import Record, load_records
from dawnrun.text import count, duration

PAGE = Path(__file__).parent.parent / "docs" / "records.md"
HEAD = """\
# Published records as recipes

The table is made by `scripts/make_records_page.py` from `configs/recipes/` and `configs/records.csv`; below it the page is written by hand.

Each file opens with its sources, what was in the published clock and which of two contradictory figures was taken.
`dawnrun plan --config NAME` shows every epoch, `dawnrun train --config NAME --shrink demo` runs the whole schedule on
a CPU within minutes. "Confidence" is how much of the run was published, "not published" what the recipe had to
choose itself, each marked there with its reason. "Measured": whether dawnrun has reproduced the result on
such machines; none has been, as no machine of that size was at hand.

| recipe | published time | top-5 % | top-1 % | machines | clock rule nearest | the published clock contained | images validated | confidence | not published | measured |
|---|---|---|---|---|---|---|---|---|---|---|
"""
END = "<!-- end of the table -->\n"


def page() -> str:
    """The whole page: the table made anew, what follows it as it is."""
    records = {record.name: record for record in load_records()}
    rows = [_row(document, records.get(document.value.name)) for document in _published()]
    _, _, kept = PAGE.read_text(encoding="utf-8").partition(END)
    return HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows) + END + kept


def _published() -> Iterator[Document[Recipe]]:
    """Recipes of published runs, in order of their names."""
    for name in names():
        document = read(name, Recipe)
        if document.value.provenance.confidence != "own":
            yield document


def _row(document: Document[Recipe], record: Record | None) -> list[str]:
    """One recipe; a dash where nothing was published."""
    recipe = document.value
    validated = record and record.validation_images
    return [
        f"[{recipe.name}](../configs/recipes/{recipe.name}.yaml)",
        _time(record),
        _percent(record.top5 if record else None),
        _percent(record.top1 if record else None),
        (record.hardware if record else None) or "-",
        record.clock_rule if record and record.seconds is not None else "-",
        ((record.clock_contains if record else None) or "-").replace("|", "/"),
        count(validated) if validated else "not known",
        recipe.provenance.confidence,
        ", ".join(dict.fromkeys(_choices(document.text))) or "-",
        "no",
    ]


def _choices(text: str) -> Iterator[str]:
    """What each marked line of a recipe decides: named in brackets there, else the line's own key."""
    for key, named in re.findall(r"^[ -]*\{?(\w+):.*# not [^:(]*(?:\(([^)]*)\))?: chosen because", text, re.M):
        yield named or key


def _time(record: Record | None) -> str:
    """h:mm:ss, rounded up as DAWNBench's board does."""
    return "-" if record is None or record.seconds is None else duration(float(record.seconds))


def _percent(value: object) -> str:
    return "-" if value is None else f"{float(str(value)):.2f}"


def main() -> None:
    """Rewrite the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
