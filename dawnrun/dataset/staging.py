"""Large data sets in the making: everything lies below DIR/.unfinished until it is whole, then gets its place."""

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from dawnrun.dataset.decode import printable
from dawnrun.dataset.writer import MANIFEST, Spec
from dawnrun.errors import DataError
from dawnrun.text import size

UNFINISHED = ".unfinished"
_SPEC = "spec.json"
_OF_A_NEW_DISK = "lost+found"


class Staging:
    """What one command makes in `folder`. Killed at any point, the same command goes on with what lies in `aside`."""

    def __init__(self, folder: Path, spec: Spec, *, source: Spec | None = None) -> None:
        """`spec` says what is made, flat and in JSON's types; `name` in it is for people.

        `source` says from what. It may change before the set is finished (a file is mended), but not afterwards.
        """
        self.folder, self.spec, self.source = folder.absolute(), dict(spec), dict(source or {})
        self.aside = self.folder / UNFINISHED

    def is_complete(self) -> bool:
        """Whether the finished set of this very spec is there already, no entry of its folder missing."""
        try:
            manifest = json.loads((self.folder / MANIFEST).read_text(encoding="utf-8"))
            entries = manifest["entries"]
            is_same = manifest["spec"] == self.spec and manifest["source"] == self.source
            is_whole = is_same and all(os.path.lexists(self.folder / name) for name in entries)
        except (OSError, ValueError, TypeError, KeyError):
            return False
        if is_whole:  # killed as its last act
            shutil.rmtree(self.aside, ignore_errors=True)
        return bool(is_whole)

    def at(self, entry: str) -> Path:
        """Where an entry of the set is being made, or already has its place."""
        placed = self.folder / entry
        return placed if placed.exists() else self.aside / entry

    def open(self) -> None:
        """Make `aside`, or go on with it. Raises DataError where something else is there."""
        if self.folder.exists() and not self.folder.is_dir():
            raise DataError(f"{printable(self.folder)} is not a folder")
        with told_apart(self.folder):
            started = self._started_as()
            there = {entry.name for entry in self.folder.iterdir()} if self.folder.is_dir() else set()
            if started is None and there - {_OF_A_NEW_DISK}:
                raise DataError(
                    f"{printable(self.folder)} holds something else than {words(self.spec | self.source)}: nothing was changed\n"
                    "    give another folder, or remove it"
                )
            if started is not None and started != self.spec:
                raise DataError(
                    f"{printable(self.folder)} holds an unfinished set made otherwise ({words(started)}), "
                    f"not {words(self.spec)}\n    give another folder, or remove it"
                )
            if started is None:
                self.aside.mkdir(parents=True, exist_ok=True)
                write_aside(self.aside / _SPEC, json.dumps(self.spec).encode())

    def finish(self) -> None:
        """Give everything its place. The spec goes last, so that a kill in between leaves the set unfinished."""
        with told_apart(self.folder):
            entries = sorted(entry.name for entry in self.aside.iterdir() if entry.name != _SPEC)
            placed = [entry.name for entry in self.folder.iterdir() if entry.name not in (UNFINISHED, MANIFEST)]
            os.sync()
            for name in entries:
                (self.aside / name).replace(self.folder / name)
            manifest = {"spec": self.spec, "source": self.source, "entries": sorted({*entries, *placed})}
            write_aside(self.folder / MANIFEST, json.dumps(manifest, indent=0).encode())
            shutil.rmtree(self.aside)

    def _started_as(self) -> dict[str, str | int] | None:
        """The spec of the set that lies in `aside`; None where there is none yet."""
        try:
            found = json.loads((self.aside / _SPEC).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            if self.aside.is_dir() and {entry.name for entry in self.aside.iterdir()} <= {f".{_SPEC}.part"}:
                shutil.rmtree(self.aside)  # killed before anything was made
            return None
        return found if isinstance(found, dict) else {}


def refuse_unfinished(root: Path) -> None:
    """Raise DataError where a command that makes a data set in `root` did not end."""
    if not (root / UNFINISHED).is_dir():
        return
    raise DataError(
        f"{printable(root)} is unfinished: the command that makes it was stopped\n"
        "    give the same `dawnrun data` command again, it goes on where it stopped"
    )


def refuse_inside(folder: Path, classes: Path) -> None:
    """Raise DataError where `folder` lies among the class folders of what is read: it would be taken for a class."""
    if folder.resolve().is_relative_to(classes.resolve()):
        raise DataError(
            f"{printable(folder)} lies in {printable(classes)}, whose folders are classes: nothing was changed\n"
            "    give a folder elsewhere"
        )


def write_aside(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Write a file that has its name only when it is whole; `durable`: and is on the disk before it has it."""
    part = path.with_name(f".{path.name}.part")
    with part.open("wb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    part.replace(path)


def check_room(folder: Path, num_bytes: int) -> None:
    """Raise DataError unless the disk of `folder` has `num_bytes` free."""
    there = next(above for above in (folder.absolute(), *folder.absolute().parents) if above.exists())
    free = shutil.disk_usage(there).free
    if free < num_bytes:
        raise DataError(f"{printable(folder)} needs about {size(num_bytes)}, the disk has {size(free)} free")


@contextmanager
def told_apart(folder: Path) -> Iterator[None]:
    """Turn a failure of the file system into a DataError that says that nothing is lost."""
    try:
        yield
    except OSError as error:
        where = printable(error.filename) if isinstance(error.filename, str | Path) else printable(folder)
        if (folder / UNFINISHED).exists():
            hint = f"what was made so far is kept in {printable(folder)}; the same command goes on with it"
        else:
            hint = "nothing was made; give another folder"
        raise DataError(f"{where}: {(error.strerror or str(error)).lower()}\n    {hint}") from error


def words(spec: Mapping[str, object]) -> str:
    """`imagenet (classes 1000, ...)`."""
    rest: Sequence[str] = [f"{key.replace('_', ' ')} {value}" for key, value in spec.items() if key != "name"]
    return f"{spec.get('name', 'a data set')} ({', '.join(rest)})"
