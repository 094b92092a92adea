"""How plain programs read an entry's TSV: a strict reader, and the competition's own test.

They show what became of a malformed file: refused, or accepted with a wrong time.
"""

from dataclasses import dataclass
from decimal import Decimal

from dawnrun.report.columns import number
from dawnrun.report.entry import HOURS, ROLES, TOP5

TARGET_TOP5 = Decimal(93)


@dataclass(frozen=True, kw_only=True, slots=True)
class NaiveReading:
    """`strict_reader`: `parses` or `rejects: why`; `passes_dawnbench_test`: the TSV's part of that test, yes or no.

    Hours are those of the first row at 93 as that reader takes them, None where there is none.
    """

    strict_reader: str
    naive_time_hours: Decimal | None
    passes_dawnbench_test: str
    hours_read_by_that_test_reader: Decimal | None


def read_naively(text: str) -> NaiveReading:
    """What both readers make of a TSV's text."""
    lines = [(index, line) for index, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1) if line.strip()]
    verdict, hours = _strict(lines)
    passes, seen = _competition(lines)
    return NaiveReading(
        strict_reader=verdict,
        naive_time_hours=hours,
        passes_dawnbench_test="yes" if passes else "no",
        hours_read_by_that_test_reader=seen if passes else None,
    )


def _strict(lines: list[tuple[int, str]]) -> tuple[str, Decimal | None]:
    """Header by name, one tab between fields, as many fields as names, numbers only."""
    if not lines:
        return "rejects: empty", None
    head = [name.strip() for name in lines[0][1].split("\t")]
    missing = [role for role in ROLES if role not in head]
    if missing:
        return f"rejects: missing columns: {','.join(missing)}", None
    hit = None
    for line, text in lines[1:]:
        cells = [cell.strip() for cell in text.split("\t")]
        if len(cells) != len(head):
            return f"rejects: line {line}: {len(cells)} fields, header has {len(head)}", None
        row = dict(zip(head, cells, strict=True))
        values = {role: number(row[role]) for role in ROLES}
        bad = next((role for role in ROLES if values[role][0] is None or values[role][1]), None)
        if bad:
            return f"rejects: line {line}: {bad} is not a number", None
        top5, hours = values[TOP5][0], values[HOURS][0]
        if hit is None and top5 is not None and top5 >= TARGET_TOP5:
            hit = hours
    return "parses", hit


def _competition(lines: list[tuple[int, str]]) -> tuple[bool, Decimal | None]:
    """The repository's test: names as a set, at least one row, best top-5 at 93 or above.

    It reads with pandas, which takes fields beyond the header's for an index on the left and so shifts the names.
    """
    if len(lines) < 2:
        return False, None
    head = lines[0][1].split("\t")
    rows = [text.split("\t") for _, text in lines[1:]]
    shift = max(0, len(rows[0]) - len(head))
    if set(head) != set(ROLES) or len(head) != len(ROLES) or any(len(row) > len(head) + shift for row in rows):
        return False, None
    at_top5, at_hours = head.index(TOP5) + shift, head.index(HOURS) + shift
    hit = None
    for row in rows:
        top5 = number(row[at_top5].strip())[0] if len(row) > at_top5 else None
        if top5 is not None and top5 >= TARGET_TOP5:
            hit = row
            break
    if hit is None:
        return False, None
    return True, number(hit[at_hours].strip())[0]
