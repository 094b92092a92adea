"""One archive of what a stranger needs to check a run: the same run gives the same bytes."""

import gzip
import os
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from dawnrun.errors import ReportError
from dawnrun.record.rundir import RunDir

SMALL_BYTES = 10_000_000
"""Logs of processes that are larger are left out: they are for whoever ran it."""

_LEVEL = 1
"""Of gzip: event logs shrink to a tenth at any level, weights at none, and a checkpoint has 200 MB."""


def bundle(run: RunDir, target: Path, *, checkpoint: Path | None = None) -> list[str]:
    """Write `target`, a .tar.gz, complete or not at all; the names of the run's files that are in it.

    Without `checkpoint` no weights are in it. ReportError where a file cannot be read or `target` not be written.
    """
    names = sorted(path.relative_to(run.path).as_posix() for path in _files(run, checkpoint, target))
    aside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with (
            aside.open("wb") as file,
            gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0, compresslevel=_LEVEL) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for name in names:
                _add(archive, run, name)
        with aside.open("rb") as written:
            os.fsync(written.fileno())
        aside.replace(target)
    except OSError as error:
        where = error.filename or target
        raise ReportError(
            f"{where}: not bundled: {(error.strerror or str(error)).lower()}; choose another --output"
        ) from error
    finally:
        with suppress(OSError):
            aside.unlink()
    return names


def _files(run: RunDir, checkpoint: Path | None, target: Path) -> Iterator[Path]:
    """Event files, recipe, site, seal, report, what each attempt was started with, small logs, and the checkpoint."""
    folders = [run.path / "events", run.path / "attempts", run.report, run.logs, *([checkpoint] if checkpoint else [])]
    yield from (path for path in run.path.iterdir() if _is_plain(path))
    for folder in folders:
        for path in folder.rglob("*"):
            small = folder != run.logs or path.stat().st_size <= SMALL_BYTES
            if _is_plain(path) and small and path.resolve() != target.resolve():
                yield path


def _is_plain(path: Path) -> bool:
    """A file of the run itself: links may lead anywhere, names with a dot in front are half-written."""
    return path.is_file() and not path.is_symlink() and not path.name.startswith(".")


def _add(archive: tarfile.TarFile, run: RunDir, name: str) -> None:
    """One file, without owner, mode or time of this machine."""
    path = run.path / name
    entry = tarfile.TarInfo(f"{run.path.name}/{name}")
    with path.open("rb") as file:
        entry.size = os.fstat(file.fileno()).st_size
        entry.mode = 0o644
        archive.addfile(entry, file)
