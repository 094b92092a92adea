"""Summaries of long logs, kept outside the run directory (it may be read-only) under the hash of the log."""

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dawnrun.cache import default_cache_dir
from dawnrun.errors import ReportError
from dawnrun.record.rows import Attempt, Crossing, EpochRow, PhaseRow, ProgressPoint
from dawnrun.record.rundir import RunDir
from dawnrun.record.summary import RunSummary, summarize

MIN_BYTES = 20_000_000
"""Logs that are shorter are read in less than a second: no shortcut is kept for them."""

_ENDED = ("finished", "failed", "preempted", "interrupted")
"""Only what an event says stays true: how a log without an end stands depends on the time of day."""


def summarize_cached(path: Path) -> RunSummary:
    """As `summarize`, from the cache where the log's bytes and our own code are the same as when it was kept."""
    run = RunDir.open(path)
    files = [file for attempt in run.attempts() for file in run.event_files(attempt)]
    if sum(file.stat().st_size for file in files) < MIN_BYTES:
        return summarize(run)
    try:
        kept = default_cache_dir() / "summaries" / f"{_key(run, files)}.json"
    except OSError as error:
        raise ReportError(f"{error.filename}: cannot be read: {error.strerror}") from error
    found = _load(kept, str(run.path))
    if found is not None:
        return found
    summary = summarize(run)
    if summary.status in _ENDED:
        _keep(kept, summary)
    return summary


def _key(run: RunDir, files: list[Path]) -> str:
    """SHA-256 over the code that summarises, and the names and bytes of the event files."""
    digest = hashlib.sha256()
    code = [Path(__file__).with_name("..") / "clock.py", *sorted(Path(__file__).parent.glob("*.py"))]
    named = [(file.name, file) for file in code] + [(file.relative_to(run.path).as_posix(), file) for file in files]
    for name, file in named:
        with file.open("rb") as opened:
            digest.update(f"{name} {hashlib.file_digest(opened, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest()


def _load(kept: Path, path: str) -> RunSummary | None:
    """The summary in a file, None if it is not there or damaged."""
    try:
        values = json.loads(kept.read_text(encoding="utf-8"))
        return _summary({**values, "path": path})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _summary(values: Mapping[str, Any]) -> RunSummary:
    """The summary of what `asdict` made of one and JSON kept."""
    rows: dict[str, Any] = {
        "epochs": tuple(EpochRow(**row) for row in values["epochs"]),
        "phases": tuple(PhaseRow(**row) for row in values["phases"]),
        "progress": tuple(ProgressPoint(**row) for row in values["progress"]),
        "crossings": tuple(Crossing(**row) for row in values["crossings"]),
        "attempts": tuple(_attempt(row) for row in values["attempts"]),
    }
    rows |= {name: tuple(values[name]) for name in ("bad_images", "checkpoints", "failures", "remarks", "seal_faults")}
    return RunSummary(**{**values, **rows})


def _attempt(row: Mapping[str, Any]) -> Attempt:
    changes = {key: (before, after) for key, (before, after) in row["changes"].items()}
    return Attempt(**{**row, "changes": changes})


def _keep(kept: Path, summary: RunSummary) -> None:
    """Keep a summary; a cache that cannot be written is no reason to fail."""
    aside = kept.with_name(f".{kept.name}.{os.getpid()}")
    with suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text(json.dumps(asdict(summary)), encoding="utf-8")
        aside.replace(kept)
