"""The published records that come with dawnrun (configs/records.csv), each with its source."""

import csv
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import cast

from dawnrun.clock import Rule
from dawnrun.errors import UsageError
from dawnrun.text import nearest


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """A published run. Empty cells of the file are None: not published, or not read.

    `clock_rule`: the rule of clock.py nearest to the stated clock, `clock_contains`: what was said of it.
    `seconds` exact as published, `cost_usd` on demand, `top1` and `top5` percent when the target was reached.
    """

    name: str
    organisation: str
    date: str | None
    hardware: str | None
    devices: int | None
    device: str | None
    model: str | None
    seconds: Decimal | None
    clock_rule: Rule
    clock_contains: str | None
    target: str | None
    epochs: Decimal | None
    top1: Decimal | None
    top5: Decimal | None
    validation_images: int | None
    cost_usd: Decimal | None
    published_clock: str | None
    published_source: str | None
    source: str


@cache
def load_records() -> tuple[Record, ...]:
    """All records, in the file's order."""
    with _path().open(encoding="utf-8", newline="") as file:
        return tuple(_record(row) for row in csv.DictReader(file))


def find_record(name: str) -> Record:
    """The record of that name. Raises UsageError for an unknown one, with the nearest."""
    records = {record.name: record for record in load_records()}
    if name in records:
        return records[name]
    near = nearest(name, records)
    hint = f"\n    did you mean {near}?" if near else ""
    raise UsageError(f"{name!r}: no published record of that name\n    known: {', '.join(records)}{hint}")


def record_of(date: str | None, seconds: Decimal | None) -> Record | None:
    """The record of a run with that date and time, to the millisecond; None if none or several."""
    if date is None or seconds is None:
        return None
    near = Decimal("0.001")
    found = [
        record
        for record in load_records()
        if record.date == date and record.seconds is not None and abs(record.seconds - seconds) < near
    ]
    return found[0] if len(found) == 1 else None


def _path() -> Path:
    """`configs/records.csv`: inside the package in a wheel, beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "configs" / "records.csv"
    return inside if inside.is_file() else package.parent / "configs" / "records.csv"


def _record(row: dict[str, str]) -> Record:
    def text(key: str) -> str | None:
        return row[key] or None

    def decimal(key: str) -> Decimal | None:
        return Decimal(row[key]) if row[key] else None

    def whole(key: str) -> int | None:
        return int(row[key]) if row[key] else None

    return Record(
        name=row["name"],
        organisation=row["organisation"],
        date=text("date"),
        hardware=text("hardware"),
        devices=whole("devices"),
        device=text("device"),
        model=text("model"),
        seconds=decimal("seconds"),
        clock_rule=cast(Rule, row["clock_rule"]),
        clock_contains=text("clock_contains"),
        target=text("target"),
        epochs=decimal("epochs"),
        top1=decimal("top1"),
        top5=decimal("top5"),
        validation_images=whole("validation_images"),
        cost_usd=decimal("cost_usd"),
        published_clock=text("published_clock"),
        published_source=text("published_source"),
        source=row["source"],
    )
