"""Audits anyone's DAWNBench entry: reads tolerantly, judges strictly, says what its figures mean.

A figure is None where the file does not decide it. Rules: the time is the hours of the first row with top-5 >= 93
(README of stanford-futuredata/dawn-bench-entries), its clock is rounded up to whole seconds as that board did, its
cost is hours times costPerHour. All arithmetic is decimal and exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_HALF_UP, Context, Decimal, localcontext
from itertools import pairwise
from pathlib import Path
from typing import Literal

from dawnrun.report.columns import EntryRow, read_rows
from dawnrun.report.defect import Defect
from dawnrun.report.entry import Table, read_bytes, read_table
from dawnrun.report.entry_clock import may_be_one
from dawnrun.report.entry_json import JsonEntry, read_json
from dawnrun.report.meaning import Meaning, interpret
from dawnrun.report.naive import TARGET_TOP5, NaiveReading, read_naively
from dawnrun.report.price import judge_price
from dawnrun.report.records import record_of
from dawnrun.report.val_images import infer

MARK_TOP1 = Decimal(75)
"""The second mark of the golden figures: the first row with top-1 >= 75 %."""
ROOM = Decimal(3)
"""Percent by which an unread accuracy may exceed its neighbours and must be reckoned with."""
_EXACT = Context(prec=80)

Figure = Decimal | int | str | None
Name = Literal["top1", "top5"]
UNSURE = object()


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """The figures of an entry, None where undecidable or absent; percent, hours, seconds, USD."""

    file: str
    model: str | None = None
    timestamp: str | None = None
    rows: int | None = None
    first_epoch: Decimal | None = None
    last_epoch: Decimal | None = None
    epoch_top5_93: Decimal | None = None
    hours_top5_93: Decimal | None = None
    seconds_top5_93: Decimal | None = None
    clock_nearest: str | None = None
    clock_leaderboard: str | None = None
    top5_at_crossing: Decimal | None = None
    cost_per_hour_usd: Decimal | None = None
    cost_usd_exact: Decimal | None = None
    cost_usd_2dp: Decimal | None = None
    epoch_top1_75: Decimal | None = None
    hours_top1_75: Decimal | None = None
    seconds_top1_75: Decimal | None = None
    best_top5: Decimal | None = None
    best_top1: Decimal | None = None
    dips_below_93_later: int | None = None
    val_images: str | None = None
    published_clock: str | None = None
    published_agrees: str | None = None
    published_source: str | None = None
    strict_reader: str | None = None
    naive_time_hours: Decimal | None = None
    true_time_hours: Decimal | None = None
    passes_dawnbench_test: str | None = None
    hours_read_by_that_test_reader: Decimal | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A file's name, for messages, and its bytes."""

    file: str
    data: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Audit:
    """What an entry says and what is wrong with it; `notes`: what must be said beside the figures.

    `rows` are those of the TSV as they are read; `author` and `hardware` the JSON's own words.
    """

    figures: Figures
    defects: tuple[Defect, ...]
    notes: tuple[str, ...]
    rows: tuple[EntryRow, ...] = ()
    author: str | None = None
    hardware: str | None = None


def audit(tsv: Path | None, json: Path | None = None) -> Audit:
    """Audit a training entry; either file may be absent. ReportError where a file cannot be read at all."""
    return audit_bytes(
        (tsv or json or Path()).stem,
        tsv=None if tsv is None else Source(file=str(tsv), data=read_bytes(tsv)),
        json=None if json is None else Source(file=str(json), data=read_bytes(json)),
    )


def audit_bytes(name: str, *, tsv: Source | None, json: Source | None) -> Audit:
    """Audit a training entry from its files' bytes; never raises."""
    with localcontext(_EXACT):
        figures = Figures(file=name)
        defects, notes, rows = list[Defect](), list[str](), tuple[EntryRow, ...]()
        entry = read_json(json.data, json.file) if json else None
        if entry:
            figures = replace(figures, model=entry.text("model"), timestamp=entry.text("timestamp"))
        if tsv:
            figures, defects, notes, rows = _audit_table(read_table(tsv.data, tsv.file), figures)
        else:
            notes = ["no TSV was given: nothing to time"]
        if entry:
            figures, more, said = _priced(entry, figures)
            defects = [*defects, *entry.defects, *more]
            notes = [*notes, *entry.notes, *said]
        return Audit(
            figures=_published(figures),
            defects=tuple(defects),
            notes=tuple(notes),
            rows=rows,
            author=entry.text("author") if entry else None,
            hardware=entry.text("hardware") if entry else None,
        )


def _audit_table(table: Table, figures: Figures) -> tuple[Figures, list[Defect], list[str], tuple[EntryRow, ...]]:
    """Figures, defects, notes and rows of a TSV."""
    rows, defects = read_rows(table)
    meaning = interpret(rows, table.file)
    timed = _timed(meaning, replace(figures, rows=len(rows)))
    validation = infer([(row.top1, row.top5) for row in meaning.rows if row.top1 is not None and row.top5 is not None])
    timed = _naive(replace(timed, val_images=validation.text), read_naively(table.text))
    dips, lines = _dips(meaning)
    if lines:
        message = f"top-5 below {TARGET_TOP5} again after the crossing; the first crossing counts"
        dip = Defect(code="dips_below_93_after_crossing", file=table.file, line=lines[0], message=message)
        defects.append(dip)
    notes = [*meaning.notes, *_notes(meaning, timed), *filter(None, [validation.note])]
    return replace(timed, dips_below_93_later=dips), [*table.defects, *defects, *meaning.defects], notes, meaning.rows


def _timed(meaning: Meaning, figures: Figures) -> Figures:
    """The figures of time and accuracy."""
    rows = meaning.rows
    hit, mark = _first(meaning, "top5", TARGET_TOP5), _first(meaning, "top1", MARK_TOP1)
    if isinstance(hit, EntryRow):
        seconds = None if hit.hours is None else hit.hours * 3600
        figures = replace(
            figures,
            epoch_top5_93=hit.epoch,
            hours_top5_93=hit.hours,
            true_time_hours=hit.hours,
            seconds_top5_93=seconds,
            clock_nearest=None if seconds is None else clock(seconds, ROUND_HALF_UP),
            clock_leaderboard=None if seconds is None else clock(seconds, ROUND_CEILING),
            top5_at_crossing=hit.top5,
        )
    if isinstance(mark, EntryRow):
        seconds = None if mark.hours is None else mark.hours * 3600
        figures = replace(figures, epoch_top1_75=mark.epoch, hours_top1_75=mark.hours, seconds_top1_75=seconds)
    return replace(
        figures,
        first_epoch=rows[0].epoch if rows else None,
        last_epoch=rows[-1].epoch if rows else None,
        best_top5=_best(meaning, "top5"),
        best_top1=_best(meaning, "top1"),
    )


def clock(seconds: Decimal, rounding: str) -> str:
    """`h:mm:ss` in whole seconds."""
    whole = int(seconds.to_integral_value(rounding=rounding))
    return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"


def _accuracies(meaning: Meaning, name: Name) -> list[Decimal | None]:
    return [row.top1 if name == "top1" else row.top5 for row in meaning.rows]


def _first(meaning: Meaning, name: Name, mark: Decimal) -> object:
    """The first row at `mark` or above, None if there is none, UNSURE where an unread row may come before it."""
    values = _accuracies(meaning, name)
    bounds = _bounds(values)
    for index, (row, value) in enumerate(zip(meaning.rows, values, strict=True)):
        unread = value is None or index in meaning.gaps
        if unread and _may_reach(bounds[index], mark):
            return UNSURE
        if value is not None and value >= mark:
            return row
    return None


def _bounds(values: Sequence[Decimal | None]) -> list[Decimal | None]:
    """For each row, the higher of the last accuracy known before it and the next from it on; None without a next."""
    before, after = [None, *_latest(values)], _latest(values[::-1])[::-1]
    return [None if right is None else max(left or right, right) for left, right in zip(before, after, strict=False)]


def _latest(values: Sequence[Decimal | None]) -> list[Decimal | None]:
    """For each row, the last accuracy known up to it."""
    known: Decimal | None = None
    latest = list[Decimal | None]()
    for value in values:
        known = known if value is None else value
        latest.append(known)
    return latest


def _may_reach(bound: Decimal | None, mark: Decimal) -> bool:
    """Whether what was not read between two known accuracies may be `mark` or more."""
    return bound is None or bound + ROOM >= mark


def _best(meaning: Meaning, name: Name) -> Decimal | None:
    """The highest accuracy, None where an unread one may be higher."""
    values = _accuracies(meaning, name)
    best = max((value for value in values if value is not None), default=None)
    if best is None:
        return None
    unread = [
        bound
        for index, (value, bound) in enumerate(zip(values, _bounds(values), strict=True))
        if value is None or index in meaning.gaps
    ]
    return None if any(_may_reach(bound, best) for bound in unread) else best


def _dips(meaning: Meaning) -> tuple[int | None, list[int]]:
    """How many rows after the crossing are below the target, and their lines."""
    hit = _first(meaning, "top5", TARGET_TOP5)
    if not isinstance(hit, EntryRow):
        return None, []
    start = meaning.rows.index(hit)
    later = meaning.rows[start:]
    unread = any(row.top5 is None for row in later) or any(gap > start for gap in meaning.gaps)
    lines = [row.line for row in later if row.top5 is not None and row.top5 < TARGET_TOP5]
    twice = any(may_be_one(before, after) for before, after in pairwise(later) if after.line in lines)
    return (None if unread or twice else len(lines)), lines


def _notes(meaning: Meaning, figures: Figures) -> list[str]:
    """Why there is no time, where there is none."""
    hit = _first(meaning, "top5", TARGET_TOP5)
    if hit is None:
        best = "" if figures.best_top5 is None else f": the best row has {figures.best_top5.normalize():f} %"
        return [f"top-5 {TARGET_TOP5} % not reached{best}"]
    if hit is UNSURE:
        return ["the first row at 93 % cannot be told: a row that may have been there cannot be read or is missing"]
    return [] if figures.hours_top5_93 is not None else ["the hours of the first row at 93 % cannot be told"]


def _naive(figures: Figures, reading: NaiveReading) -> Figures:
    return replace(
        figures,
        strict_reader=reading.strict_reader,
        naive_time_hours=reading.naive_time_hours,
        passes_dawnbench_test=reading.passes_dawnbench_test,
        hours_read_by_that_test_reader=reading.hours_read_by_that_test_reader,
    )


def _priced(entry: JsonEntry, figures: Figures) -> tuple[Figures, list[Defect], list[str]]:
    """Cost figures, with the check that the price is that of all machines."""
    printed = entry.number("costPerHour")
    if printed is None:
        lost = "costPerHour" in entry.fields and entry.fields["costPerHour"] is not None
        return figures, [], ["costPerHour cannot be read as one number: no cost"] if lost else []
    price = judge_price(printed, entry.text("hardware") or "")
    line = entry.lines["costPerHour"]
    defects = [Defect(code=price.code, file=entry.file, line=line, message=price.message)] if price.code else []
    notes = [f"cost reckoned with {price.usd_per_hour} USD an hour"] if price.code and price.usd_per_hour else []
    hours, rate = figures.hours_top5_93, price.usd_per_hour
    cost = None if hours is None or rate is None else hours * rate
    cents = None if cost is None else cost.quantize(Decimal("0.01"), ROUND_HALF_UP)
    priced = replace(figures, cost_per_hour_usd=rate, cost_usd_exact=cost, cost_usd_2dp=cents)
    return priced, defects, [*notes, *filter(None, [price.note])]


def _published(figures: Figures) -> Figures:
    """What was published of this very run, found by its date and its seconds."""
    record = record_of(figures.timestamp, figures.seconds_top5_93)
    if record is None or record.published_clock is None:
        return figures
    return replace(
        figures,
        published_clock=record.published_clock,
        published_agrees="yes" if record.published_clock == figures.clock_leaderboard else "no",
        published_source=record.published_source,
    )
