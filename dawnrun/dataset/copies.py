"""A data set copied file by file to a disk of its own: what there is to copy, what is there already, what was checked.

While it is made it lies in `.NAME.unfinished` beside its place; it gets its name when it is complete. `.staged.sha256` in
it lists every file as `sha256sum` does, `.staged.json` says from which listing it was made.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO, TextIO

from dawnrun.dataset.decode import printable
from dawnrun.errors import DataError, LaunchError
from dawnrun.text import size

SUMS, MARKER = ".staged.sha256", ".staged.json"
READ_BYTES = 1 << 22
_CHECK_THREADS = 4


@dataclass(frozen=True, slots=True)
class Entry:
    """One file: its path below the data set's folder, its bytes, and when it was last changed."""

    path: str
    num_bytes: int
    mtime_ns: int


def list_files(folder: Path) -> list[Entry]:
    """Every file below `folder` in the order of its path, links followed, hidden ones left out. Raises DataError."""
    found: list[Entry] = []

    def fail(error: OSError) -> None:
        raise DataError(f"{printable(error.filename or folder)}: {(error.strerror or str(error)).lower()}") from error

    for where, folders, names in os.walk(folder, followlinks=True, onerror=fail):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(name for name in names if not name.startswith(".")):
            path = os.path.join(where, name)  # noqa: PTH118  a million of them
            try:
                known = os.stat(path)  # noqa: PTH116
            except OSError as error:
                fail(error)
            found.append(Entry(os.path.relpath(path, folder), known.st_size, known.st_mtime_ns))
    return found


def listing_sha256(entries: Sequence[Entry]) -> str:
    """Names a listing: equal for the same files with the same sizes and times."""
    digest = hashlib.sha256()
    for entry in entries:
        digest.update(f"{entry.path}\0{entry.num_bytes} {entry.mtime_ns}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


def staged(place: Path) -> dict[str, object] | None:
    """What the marker of a complete copy says; None if `place` is not one."""
    try:
        return dict(json.loads((place / MARKER).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None


class LocalCopy:
    """The copy of one data set in `place`. `missing`: numbers of the entries that it lacks."""

    def __init__(self, place: Path, entries: Sequence[Entry]) -> None:
        """Look at what is there. Raises DataError where something else is, LaunchError if the rest would not fit."""
        self.place, self.entries = place, entries
        self.aside = place.with_name(f".{place.name}.unfinished")
        self._sums: dict[str, str] = {}
        self._open: BinaryIO | None = None
        self._log: TextIO | None = None
        marker = staged(place)
        self.complete = marker is not None and marker.get("listing_sha256") == listing_sha256(entries)
        if self.complete:
            self.missing: list[int] = []
            return
        if marker is not None:  # the source was changed since
            place.rename(self.aside)
        elif place.exists() and (not place.is_dir() or any(place.iterdir())):
            raise DataError(
                f"{printable(place)} is there and was not staged by dawnrun: nothing was changed; remove it"
            )
        self.aside.mkdir(parents=True, exist_ok=True)
        self._sums = read_sums(self.aside)
        self._remove_others()
        self.missing = [number for number, entry in enumerate(entries) if not self._has(entry)]
        needed, free = sum(entries[number].num_bytes for number in self.missing), shutil.disk_usage(self.aside).free
        if needed > free:
            raise LaunchError(f"{printable(place)}: {size(needed)} are to be copied, {size(free)} are free")
        self._log = (self.aside / SUMS).open("a", encoding="utf-8", errors="surrogateescape")

    def _has(self, entry: Entry) -> bool:
        if entry.path not in self._sums:
            return False
        try:
            known = (self.aside / entry.path).stat()
        except OSError:
            return False
        return (known.st_size, known.st_mtime_ns) == (entry.num_bytes, entry.mtime_ns)

    def _remove_others(self) -> None:
        """Files that the source no longer has."""
        wanted = {entry.path for entry in self.entries} | {SUMS}
        for where, _, names in os.walk(self.aside):
            for name in names:
                path = Path(where) / name
                if str(path.relative_to(self.aside)) not in wanted:
                    path.unlink()

    def take(self, number: int, piece: bytes) -> None:
        """The next bytes of an entry. Raises OSError."""
        if self._open is None:
            path = self.aside / self.entries[number].path
            path.parent.mkdir(parents=True, exist_ok=True)
            self._open = path.open("wb")
        self._open.write(piece)

    def end(self, number: int, sha256: str) -> None:
        """An entry is whole and its checksum was found right."""
        self.take(number, b"")
        assert self._open is not None and self._log is not None
        self._open.close()
        self._open = None
        entry = self.entries[number]
        os.utime(self.aside / entry.path, ns=(entry.mtime_ns, entry.mtime_ns))
        self._sums[entry.path] = sha256
        self._log.write(f"{sha256}  {entry.path}\n")

    def close(self) -> None:
        """Close files; what is whole counts when the copy is gone on with."""
        for file in (self._open, self._log):
            if file is not None:
                file.close()

    def finish(self) -> None:
        """Everything is on the disk: give it its name."""
        if self.complete:
            return
        self.close()
        lines = "".join(f"{self._sums[entry.path]}  {entry.path}\n" for entry in self.entries)
        (self.aside / SUMS).write_text(lines, encoding="utf-8", errors="surrogateescape")
        os.sync()
        total = sum(entry.num_bytes for entry in self.entries)
        marker = {"listing_sha256": listing_sha256(self.entries), "num_files": len(self.entries), "num_bytes": total}
        (self.aside / MARKER).write_text(json.dumps(marker) + "\n", encoding="utf-8")
        if self.place.exists():
            self.place.rmdir()
        self.aside.rename(self.place)

    def check(self) -> None:
        """Read every file of the finished copy, which brings it into memory. Raises DataError with what differs."""
        sums = read_sums(self.place)
        with ThreadPoolExecutor(_CHECK_THREADS) as pool:
            found = pool.map(lambda entry: file_sha256(self.place / entry.path), self.entries)
            wrong = [
                entry.path for entry, seen in zip(self.entries, found, strict=True) if sums.get(entry.path) != seen
            ]
        if wrong:
            (self.place / MARKER).unlink()
            names = ", ".join(printable(self.place / path) for path in wrong[:10])
            raise DataError(f"{len(wrong)} files are not what was copied: {names}; the disk may be damaged; remove it")


def read_sums(folder: Path) -> dict[str, str]:
    """Path -> SHA-256 of what was copied completely; a line cut short is left out."""
    try:
        text = (folder / SUMS).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return {}
    return {line[66:]: line[:64] for line in text.split("\n")[:-1] if line[64:66] == "  "}


def file_sha256(path: Path) -> str:
    """Checksum of a file; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def pieces(folder: Path, entries: Sequence[Entry], wanted: Sequence[int], threads: int) -> Iterator[tuple[int, bytes]]:
    """(number, bytes) of the wanted entries in order, at least one piece each; `threads` pieces are read ahead.

    Raises DataError where a file is shorter than its listing says, or cannot be read.
    """
    from collections import deque

    def read(number: int, offset: int, length: int) -> bytes:
        path = folder / entries[number].path
        try:
            with path.open("rb") as file:
                file.seek(offset)
                piece = file.read(length)
        except OSError as error:
            raise DataError(f"{printable(path)}: {(error.strerror or str(error)).lower()}") from error
        if len(piece) != length:
            raise DataError(f"{printable(path)} was changed while it was copied")
        return piece

    parts = (
        (number, offset, min(READ_BYTES, entries[number].num_bytes - offset))
        for number in wanted
        for offset in range(0, max(1, entries[number].num_bytes), READ_BYTES)
    )
    ahead: deque[tuple[int, object]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="read") as pool:
        try:
            for number, offset, length in parts:
                ahead.append((number, pool.submit(read, number, offset, length)))
                if len(ahead) > threads:
                    first, future = ahead.popleft()
                    yield first, future.result()  # type: ignore[attr-defined]
            for first, future in ahead:
                yield first, future.result()  # type: ignore[attr-defined]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def as_lists(entries: Sequence[Entry]) -> list[list[object]]:
    """For JSON; `Entry(*item)` reads one back."""
    return [list(asdict(entry).values()) for entry in entries]
