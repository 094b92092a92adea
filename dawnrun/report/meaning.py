"""What an entry's figures mean: percent or fractions, a running clock or durations, and where that cannot be said."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import accumulate, pairwise
from statistics import median
from typing import Literal

from dawnrun.report.columns import EntryRow
from dawnrun.report.defect import MAX_PLACES, Defect, at_lines

Values = list[Decimal | None]
Name = Literal["epoch", "hours", "top1", "top5"]
NAMES: tuple[Name, ...] = ("epoch", "hours", "top1", "top5")
LEAST_FRACTION = Decimal("0.05")
"""Best accuracy below which 0 to 1 cannot be told from 0 to 100 percent: 5 % or 0.05 %, both of an untrained model."""


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
    defects += more + _epoch_defects(found, file) + _hour_defects(found, file)
    found, note = _in_order(found)
    notes += note
    gaps, more = _gaps(found, file)
    defects += more
    found = _settle_epochs(found, gaps)
    found, note = _settle_hours(found, gaps)
    notes += note
    return Meaning(rows=tuple(found), gaps=gaps, defects=tuple(_joined(defects)), notes=tuple(notes))


def _joined(defects: Sequence[Defect]) -> Iterator[Defect]:
    """Defects without repeats (top-1 and top-5 may share one)."""
    return iter(dict.fromkeys(defects))


def _values(rows: Sequence[EntryRow], name: Name) -> Values:
    return [getattr(row, name) for row in rows]


def _with(rows: Sequence[EntryRow], name: Name, values: Sequence[Decimal | None]) -> list[EntryRow]:
    return [_put(row, name, value) for row, value in zip(rows, values, strict=True)]


def _put(row: EntryRow, name: Name, value: Decimal | None) -> EntryRow:
    if name == "epoch":
        return replace(row, epoch=value)
    if name == "hours":
        return replace(row, hours=value)
    return replace(row, top1=value) if name == "top1" else replace(row, top5=value)


def _percent(
    rows: list[EntryRow], name: Literal["top1", "top5"], file: str
) -> tuple[list[EntryRow], list[Defect], list[str]]:
    """Accuracies of one column in percent; fractions times 100, exactly."""
    values = _values(rows, name)
    known = [value for value in values if value is not None]
    column = f"{name}Accuracy"
    if not known or max(known) <= 0:
        return rows, [], []
    if max(known) <= LEAST_FRACTION:
        note = f"{column} never exceeds {max(known)}: percent or fractions cannot be told apart"
        return _with(rows, name, [None] * len(rows)), [], [note]
    if max(known) <= 1:
        lines = [row.line for row, value in zip(rows, values, strict=True) if value is not None]
        defects = at_lines("accuracy_0_to_1", file, lines, f"{column} is a fraction from 0 to 1; the form has percent")
        # scaleb, not times 100: it keeps the number of digits that were printed.
        return _with(rows, name, [value if value is None else value.scaleb(2) for value in values]), defects, []
    lone = [index for index, value in enumerate(values) if value is not None and _lone_fraction(values, index)]
    message = f"{column} is at most 1 between rows of far more: a fraction, or a collapse; not read"
    defects = at_lines("accuracy_0_to_1", file, [rows[index].line for index in lone], message)
    return _with(rows, name, [None if index in lone else value for index, value in enumerate(values)]), defects, []


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
    for row in rows:
        wrong: list[Name] = []
        for name in NAMES:
            value = _values([row], name)[0]
            if value is not None and value < 0:
                places.setdefault(("negative_value", f"{name} below 0"), []).append(row.line)
                wrong.append(name)
            if value is not None and value > 100 and name in ("top1", "top5"):
                places.setdefault(("accuracy_above_100", f"{name}Accuracy above 100 %"), []).append(row.line)
                wrong.append(name)
        if not wrong and row.top1 is not None and row.top5 is not None and row.top1 > row.top5:
            places.setdefault(("top1_above_top5", "top-1 cannot exceed top-5; neither is read"), []).append(row.line)
            wrong = ["top1", "top5"]
        for name in wrong:
            row = _put(row, name, None)
        kept.append(row)
    return kept, [d for (code, message), lines in places.items() for d in at_lines(code, file, lines, message)]


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


def _in_order(rows: list[EntryRow]) -> tuple[list[EntryRow], list[str]]:
    """Rows by epoch where that puts the clock right too: they were written out of order."""
    if any(row.epoch is None or row.hours is None for row in rows) or _rises(_values(rows, "hours")):
        return rows, []
    ordered = sorted(rows, key=lambda row: row.epoch or Decimal(0))
    if ordered == rows or not _rises(_values(ordered, "hours")) or not _rises(_values(ordered, "epoch")):
        return rows, []
    return ordered, ["rows are out of order: sorted by epoch both epochs and hours rise, and so they are read"]


def _rises(values: Values) -> bool:
    known = [value for value in values if value is not None]
    return all(after > before for before, after in pairwise(known))


def _gaps(rows: Sequence[EntryRow], file: str) -> tuple[frozenset[int], list[Defect]]:
    """Rows before which labels are missing, where most rows are one epoch apart."""
    steps = {
        index: after.epoch - before.epoch
        for index, (before, after) in enumerate(pairwise(rows), 1)
        if before.epoch is not None and after.epoch is not None
    }
    whole = all(row.epoch is None or row.epoch % 1 == 0 for row in rows)
    if not whole or 2 * sum(step == 1 for step in steps.values()) <= len(steps):
        return frozenset(), []
    gaps = [index for index, step in steps.items() if step > 1]
    defects = []
    for index in gaps:
        last = rows[index].epoch
        assert last is not None
        missing = range(int(last - steps[index]) + 1, int(last))
        label = str(missing[0]) if len(missing) == 1 else f"{missing[0]}-{missing[-1]}"
        message = f"epoch {label} has no row"
        defects += at_lines(f"epoch_missing_{label}", file, [rows[index].line], message)
    return frozenset(gaps), defects


def _settle_epochs(rows: list[EntryRow], gaps: frozenset[int]) -> list[EntryRow]:
    """Leave out labels that contradict others: above a later one, or repeated where the next is missing."""
    labels = _values(rows, "epoch")
    known = [label for label in labels if label is not None]
    if _rises(labels):
        return rows
    repeated = {label for label, times in Counter(known).items() if times > 1}
    highest = accumulate(known, max)
    lowest = reversed(list(accumulate(reversed(known), min)))
    bounds = iter(list(zip(highest, lowest, strict=True)))
    kept: Values = []
    for index, label in enumerate(labels):
        if label is None:
            kept.append(None)
            continue
        high, low = next(bounds)
        doubtful = high > label or low < label or (label in repeated and gaps & {index, index + 1})
        kept.append(None if doubtful else label)
    return _with(rows, "epoch", kept)


def _settle_hours(rows: list[EntryRow], gaps: frozenset[int]) -> tuple[list[EntryRow], list[str]]:
    """Hours of a running clock: durations summed, values in doubt left out."""
    hours = _values(rows, "hours")
    if _rises(hours):
        return rows, []
    if _are_durations(hours):
        note = "hours are durations of single epochs: times here are their sums"
        return _with(rows, "hours", _summed(hours, gaps)), [note]
    settled = _without_doubtful(hours)
    if settled == hours:
        return rows, []
    note = "the clock goes back: a wrong figure or a restart; times that depend on which are left open"
    return _with(rows, "hours", settled), [note]


def _are_durations(hours: Values) -> bool:
    """Durations of epochs lie close together and fall about as often as they rise; a clock does neither."""
    known = [value for value in hours if value is not None]
    falls = sum(after <= before for before, after in pairwise(known))
    if len(known) < 3 or min(known) < 0 or any(value == 0 for value in known[1:]) or 5 * falls < len(known) - 1:
        return False
    middle = median(known)
    return median(abs(after - before) for before, after in pairwise(known)) <= middle / 4


def _summed(durations: Values, gaps: frozenset[int]) -> Values:
    """Running sums, until an epoch is missing."""
    total: Decimal | None = Decimal(0)
    sums: Values = []
    for index, duration in enumerate(durations):
        lost = total is None or duration is None or index in gaps
        total = None if lost or total is None or duration is None else total + duration
        sums.append(total)
    return sums


def _without_doubtful(hours: Values) -> Values:
    """The clock without the values that contradict it; None from a fall on that no single wrong value explains."""
    known = [(index, value) for index, value in enumerate(hours) if value is not None]
    kept = list(hours)
    for place in range(1, len(known)):
        (before, high), (index, low) = known[place - 1], known[place]
        if low >= high:
            continue
        raised = place >= 2 and known[place - 2][1] < low
        lowered = place + 1 == len(known) or known[place + 1][1] > high
        if not raised and not lowered:
            return [*kept[:before], *[None] * (len(hours) - before)]
        for doubtful, wrong in ((before, raised), (index, lowered)):
            kept[doubtful] = None if wrong else kept[doubtful]
    return kept
