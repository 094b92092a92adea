"""The seal: checksums of what a claim rests on, to see later whether anything was changed."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dawnrun.errors import ReportError
from dawnrun.record.rundir import RunDir
from dawnrun.record.summary import RunSummary

_ADDED = ": added"


def write_seal(run: RunDir, checkpoint: Path | None = None) -> None:
    """Write `seal.json`: SHA-256 of every event file and of each file of `checkpoint` (a file or folder in the run).

    Call when the last event is written; a later attempt writes it anew.
    """
    text = json.dumps({"schema_version": 1, "sha256": _checksums(run, checkpoint)}, indent=2) + "\n"
    aside = run.seal_json.with_name(".seal.json.new")
    with aside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(run.seal_json)


def with_seal(summary: RunSummary) -> RunSummary:
    """The summary with `seal_faults`, which come first among its remarks. Reads the event files once, not checkpoints."""
    faults = tuple(_faults(RunDir(Path(summary.path)), finished=summary.status == "finished"))
    return replace(summary, seal_faults=faults, remarks=(*faults, *summary.remarks))


def _faults(run: RunDir, *, finished: bool) -> Iterator[str]:
    """What the seal says against the event log; a run that has not finished may have attempts that are not sealed yet."""
    if not run.seal_json.exists():
        if finished:
            yield f"the run has finished, but it is not sealed: there is no {run.seal_json.name} to hold its event log against"
        return
    try:
        differences = check_seal(run, events_only=True)
    except ReportError as error:
        yield f"the event log cannot be held against its seal: {error}"
        return
    differences = [line for line in differences if finished or not line.endswith(_ADDED)]
    if differences:
        yield f"the event log is not what was sealed: {', '.join(differences)}"


def check_seal(run: RunDir, *, events_only: bool = False) -> Sequence[str]:
    """What differs from the seal, one line each; empty if nothing. `events_only`: checkpoints are not read.

    ReportError if there is no seal, or it is damaged, or a file cannot be read.
    """
    try:
        sealed = json.loads(run.seal_json.read_text(encoding="utf-8"))["sha256"]
        if not isinstance(sealed, dict):
            raise TypeError("sha256 is not an object of file names and checksums")
    except FileNotFoundError as error:
        raise ReportError(
            f"{run.path}: not sealed: there is no {run.seal_json.name}; the run did not come to its end"
        ) from error
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ReportError(f"{run.seal_json}: not a seal: {error}") from error
    differences = []
    for name, checksum in sorted(sealed.items()):
        path = run.path / name
        if events_only and not name.startswith("events/"):
            continue
        if not path.is_file():
            differences.append(f"{name}: missing")
        elif _sha256(path) != checksum:
            differences.append(f"{name}: changed")
    added = _event_names(run) - sealed.keys()
    return differences + [f"{name}{_ADDED}" for name in sorted(added)]


def _event_names(run: RunDir) -> set[str]:
    files = (file for attempt in run.attempts() for file in run.event_files(attempt))
    return {file.relative_to(run.path).as_posix() for file in files}


def _checksums(run: RunDir, checkpoint: Path | None) -> Mapping[str, str]:
    names = _event_names(run)
    if checkpoint is not None:
        files = [checkpoint] if checkpoint.is_file() else [path for path in checkpoint.rglob("*") if path.is_file()]
        names |= {file.relative_to(run.path).as_posix() for file in files}
    return {name: _sha256(run.path / name) for name in sorted(names)}


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ReportError(f"{path}: cannot be read: {error.strerror}") from error
