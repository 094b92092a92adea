"""What an entry's figures mean: percent or fractions, a running clock or durations, and where that cannot be said."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise
from typing import Literal

from dawnrun.report.columns import EntryRow, are_fractions, least_top1
from dawnrun.report.defect import MAX_PLACES, Defect, at_lines
from dawnrun.report.entry_clock import (
    NAMES,
    Name,
    Values,
    find_gaps,
    in_order,
    put,
    settle_epochs,
    settle_hours,
    values_of,
    with_values,
    without_doubles,
    without_jump,
)

LEAST_FRACTION = Decimal("0.05")
"""Best accuracy below which 0 to 1 cannot be told from 0 to 100 percent: 5 % or 0.05 %, both of an untrained model."""
SPIKE_FROM, SPIKE = Decimal(85), Decimal(5)
"""Percent. Above 85 % no published entry falls by more than 2 % from a row to the next."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Meaning:
    """Rows in the order of time, in percent and hours of a running clock; None wherever that is in doubt.

    `gaps`: indexes of rows before which epochs are missing.
    """

    rows: tuple[EntryRow, ...]
    gaps: frozenset[int]
    defects: tuple[Defect, ...]
    notes: tuple[str, ...]


def interpret(rows: Sequence[EntryRow], file: str) -> Meaning:
    """Read rows of one entry by what they can only mean; what stays open becomes None, with a note."""
    found, defects, notes = list(rows), list[Defect](), list[str]()
    columns: tuple[Literal["top1", "top5"], ...] = ("top1", "top5")
    for name in columns:
        found, more, note = _percent(found, name, file)
        defects += more
        notes += note
    found, more = _possible(found, file)
    defects += more
    found, more = _without_spikes(found, file)
    defects += more + _epoch_defects(found, file) + _hour_defects(found, file)
    found, note = without_doubles(found)
    notes += note
    found, note = in_order(found)
    notes += note
    gaps, more = find_gaps(found, file)
    defects += more
    found = settle_epochs(found, gaps)
    found, note = settle_hours(found, gaps)
    notes += note
    found, more = without_jump(found, file)
    defects += more
    return Meaning(rows=tuple(found), gaps=gaps, defects=tuple(_joined(defects)), notes=tuple(notes))


def _joined(defects: Sequence[Defect]) -> Iterator[Defect]:
    """Defects without repeats (top-1 and top-5 may share one)."""
    return iter(dict.fromkeys(defects))


def _percent(
    rows: list[EntryRow], name: Literal["top1", "top5"], file: str
) -> tuple[list[EntryRow], list[Defect], list[str]]:
    """Accuracies of one column in percent; fractions times 100, exactly."""
    values = values_of(rows, name)
    known = [value for value in values if value is not None]
    column = f"{name}Accuracy"
    if not known or max(known) <= 0:
        return rows, [], []
    if max(known) <= LEAST_FRACTION:
        note = f"{column} never exceeds {max(known)}: percent or fractions cannot be told apart"
        return with_values(rows, name, [None] * len(rows)), [], [note]
    if are_fractions(known):
        lines = [row.line for row, value in zip(rows, values, strict=True) if value is not None]
        defects = at_lines("accuracy_0_to_1", file, lines, f"{column} is a fraction from 0 to 1; the form has percent")
        # scaleb, not times 100: it keeps the number of digits that were printed.
        return with_values(rows, name, [value if value is None else value.scaleb(2) for value in values]), defects, []
    lone = [index for index, value in enumerate(values) if value is not None and _lone_fraction(values, index)]
    message = f"{column} is at most 1 between rows of far more: a fraction, or a collapse; not read"
    defects = at_lines("accuracy_0_to_1", file, [rows[index].line for index in lone], message)
    return (
        with_values(rows, name, [None if index in lone else value for index, value in enumerate(values)]),
        defects,
        [],
    )


def _lone_fraction(values: Values, index: int) -> bool:
    """A value up to 1 after a row, and before one if there is any, above 20 %."""
    value = values[index]
    if value is None or value > 1:
        return False
    before = next((other for other in reversed(values[:index]) if other is not None and other > 1), None)
    after = next((other for other in values[index + 1 :] if other is not None and other > 1), before)
    return before is not None and after is not None and min(before, after) > 20


def _possible(rows: list[EntryRow], file: str) -> tuple[list[EntryRow], list[Defect]]:
    """Leave out values that cannot be: above 100 %, below nothing, top-1 above top-5."""
    places: dict[tuple[str, str], list[int]] = {}
    kept = []
    both = any(row.top1 is not None and row.top5 is not None for row in rows)
    for row in rows:
        wrong: list[Name] = []
        for name in NAMES:
            value = values_of([row], name)[0]
            if value is not None and value < 0:
                places.setdefault(("negative_value", f"{name} below 0"), []).append(row.line)
                wrong.append(name)
            if value is not None and value > 100 and name in ("top1", "top5"):
                places.setdefault(("accuracy_above_100", f"{name}Accuracy above 100 %"), []).append(row.line)
                wrong.append(name)
        for name in wrong:
            row = put(row, name, None)
        if row.top1 is not None and row.top5 is not None and row.top1 > row.top5:
            places.setdefault(("top1_above_top5", "top-1 cannot exceed top-5; neither is read"), []).append(row.line)
            row = replace(row, top1=None, top5=None)
        if row.top1 is not None and row.top5 is not None and row.top1 < least_top1(row.top5):
            message = "top-1 and top-5 are too far apart for one model; neither is read"
            places.setdefault(("accuracies_implausible", message), []).append(row.line)
            row = replace(row, top1=None, top5=None)
        if both and (row.top1 is None or row.top5 is None):
            # The one that is left has lost its check, that top-1 is not above top-5.
            row = replace(row, top1=None, top5=None)
        kept.append(row)
    return kept, [d for (code, message), lines in places.items() for d in at_lines(code, file, lines, message)]


def _without_spikes(rows: list[EntryRow], file: str) -> tuple[list[EntryRow], list[Defect]]:
    """Leave out rows whose top-5 is high and far above both rows beside it: training does not do that."""
    known = [index for index, row in enumerate(rows) if row.top5 is not None]
    values = [rows[index].top5 or Decimal(0) for index in known]
    spikes = [
        index
        for index, before, value, after in zip(known[:-1], [Decimal(0), *values], values, values[1:], strict=False)
        if value >= SPIKE_FROM and max(before, after) < value - SPIKE
    ]
    message = f"top-5 is more than {SPIKE} % above the rows before and after; not read"
    lone = frozenset(spikes)
    kept = [replace(row, top1=None, top5=None) if index in lone else row for index, row in enumerate(rows)]
    return kept, at_lines("accuracy_spike", file, [rows[index].line for index in spikes], message)


def _epoch_defects(rows: Sequence[EntryRow], file: str) -> list[Defect]:
    """First label 0, fractions, labels that do not rise."""
    known = [(row.line, row.epoch) for row in rows if row.epoch is not None]
    defects = []
    if rows and rows[0].epoch == 0:
        message = "epochs are counted from 0; the first row is the untrained model, or one epoch more than it says"
        defects += at_lines("epoch_from_0", file, [rows[0].line], message)
    fractions = [line for line, epoch in known if epoch % 1]
    if fractions:
        message = f"{len(fractions)} epochs are not whole"
        defects.append(Defect(code="fractional_epochs", file=file, line=fractions[0], message=message))
    falls = [(line, after) for (_, before), (line, after) in pairwise(known) if after <= before]
    if falls:
        many = len(falls) > MAX_PLACES
        labels = f"{len(falls)}x" if many else "at_" + "/".join(f"{epoch.normalize():f}" for _, epoch in falls)
        code = f"epoch_not_increasing_{labels}"
        defects += at_lines(code, file, [line for line, _ in falls], "the epoch is not above that of the row before")
    return defects


def _hour_defects(rows: Sequence[EntryRow], file: str) -> list[Defect]:
    """Rows at zero hours, hours that do not rise."""
    known = [(row.line, row.hours) for row in rows if row.hours is not None]
    zero = [line for line, hours in known if hours == 0]
    defects = at_lines("row_at_0_hours", file, zero, "a row before any time has passed")
    falls = [line for (_, before), (line, after) in pairwise(known) if after <= before]
    message = "the hours are not above those of the row before"
    return defects + at_lines(f"hours_not_increasing_{len(falls)}x", file, falls, message)
