"""The order and the clock of an entry: rows out of order, missing epochs, durations, and hours that contradict others."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import accumulate, pairwise
from statistics import median
from typing import Literal

from dawnrun.report.columns import EntryRow
from dawnrun.report.defect import Defect, at_lines

Values = list[Decimal | None]
Name = Literal["epoch", "hours", "top1", "top5"]
NAMES: tuple[Name, ...] = ("epoch", "hours", "top1", "top5")
MAX_STEP = 50
"""Times the median epoch. Published epochs, the last ones at larger images, take up to seven times."""


def values_of(rows: Sequence[EntryRow], name: Name) -> Values:
    """One figure of every row."""
    return [getattr(row, name) for row in rows]


def with_values(rows: Sequence[EntryRow], name: Name, values: Sequence[Decimal | None]) -> list[EntryRow]:
    """The rows with one figure of each replaced."""
    return [put(row, name, value) for row, value in zip(rows, values, strict=True)]


def put(row: EntryRow, name: Name, value: Decimal | None) -> EntryRow:
    """The row with one figure replaced."""
    if name == "epoch":
        return replace(row, epoch=value)
    if name == "hours":
        return replace(row, hours=value)
    return replace(row, top1=value) if name == "top1" else replace(row, top5=value)


def without_doubles(rows: list[EntryRow]) -> tuple[list[EntryRow], list[str]]:
    """Rows without those that repeat the row before in every figure."""
    pairs = pairwise(rows)
    doubled = {after.line for before, after in pairs if after.epoch is not None and _same(before, after)}
    notes = [f"line {line} repeats the row before it: read once" for line in sorted(doubled)]
    return [row for row in rows if row.line not in doubled], notes


def _same(one: EntryRow, other: EntryRow) -> bool:
    return replace(one, line=other.line) == other


def may_be_one(one: EntryRow, other: EntryRow) -> bool:
    """Whether nothing that is known of two rows tells them apart: perhaps one row written twice."""
    pairs = (values_of([one, other], name) for name in NAMES)
    return all(left is None or right is None or left == right for left, right in pairs)


def in_order(rows: list[EntryRow]) -> tuple[list[EntryRow], list[str]]:
    """Rows by epoch where that puts the clock right too: they were written out of order."""
    if any(row.epoch is None or row.hours is None for row in rows) or _rises(values_of(rows, "hours")):
        return rows, []
    ordered = sorted(rows, key=lambda row: row.epoch or Decimal(0))
    if ordered == rows or not _rises(values_of(ordered, "hours")) or not _rises(values_of(ordered, "epoch")):
        return rows, []
    return ordered, ["rows are out of order: sorted by epoch both epochs and hours rise, and so they are read"]


def _rises(values: Values) -> bool:
    known = [value for value in values if value is not None]
    return all(after > before for before, after in pairwise(known))


def find_gaps(rows: Sequence[EntryRow], file: str) -> tuple[frozenset[int], list[Defect]]:
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


def settle_epochs(rows: list[EntryRow], gaps: frozenset[int]) -> list[EntryRow]:
    """Leave out labels that contradict others: above a later one, or repeated where the next is missing."""
    labels = values_of(rows, "epoch")
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
    return with_values(rows, "epoch", kept)


def settle_hours(rows: list[EntryRow], gaps: frozenset[int]) -> tuple[list[EntryRow], list[str]]:
    """Hours of a running clock: durations summed, values in doubt left out."""
    hours = values_of(rows, "hours")
    if _rises(hours):
        return rows, []
    if _are_durations(hours):
        note = "hours are durations of single epochs: times here are their sums"
        return with_values(rows, "hours", _summed(hours, gaps | _unrisen(rows))), [note]
    settled = _without_doubtful(hours)
    if settled == hours:
        return rows, []
    note = "the clock goes back: a wrong figure or a restart; times that depend on which are left open"
    return with_values(rows, "hours", settled), [note]


def without_jump(rows: list[EntryRow], file: str) -> tuple[list[EntryRow], list[Defect]]:
    """Leave out the last row's hours where they are far from all before: no later row confirms them."""
    known = [row.hours for row in rows if row.hours is not None]
    steps = [after - before for before, after in pairwise(known)]
    if len(steps) < 3 or rows[-1].hours is None or steps[-1] <= MAX_STEP * median(steps):
        return rows, []
    message = f"the clock jumps by {steps[-1].normalize():f} hours, over {MAX_STEP} times an epoch; not read"
    return [*rows[:-1], replace(rows[-1], hours=None)], at_lines("hours_jump", file, [rows[-1].line], message)


def _are_durations(hours: Values) -> bool:
    """Durations of epochs lie close together and fall about as often as they rise; a clock does neither."""
    known = [value for value in hours if value is not None]
    falls = sum(after <= before for before, after in pairwise(known))
    if len(known) < 3 or min(known) < 0 or any(value == 0 for value in known[1:]) or 5 * falls < len(known) - 1:
        return False
    middle = median(known)
    return median(abs(after - before) for before, after in pairwise(known)) <= middle / 4


def _unrisen(rows: Sequence[EntryRow]) -> frozenset[int]:
    """Rows whose label is not certain or repeats: perhaps the same epoch twice."""
    labels = values_of(rows, "epoch")
    pairs = enumerate(pairwise(labels), 1)
    return frozenset(index for index, (one, two) in pairs if one is None or two is None or two <= one)


def _summed(durations: Values, unsure: frozenset[int]) -> Values:
    """Running sums, until an epoch may be missing or doubled or its duration is far from the others'."""
    total: Decimal | None = Decimal(0)
    middle = median(duration for duration in durations if duration is not None)
    sums: Values = []
    for index, duration in enumerate(durations):
        if (
            total is None
            or duration is None
            or index in unsure
            or ((duration or index) and not middle / MAX_STEP <= duration <= middle * MAX_STEP)
        ):
            total = None
        else:
            total += duration
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
