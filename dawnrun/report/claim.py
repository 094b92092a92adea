"""What others say of a run of theirs, in one form: a DAWNBench entry, an MLPerf result log, a published record."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Literal

from dawnrun import text
from dawnrun.clock import RULES, Rule
from dawnrun.report import words
from dawnrun.report.audit import Audit, audit
from dawnrun.report.naive import TARGET_TOP5
from dawnrun.report.records import Record, find_record, record_of


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimRow:
    """One validation of a claim: an epoch from 1, hours of its own clock, percent."""

    epoch: float | None
    hours: float | None
    top1: float | None
    top5: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """Figures as claimed, None where they are not known; `rule`: that of clock.py nearest to the stated clock.

    `seconds` is the time to `target`, `top1` and `top5` percent when it was reached; `defects` are codes of the audit.
    """

    kind: Literal["DAWNBench entry", "MLPerf result log", "published record"]
    name: str
    source: str
    organisation: str | None = None
    date: str | None = None
    hardware: str | None = None
    model: str | None = None
    target: str | None = None
    reached: bool | None = None
    seconds: float | None = None
    rule: Rule = "dawnbench"
    clock_contains: str | None = None
    epoch: float | None = None
    top1: float | None = None
    top5: float | None = None
    best_top1: float | None = None
    best_top5: float | None = None
    validation_images: str | None = None
    cost_usd: float | None = None
    rows: tuple[ClaimRow, ...] = ()
    defects: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Others:
    """What runs are shown beside: claims read from files, and published records that they are compared with."""

    claims: tuple[Claim, ...] = ()
    records: tuple[Claim, ...] = ()


NO_OTHERS = Others()


def read_entry(tsv: Path, json: Path | None) -> Claim:
    """A DAWNBench entry as the audit reads it. ReportError where a file cannot be read at all."""
    return entry_claim(audit(tsv, json), str(tsv))


def entry_claim(found: Audit, source: str) -> Claim:
    """What an audited entry claims; its clock is said to be DAWNBench's, unless more is known of the very run."""
    figures = found.figures
    record = record_of(figures.timestamp, figures.seconds_top5_93)
    below = figures.best_top5 is not None and figures.best_top5 < TARGET_TOP5
    return Claim(
        kind="DAWNBench entry",
        name=figures.file,
        source=source,
        organisation=found.author,
        date=figures.timestamp,
        hardware=found.hardware,
        model=figures.model,
        target=f"top5>={TARGET_TOP5}",
        reached=True if figures.epoch_top5_93 is not None else False if below else None,
        seconds=_float(figures.seconds_top5_93),
        rule=record.clock_rule if record else "dawnbench",
        clock_contains=record.clock_contains if record else None,
        epoch=_float(figures.epoch_top5_93),
        top5=_float(figures.top5_at_crossing),
        best_top1=_float(figures.best_top1),
        best_top5=_float(figures.best_top5),
        validation_images=figures.val_images,
        cost_usd=_float(figures.cost_usd_exact),
        rows=tuple(
            ClaimRow(epoch=_float(row.epoch), hours=_float(row.hours), top1=_float(row.top1), top5=_float(row.top5))
            for row in found.rows
        ),
        defects=tuple(dict.fromkeys(defect.code for defect in found.defects)),
        notes=found.notes,
    )


def published(name: str) -> Claim:
    """The published record of that name. Raises UsageError for an unknown one, with the nearest."""
    return record_claim(find_record(name))


def record_claim(record: Record) -> Claim:
    """A record of configs/records.csv as a claim."""
    images = record.validation_images
    return Claim(
        kind="published record",
        name=record.name,
        source=record.source,
        organisation=record.organisation,
        date=record.date,
        hardware=_hardware(record),
        model=record.model,
        target=record.target,
        reached=None,
        seconds=_float(record.seconds),
        rule=record.clock_rule,
        clock_contains=record.clock_contains,
        epoch=_float(record.epochs),
        top1=_float(record.top1),
        top5=_float(record.top5),
        validation_images=None if images is None else str(images),
        cost_usd=_float(record.cost_usd),
    )


def _hardware(record: Record) -> str | None:
    """The hardware as published, with number and kind of its devices where it does not name them."""
    devices = f"{record.devices or ''} x {record.device}" if record.device else None
    if record.hardware and devices and record.device and record.device.split()[-1] not in record.hardware:
        return f"{record.hardware} ({devices.removeprefix(' x ')})"
    return record.hardware or devices


def _float(value: Decimal | None) -> float | None:
    return None if value is None else float(value)


def column(claim: Claim) -> dict[str, str]:
    """The claim's cells in a comparison of runs, by the name of the row."""
    outcome = {True: "reached", False: "not reached", None: "claimed" if claim.seconds is not None else "-"}
    clock = "-" if claim.seconds is None else words.clock_text(claim.seconds)
    return {
        "kind": claim.kind,
        "outcome": outcome[claim.reached],
        "target": words.plain(claim.target or "-"),
        "epoch of crossing": words.number(claim.epoch, "g"),
        **{f"time, {rule}": clock if rule == claim.rule else "-" for rule in RULES},
        "cost to target": "-" if claim.cost_usd is None else text.money(claim.cost_usd),
        "best top-5 %": words.percent(claim.best_top5),
        "best top-1 %": words.percent(claim.best_top1),
        "final top-5 %": words.percent(claim.rows[-1].top5 if claim.rows else None),
        "final top-1 %": words.percent(claim.rows[-1].top1 if claim.rows else None),
        "recipe": words.plain(claim.model or "-"),
        "machine": words.plain(claim.hardware or "-"),
    }


def remarks(claim: Claim) -> Sequence[str]:
    """What a reader must know beside the claim's figures, in plain words."""
    told = [f"{claim.kind}; its clock contains: {claim.clock_contains or 'not published'}"]
    if claim.defects:
        told.append(f"malformed: {', '.join(claim.defects)} (report --audit has the lines)")
    return [words.plain(remark) for remark in (*told, *claim.notes)]
