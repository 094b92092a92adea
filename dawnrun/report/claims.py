"""Entries of DAWNBench's competition, and the published records that come with dawnrun, as claims."""

from decimal import Decimal
from pathlib import Path

from dawnrun.report.audit import Audit, audit
from dawnrun.report.claim import Claim, ClaimRow
from dawnrun.report.naive import TARGET_TOP5
from dawnrun.report.records import Record, find_record, record_of


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
