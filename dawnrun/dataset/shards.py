"""WebDataset shards: tar files with an image and its class for each sample, read in any order by position.

Positioned reads, not a memory map: a map stalls every thread of the process on a page fault, and ends it by SIGBUS
where a file is shorter than thought.
"""

import hashlib
import os
import re
import resource
import threading
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dawnrun.dataset.decode import UnreadableImageError, printable
from dawnrun.dataset.staging import refuse_unfinished
from dawnrun.errors import DataError
from dawnrun.text import plural

Texts = tuple[str, ...]
_VERSION = 1
_SPLIT_WORDS = {"train": ("train",), "val": ("val", "validation")}
CLASSES = "classes.txt"
"""Names of classes, one a line in the order of their numbers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardTable:
    """What lies where in the shards of one split; stored as NAME-index.npz by `dawnrun data pack`.

    Of each shard: name, bytes, mtime in ns (0: not to be compared), SHA-256 in hex (empty: not known). Of each image:
    name, label int32 (into `classes`), shard int32, offset and size in bytes int64, width and height int32, both 0
    where the header is unreadable.
    """

    files: Texts
    file_bytes: NDArray[np.int64]
    file_mtimes: NDArray[np.int64]
    sha256: Texts
    classes: Texts
    names: Texts
    labels: NDArray[np.int32]
    shards: NDArray[np.int32]
    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]
    widths: NDArray[np.int32]
    heights: NDArray[np.int32]

    def save(self, path: Path) -> None:
        """Write it to a file that has its name only when it is whole."""
        arrays = {name: _stored(getattr(self, name)) for name in self.__slots__}
        part = path.with_name(f".{path.name}.part")
        with part.open("wb") as file:
            np.savez(file, allow_pickle=False, version=np.int64(_VERSION), **arrays)
        part.replace(path)

    @classmethod
    def load(cls, path: Path) -> "ShardTable":
        """Read what `save` wrote. Raises OSError, or ValueError where it is something else."""
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
                if int(stored["version"]) != _VERSION:
                    raise ValueError(f"version {int(stored['version'])}, wanted {_VERSION}")
                arrays = {name: stored[name] for name in cls.__slots__}
        except OSError:
            raise
        except Exception as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error
        values: dict[str, Any] = {
            name: _texts(array) if array.dtype == np.uint8 else array for name, array in arrays.items()
        }
        table = cls(**values)
        if not table._is_consistent():
            raise ValueError("its parts do not fit one another")
        return table

    def _is_consistent(self) -> bool:
        columns = (self.labels, self.shards, self.offsets, self.sizes, self.widths, self.heights)
        if any(column.shape != (len(self.names),) or column.dtype.kind != "i" for column in columns):
            return False
        if not len(self.files) == len(self.file_bytes) == len(self.file_mtimes) == len(self.sha256):
            return False
        if not len(self.names):
            return True
        if any(column.min() < 0 for column in columns) or any("/" in name or name in ("", "..") for name in self.files):
            return False
        if self.shards.max() >= len(self.files) or self.labels.max() >= len(self.classes):
            return False
        return bool((self.offsets + self.sizes <= self.file_bytes[self.shards]).all())


@dataclass(frozen=True, kw_only=True, slots=True)
class Shards:
    """The shards of one split in `folder`; any thread may read."""

    folder: Path
    table: ShardTable
    _opened: dict[int, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def subset(self, kept: NDArray[np.bool_]) -> "Shards":
        """Only the images for which `kept`, bool[n], is true, numbered anew."""
        columns = ("labels", "shards", "offsets", "sizes", "widths", "heights")
        values: dict[str, Any] = {name: getattr(self.table, name)[kept] for name in columns}
        return Shards(
            folder=self.folder, table=replace(self.table, names=tuple(compress(self.table.names, kept)), **values)
        )

    def path(self, image: int) -> str:
        """Shard and name of an image, for messages."""
        return f"{self.folder}/{self.table.files[self.table.shards[image]]}: {self.table.names[image]}"

    def read(self, image: int) -> bytes:
        """The bytes of an image. Raises UnreadableImageError."""
        size = int(self.table.sizes[image])
        try:
            data = os.pread(self._file(image), size, int(self.table.offsets[image]))
        except OSError as error:
            raise UnreadableImageError(error.strerror or str(error)) from error
        return data if len(data) == size else self._read_on(image, data)

    def read_into(self, image: int, buffer: memoryview) -> None:
        """Fill `buffer`, as long as the image has bytes. Raises UnreadableImageError."""
        try:
            got = os.preadv(self._file(image), [buffer], int(self.table.offsets[image]))
        except OSError as error:
            raise UnreadableImageError(error.strerror or str(error)) from error
        if got < len(buffer):
            buffer[got:] = self._read_on(image, b"", got)

    def problems(self) -> list[str]:
        """Shards that are missing or have another size than the index says."""
        found = []
        for name, size in zip(self.table.files, self.table.file_bytes.tolist(), strict=True):
            path = self.folder / name
            try:
                actual = path.stat().st_size
            except OSError as error:
                found.append(f"shard {printable(path)}: {(error.strerror or str(error)).lower()}")
                continue
            if actual != size:
                cut = "cut short" if actual < size else "not the file that the index was made of"
                found.append(f"shard {printable(path)} is {cut}: {actual:,} bytes, the index says {size:,}")
        return found

    def damaged(self) -> list[str]:
        """Shards of the right size whose bytes are not those that were packed; every byte is read."""
        found = []
        for name, size, wanted in zip(self.table.files, self.table.file_bytes.tolist(), self.table.sha256, strict=True):
            path = self.folder / name
            if wanted and path.is_file() and path.stat().st_size == size and sha256_of(path) != wanted:
                found.append(f"shard {printable(path)} is damaged: its SHA-256 is not the one in the index")
        return found

    def close(self) -> None:
        """Close the files; they are opened again when something is read."""
        with self._lock:
            while self._opened:
                os.close(self._opened.popitem()[1])

    def __del__(self) -> None:
        with suppress(Exception):
            self.close()

    def _read_on(self, image: int, data: bytes, got: int | None = None) -> bytes:
        """What is left of an image after a read that was interrupted; the end of the file is an error."""
        done = len(data) if got is None else got
        size, offset = int(self.table.sizes[image]), int(self.table.offsets[image])
        while done < size:
            more = os.pread(self._file(image), size - done, offset + done)
            if not more:
                raise UnreadableImageError("its shard is cut short")
            data, done = data + more, done + len(more)
        return data

    def _file(self, image: int) -> int:
        """Descriptor of the image's shard, opened once for the process."""
        number = int(self.table.shards[image])
        opened = self._opened.get(number)
        if opened is None:
            with self._lock:
                opened = self._opened.get(number)
                if opened is None:
                    if not self._opened:
                        _allow_files(len(self.table.files))
                    opened = self._opened[number] = os.open(self.folder / self.table.files[number], os.O_RDONLY)
        return opened


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def index_name(split: str) -> str:
    """Name of the index that `dawnrun data pack` writes beside the shards of a split."""
    return f"{split}-index.npz"


def find_shards(root: Path, split: str) -> tuple[Path, Texts]:
    """The folder and names of a split's shards: ROOT/*train*-000000.tar or ROOT/train/*.tar; no names: none there.

    Raises DataError where class folders are there too, or the set is unfinished.
    """
    root = root.absolute()
    if not root.is_dir():
        return root, ()
    refuse_unfinished(root)
    words = _SPLIT_WORDS[split]
    numbered = re.compile(rf"(?:.*[-_.])?(?:{'|'.join(words)})[-_.]?\d+\.tar", re.IGNORECASE)
    beside = sorted(entry.name for entry in os.scandir(root) if numbered.fullmatch(entry.name))
    has_index = (root / index_name(split)).is_file()
    for folder in (root / word for word in words):
        if not folder.is_dir():
            continue
        with os.scandir(folder) as entries:
            kinds = [(entry.name, entry.is_dir()) for entry in entries if not entry.name.startswith(".")]
        has_folders = any(is_folder for _, is_folder in kinds)
        if has_folders and (beside or has_index):
            raise DataError(f"{printable(root)} holds {split} both as shards and as class folders; remove one of them")
        inside = sorted(name for name, _ in kinds if name.endswith(".tar"))
        if inside and not has_folders and not beside:
            return folder, tuple(inside)
    return root, tuple(beside)


def load_packed(root: Path, split: str, present: Texts) -> Shards | None:
    """The shards of an index that `dawnrun data pack` wrote; None where there is none.

    `present` are the shards found there. Raises DataError if the index is damaged or does not fit them.
    """
    path = root.absolute() / index_name(split)
    if not path.is_file():
        return None
    try:
        table = ShardTable.load(path)
    except (OSError, ValueError) as error:
        raise DataError(
            f"index {printable(path)} cannot be read: {error}\n    pack the set again, or remove the index"
        ) from error
    extra = sorted(set(present) - set(table.files))
    if extra:
        raise DataError(f"{plural(len(extra), 'shard')} not in {printable(path)}, the first is {printable(extra[0])}")
    return Shards(folder=path.parent, table=table)


def _allow_files(number: int) -> None:
    """Raise the process's limit of open files, where it may, by `number`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        number = min(number, hard - soft)
    if soft != resource.RLIM_INFINITY and number > 0:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft + number, hard))


def _stored(value: object) -> NDArray[np.generic]:
    """An array, or texts as bytes with zeros between."""
    if isinstance(value, tuple):
        return np.frombuffer(b"\0".join(map(os.fsencode, value)) + b"\0" * bool(value), np.uint8)
    assert isinstance(value, np.ndarray)
    return value


def _texts(stored: NDArray[np.uint8]) -> Texts:
    return tuple(map(os.fsdecode, stored.tobytes().split(b"\0")[:-1]))
