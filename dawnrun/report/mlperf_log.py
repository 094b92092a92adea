"""Reads an MLPerf training result log, `:::MLLOG` and its two older forms, as a claim.

Form: mlcommons/logging, `mllog`; v0.6 wrote `:::MLL <seconds> key: {...}`, v0.5 `:::MLPv0.5.0 resnet <seconds> (place) key: ...`.
The time is that from run_start to run_stop; accuracies are fractions there and percent here.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dawnrun.report.claim import Claim, ClaimRow
from dawnrun.report.entry import read_bytes

_LINE = re.compile(r":::(MLLOG|MLL|MLPv[\d.]+)\s+(.*)")
_OLD = re.compile(r"(?:\w+\s+)?(\d{1,12}(?:\.\d{1,9})?)\s+(?:\([^)]*\)\s+)?([\w.]+)(?::\s*(.*))?$")
CONTAINS = "from run_start to run_stop: training, evaluation, data loading; initialisation before it left out"


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One line: `time_s` since 1970; `value` as logged."""

    line: int
    time_s: float
    key: str
    value: Any
    metadata: Mapping[str, Any]


def read_log(path: Path) -> Claim:
    """The claim of a log. ReportError if the file cannot be read; what it lacks is None, with a note."""
    text = read_bytes(path).decode("utf-8", errors="replace")
    entries, unread = list[Entry](), list[int]()
    for number, line in enumerate(text.splitlines(), 1):
        found = _LINE.search(line)
        if found:
            entry = _entry(number, found[1], found[2])
            entries += [entry] if entry else []
            unread += [] if entry else [number]
    return _claim(path, entries, unread)


def _entry(number: int, form: str, rest: str) -> Entry | None:
    """A line's parts, None if it is cut or no such line."""
    try:
        if form == "MLLOG":
            fields = json.loads(rest)
            time_s, key, value = fields["time_ms"] / 1000, fields["key"], fields.get("value")
            metadata = fields.get("metadata") or {}
        else:
            found = _OLD.match(rest.strip())
            if found is None:
                return None
            time_s, key = float(found[1]), found[2]
            value, metadata = _old_value(json.loads(found[3]) if found[3] else None)
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None
    if not (isinstance(key, str) and isinstance(metadata, dict) and math.isfinite(time_s)):
        return None
    return Entry(line=number, time_s=time_s, key=key, value=value, metadata=metadata)


def _old_value(value: Any) -> tuple[Any, Mapping[str, Any]]:
    """Value and metadata: v0.6 names them, v0.5 has both in one object."""
    if not isinstance(value, dict):
        return value, {}
    return value.get("value"), value.get("metadata") or value


def _claim(path: Path, entries: Sequence[Entry], unread: Sequence[int]) -> Claim:
    first: dict[str, Entry] = {}
    for entry in entries:
        first.setdefault(entry.key, entry)
    start, stop = first.get("run_start"), first.get("run_stop")
    rows = tuple(_rows(entries, start, stop))
    status = _status(stop)
    return Claim(
        kind="MLPerf result log",
        name=path.stem,
        source=str(path),
        organisation=_text(first, "submission_org"),
        hardware=_text(first, "submission_platform"),
        model=_text(first, "submission_benchmark"),
        target="MLPerf's (top1>=75.9 from v0.6 on)",
        reached=None if status is None else status == "success",
        seconds=stop.time_s - start.time_s if start and stop and status == "success" else None,
        rule="mlperf",
        clock_contains=CONTAINS,
        epoch=rows[-1].epoch if rows and status == "success" else None,
        top1=rows[-1].top1 if rows and status == "success" else None,
        best_top1=max((row.top1 for row in rows if row.top1 is not None), default=None),
        validation_images=_text(first, "eval_samples"),
        rows=rows,
        notes=tuple(_notes(entries, unread, first, status)),
    )


def _rows(entries: Sequence[Entry], start: Entry | None, stop: Entry | None) -> Iterator[ClaimRow]:
    """Every eval_accuracy of the run."""
    for entry in entries:
        value = _number(entry.value)
        if entry.key == "eval_accuracy" and value is not None and (stop is None or entry.line <= stop.line):
            epoch = _number(entry.metadata.get("epoch_num", entry.metadata.get("epoch")))
            hours = None if start is None else (entry.time_s - start.time_s) / 3600
            yield ClaimRow(epoch=epoch, hours=hours, top1=100 * value, top5=None)


def _status(stop: Entry | None) -> str | None:
    """`success` or what else is logged; None without an end."""
    if stop is None:
        return None
    if "success" in stop.metadata:
        return "success" if stop.metadata["success"] is True else "aborted"
    return str(stop.metadata.get("status", "not stated"))


def _notes(
    entries: Sequence[Entry], unread: Sequence[int], first: Mapping[str, Entry], status: str | None
) -> Iterator[str]:
    """What keeps a reader from taking the figures as they stand."""
    if not entries:
        yield "no line of it can be read"
    for key in ("run_start", "run_stop"):
        if key not in first:
            yield f"no {key}: no time"
        elif sum(entry.key == key for entry in entries) > 1:
            yield f"{key} is logged more than once; the first counts"
    if status not in (None, "success"):
        yield f"its status is {status}: no time"
    if unread:
        yield f"lines that cannot be read: {', '.join(map(str, unread[:5]))}{' ...' if len(unread) > 5 else ''}"
    benchmark = first.get("submission_benchmark")
    if benchmark is not None and benchmark.value != "resnet":
        yield f"benchmark {benchmark.value}, not resnet"


def _text(first: Mapping[str, Entry], key: str) -> str | None:
    value = first[key].value if key in first else None
    return None if value is None else str(value)


def _number(value: Any) -> float | None:
    """A finite number, None for anything else."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15
    return float(value) if good else None
