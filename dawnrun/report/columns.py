"""Settles which column of an entry is which, by its header and by what the figures can be, and reads the figures."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import combinations, pairwise, permutations

from dawnrun.report.defect import Defect, at_lines
from dawnrun.report.entry import EPOCH, HOURS, ROLES, TOP1, TOP5, Table

MAX_COLUMNS = 7
"""More columns than this are told apart by their names only: the ways to choose four of them grow too many."""
_PLAIN = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")

Roles = Mapping[str, int]
"""Index of the column that holds each role; roles without a certain column are left out."""
Columns = Sequence[Sequence[Decimal | None]]


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryRow:
    """One row's figures; None is what the file does not say, or not for certain. Accuracies in percent once scaled."""

    line: int
    epoch: Decimal | None
    hours: Decimal | None
    top1: Decimal | None
    top5: Decimal | None


def number(text: str) -> tuple[Decimal | None, str]:
    """The value of a cell and the code of its defect, empty for none. Magnitudes no entry can have are no values."""
    code = ""
    if text.endswith("%"):
        text, code = text[:-1].rstrip(), "percent_sign"
    if re.fullmatch(r"[0-9]+,[0-9]+", text):
        text, code = text.replace(",", "."), "decimal_comma"
    if not _PLAIN.fullmatch(text):
        return None, "not_a_number"
    value = Decimal(text)
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int) or not -40 <= exponent <= 12 or value.adjusted() > 12:
        return None, "not_a_number"
    return value, code


def read_rows(table: Table) -> tuple[list[EntryRow], list[Defect]]:
    """The table's rows with every role that can be decided, and the defects of columns and cells."""
    columns = [
        [number(row.cells[index])[0] if row.cells else None for row in table.rows] for index in range(table.width)
    ]
    roles, defects = _roles(table, columns)
    absent: list[Decimal | None] = [None] * len(table.rows)
    of_role = {role: columns[roles[role]] if role in roles else absent for role in ROLES}
    rows = [
        EntryRow(
            line=row.line,
            epoch=of_role[EPOCH][index],
            hours=of_role[HOURS][index],
            top1=of_role[TOP1][index],
            top5=of_role[TOP5][index],
        )
        for index, row in enumerate(table.rows)
    ]
    if HOURS in roles and EPOCH in roles and roles[HOURS] < roles[EPOCH]:
        message = "hours stand before epochs: allowed, but readers by position take one for the other"
        defects.append(
            Defect(code="column_order_hours_first", file=table.file, line=table.header_line, message=message)
        )
    return rows, defects + _cell_defects(table, roles) + _lost_defects(table, rows, roles)


def _cell_defects(table: Table, roles: Roles) -> list[Defect]:
    """Cells of the four columns that are no numbers as the form wants them."""
    sentences = {
        "not_a_number": "not a number",
        "percent_sign": "a percent sign; the form has plain numbers",
        "decimal_comma": "a decimal comma; the form has points",
    }
    places: dict[tuple[str, str], list[int]] = {}
    for row in table.rows:
        for role, index in roles.items():
            code = number(row.cells[index])[1] if row.cells and row.cells[index] else ""
            if code:
                places.setdefault((code, f"{role}: {sentences[code]}"), []).append(row.line)
    return [
        defect for (code, message), lines in places.items() for defect in at_lines(code, table.file, lines, message)
    ]


def _lost_defects(table: Table, rows: Sequence[EntryRow], roles: Roles) -> list[Defect]:
    """Nothing to read at all, or columns whose place cannot be decided."""
    line = table.rows[0].line if table.rows else table.header_line
    if not any(None not in (row.epoch, row.hours, row.top1, row.top5) for row in rows):
        lost = [role for role in ROLES if role not in roles]
        message = f"no certain column for {', '.join(lost)}" if lost else "no row has all four figures"
        return [Defect(code="no_complete_row", file=table.file, line=line, message=message)]
    return []


def _roles(table: Table, columns: Columns) -> tuple[Roles, list[Defect]]:
    """The column of each role, and the defect of a header that the figures contradict."""
    names = table.names
    by_name = {role: names.index(role) for role in ROLES if names and names.count(role) == 1}
    if names is None or len(names) != table.width or len(by_name) < len(ROLES):
        return _agreed(table, columns, by_name), []
    facts = Facts(columns)
    if not table.rows or facts.fit(by_name) or facts.fit(by_name, durations=True):
        return by_name, []
    places = [by_name[role] for role in ROLES]
    others = [dict(zip(ROLES, order, strict=True)) for order in permutations(places)]
    others = [roles for roles in others if facts.whole[roles[EPOCH]] >= facts.whole[by_name[EPOCH]]]
    fitting = [roles for roles in others if facts.fit(roles)]
    fitting = fitting or [roles for roles in others if facts.fit(roles, durations=True)]
    if not fitting:
        return facts.uncontradicted(by_name), []
    certain = _common(fitting)
    wrong = " ".join(role for role in ROLES if certain.get(role) != by_name[role])
    message = f"the header's order does not fit the figures: {wrong} stand elsewhere"
    swapped = Defect(
        code="header_columns_swapped_against_data", file=table.file, line=table.header_line, message=message
    )
    return certain, [swapped]


def _agreed(table: Table, columns: Columns, by_name: Roles) -> Roles:
    """Roles on which all assignments that the header allows and the figures fit agree."""
    if table.width > MAX_COLUMNS or table.width < len(ROLES):
        return by_name if table.names and len(table.names) == table.width else {}
    facts = Facts(columns)
    allowed = list(_allowed(table, by_name))
    fitting = [roles for roles in allowed if facts.fit(roles)]
    fitting = fitting or [roles for roles in allowed if facts.fit(roles, durations=True)]
    if not fitting and table.names and len(table.names) == table.width:
        return facts.uncontradicted(by_name)
    return _common(fitting)


def _allowed(table: Table, by_name: Roles) -> Iterator[Roles]:
    """Assignments of the roles to columns that do not contradict the header's names."""
    if table.names is None:
        for order in permutations(range(table.width), len(ROLES)):
            yield dict(zip(ROLES, order, strict=True))
    elif len(table.names) == table.width:
        free = [index for index, name in enumerate(table.names) if name is not None and name not in by_name]
        missing = [role for role in ROLES if role not in by_name]
        for order in permutations(free, len(missing)):
            yield {**by_name, **dict(zip(missing, order, strict=True))}
    elif len(table.names) < table.width:
        # Names are missing somewhere: those that are there keep their order, the rest may stand anywhere.
        missing = [role for role in ROLES if role not in table.names]
        for chosen in combinations(range(table.width), len(table.names)):
            named = {name: index for index, name in zip(chosen, table.names, strict=True) if name}
            free = [index for index in range(table.width) if index not in chosen]
            for order in permutations(free, len(missing)):
                yield {**named, **dict(zip(missing, order, strict=True))}


def _common(fitting: Sequence[Roles]) -> Roles:
    """What all assignments agree on."""
    if not fitting:
        return {}
    return {role: index for role, index in fitting[0].items() if all(other.get(role) == index for other in fitting)}


def least_top1(top5: Decimal) -> int:
    """Top-1 in percent below which no published entry is at that top-5: 15 at 50 %, 40 at 80 %, 60 at 90 %, 80 at 97 %."""
    return next((least for reached, least in ((97, 80), (90, 60), (80, 40), (50, 15)) if top5 >= reached), 0)


def are_fractions(values: Sequence[Decimal]) -> bool:
    """Whether accuracies run from 0 to 1; one in ten may depart from it."""
    return sum(value > 1 for value in values) <= len(values) // 10


class Facts:
    """What each column can be, worked out once. One row in ten may depart from it, as faults in single rows do."""

    def __init__(self, columns: Columns) -> None:
        """Look at each column."""
        self._columns = [[value for value in column if value is not None] for column in columns]
        self._pairs: dict[tuple[int, int], bool] = {}
        self._raw = columns
        self._allowance = max(map(len, columns), default=0) // 10
        self.whole = [sum(value % 1 == 0 for value in column) for column in self._columns]
        self._label = [self._is_label(column) for column in self._columns]
        self._clock = [self._is_clock(column) for column in self._columns]
        self._span = [self._is_span(column) for column in self._columns]

    def fit(self, roles: Roles, *, durations: bool = False) -> bool:
        """Whether the figures can be what `roles` says; with `durations` the hours need not rise."""
        epoch, hours, top1, top5 = (roles[role] for role in (EPOCH, HOURS, TOP1, TOP5))
        clock = self._span[hours] if durations else self._clock[hours]
        return self._label[epoch] and clock and self._accuracies(top1, top5)

    def uncontradicted(self, roles: Roles) -> Roles:
        """The roles without epochs and hours where the figures look as if those two changed places."""
        if HOURS not in roles:
            return roles
        hours, epoch = roles[HOURS], roles.get(EPOCH)
        changed = self._label[hours] and (
            epoch is None or (not self._label[epoch] and self.whole[hours] > self.whole[epoch])
        )
        return {role: index for role, index in roles.items() if not changed or role in (TOP1, TOP5)}

    def _is_label(self, column: Sequence[Decimal]) -> bool:
        """Epoch labels: whole or in tenths, rising."""
        odd = sum(value != round(value, 1) for value in column)
        return odd <= self._allowance and self._is_clock(column)

    def _is_clock(self, column: Sequence[Decimal]) -> bool:
        """A running clock: never negative, rising."""
        falls = sum(after <= before for before, after in pairwise(column))
        return falls <= self._allowance and self._is_span(column)

    def _is_span(self, column: Sequence[Decimal]) -> bool:
        """Hours of any meaning: never negative."""
        return bool(column) and sum(value < 0 for value in column) <= self._allowance

    def _accuracies(self, top1: int, top5: int) -> bool:
        """Whether the two columns can be top-1 and top-5 of one model over 1,000 classes.

        Top-1 is never above top-5, and never far below it either (least_top1).
        """
        if (top1, top5) not in self._pairs:
            rows = [
                (a, b) for a, b in zip(self._raw[top1], self._raw[top5], strict=True) if a is not None and b is not None
            ]
            self._pairs[top1, top5] = bool(rows) and self._joint(rows)
        return self._pairs[top1, top5]

    def _joint(self, rows: Sequence[tuple[Decimal, Decimal]]) -> bool:
        scale1 = 100 if are_fractions([a for a, _ in rows]) else 1
        scale5 = 100 if are_fractions([b for _, b in rows]) else 1
        wrong = 0 if scale1 == scale5 else len(rows)
        for a, b in ((a * scale1, b * scale5) for a, b in rows):
            wrong += not (0 <= a <= b <= 100 and a >= least_top1(b))
        return wrong <= self._allowance and any(a * scale1 < b * scale5 for a, b in rows)
