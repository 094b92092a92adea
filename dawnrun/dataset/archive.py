"""Tar archives read by position: which files they hold and where, and whether they end as they should."""

import io
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from dawnrun.dataset.decode import printable
from dawnrun.errors import DataError

_BLOCK = 512


@dataclass(frozen=True, slots=True)
class Member:
    """A file in an archive: its path there, where its bytes begin in the outermost file, and how many there are."""

    name: str
    offset: int
    size: int

    @property
    def base(self) -> str:
        """The last part of its path."""
        return PurePosixPath(self.name).name


class _Section(io.RawIOBase):
    """`size` bytes of `file` from `start`, as a file of its own."""

    def __init__(self, file: IO[bytes], start: int, size: int) -> None:
        self._file, self._start, self._size, self._at = file, start, size, 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._size - self._at)
        self._file.seek(self._start + self._at)
        data = self._file.read(left if size < 0 else min(size, left))
        self._at += len(data)
        return data


def members(file: IO[bytes], path: Path, *, within: Member | None = None) -> Iterator[Member]:
    """Regular files of the uncompressed archive `file` (opened from `path`), or of the archive `within` it, in order.

    Raises DataError if it is no tar archive, is cut short, or is damaged: unlike tarfile, which takes the first
    header that it cannot read for the end.
    """
    start = within.offset if within else 0
    length = within.size if within else os.fstat(file.fileno()).st_size
    where = printable(path) + (f": {printable(within.name)}" if within else "")
    try:
        with tarfile.open(fileobj=_Section(file, start, length), mode="r:") as archive:
            while (info := archive.next()) is not None:
                archive.members.clear()  # type: ignore[attr-defined]  # tarfile would keep them all
                if info.isreg():
                    if info.offset_data + info.size > length:
                        raise DataError(f"{where} is cut short within {printable(info.name)}")
                    yield Member(info.name, start + info.offset_data, info.size)
            end = archive.offset
    except tarfile.TarError as error:
        raise DataError(f"{where} is not a tar archive, cut short, or damaged: {error}") from error
    file.seek(start + end)
    if file.read(_BLOCK) != bytes(_BLOCK):
        raise DataError(f"{where} is cut short or damaged after {end:,} of its {length:,} bytes")


def read_member(file: IO[bytes], path: Path, member: Member) -> bytes:
    """The bytes of a member. Raises DataError if the archive ends before."""
    file.seek(member.offset)
    data = file.read(member.size)
    if len(data) != member.size:
        raise DataError(f"{printable(path)} is cut short within {printable(member.name)}")
    return data


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """A file opened for reading. Raises DataError where that fails."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise DataError(f"cannot read {printable(path)}: {error.strerror}") from error
    with file:
        yield file
