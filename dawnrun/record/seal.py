"""The seal: checksums of what a claim rests on, to see later whether anything was changed."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from dawnrun.errors import ReportError
from dawnrun.record.rundir import RunDir


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


def check_seal(run: RunDir) -> Sequence[str]:
    """What differs from the seal, one line each; empty if nothing. ReportError if there is no seal, or it is damaged."""
    try:
        sealed = dict(json.loads(run.seal_json.read_text(encoding="utf-8"))["sha256"])
    except FileNotFoundError as error:
        raise ReportError(
            f"{run.path}: not sealed: there is no {run.seal_json.name}; the run did not come to its end"
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ReportError(f"{run.seal_json}: not a seal: {error}") from error
    differences = []
    for name, checksum in sorted(sealed.items()):
        path = run.path / name
        if not path.is_file():
            differences.append(f"{name}: missing")
        elif _sha256(path) != checksum:
            differences.append(f"{name}: changed")
    added = _event_names(run) - sealed.keys()
    return differences + [f"{name}: added" for name in sorted(added)]


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
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
