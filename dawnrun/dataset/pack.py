"""Packs a data set into WebDataset shards, shuffled once: few large files instead of a million small ones.

What goes where follows from seed and sizes alone, so a run that was stopped and continued writes the same bytes.
"""

import hashlib
import os
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from dawnrun.dataset.counter import bits
from dawnrun.dataset.decode import UnreadableImageError, printable
from dawnrun.dataset.folder import Split
from dawnrun.dataset.index import DatasetIndex, build_index, check_same_classes
from dawnrun.dataset.shards import CLASSES, ShardTable, index_name, sha256_of
from dawnrun.dataset.staging import Staging, check_room, refuse_inside, told_apart, write_aside
from dawnrun.errors import DataError

_ORDER = 3
"""Keeps the bits of the shuffle apart from those of the training order and the crops."""
HEADER_BYTES = _BLOCK = 512
_RECORD = 10_240
"""tar's units: members are padded to blocks, archives to records."""
_READERS = 8
_READ_AHEAD = 64
_LABEL = ".cls"
Reader = Callable[[int], bytes]
"""The bytes of an image. Raises UnreadableImageError."""
Advance = Callable[[int], None]
Progress = Callable[[int], AbstractContextManager[Advance]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """Where each image of a split goes: its shard, and the offset of its bytes there; `order` is that of writing."""

    order: NDArray[np.int64]
    shards: NDArray[np.int32]
    offsets: NDArray[np.int64]
    file_bytes: NDArray[np.int64]

    def images(self, shard: int) -> NDArray[np.int64]:
        """The images of a shard in the order they lie in it."""
        images: NDArray[np.int64] = self.order[self.shards[self.order] == shard]
        return images


ShardWriter = Callable[[Staging, Split, DatasetIndex, Layout, Advance], list[str]]
"""Writes all shards of a split as they are laid out; returns the SHA-256 of each."""


def write_shards(
    source: Path, folder: Path, *, seed: int, shard_bytes: int, progress: Progress
) -> tuple[bool, dict[Split, tuple[int, int]]]:
    """Pack both splits of `source` into `folder`. False where these very shards are there already.

    Also the numbers of shards and images of each split. Raises DataError; nothing in `folder` is taken for a data set until
    it is whole.
    """
    indexes: dict[Split, DatasetIndex] = {split: build_index(source, split) for split in get_args(Split)}
    for index in indexes.values():
        if index.is_by_path:
            refuse_inside(folder, index.folder)
    sources = {split: (index, reading(index.read)) for split, index in indexes.items()}
    return pack_splits(sources, folder, seed=seed, shard_bytes=shard_bytes, progress=progress)


def pack_splits(
    sources: Mapping[Split, tuple[DatasetIndex, ShardWriter]],
    folder: Path,
    *,
    seed: int,
    shard_bytes: int,
    progress: Progress,
) -> tuple[bool, dict[Split, tuple[int, int]]]:
    """The same, of splits whose shards are written by other means than reading each image by its number."""
    indexes = {split: index for split, (index, _) in sources.items()}
    check_same_classes(indexes["train"], indexes["val"])
    layouts = {split: lay_out(index, split, seed, shard_bytes) for split, index in indexes.items()}
    numbers = {split: (len(layout.file_bytes), len(indexes[split])) for split, layout in layouts.items()}
    spec: dict[str, str | int] = {"name": "WebDataset shards", "seed": seed, "shard_bytes": shard_bytes}
    for split, index in indexes.items():
        spec[split] = index.fingerprint
    staging = Staging(folder, spec)
    if staging.is_complete():
        return False, numbers
    if any("\n" in name for name in indexes["train"].classes):
        raise DataError("names of classes with line ends cannot be packed")
    if not staging.aside.exists():
        check_room(folder, sum(int(layout.file_bytes.sum()) for layout in layouts.values()))
    staging.open()
    with told_apart(folder), progress(sum(map(len, indexes.values()))) as advance:
        for split, (index, write) in sources.items():
            digests = write(staging, split, index, layouts[split], advance)
            _table(split, index, layouts[split], digests).save(staging.at(index_name(split)))
        names = b"".join(os.fsencode(name) + b"\n" for name in indexes["train"].classes)
        write_aside(staging.at(CLASSES), names)
    staging.finish()
    return True, numbers


def shard_name(split: Split, number: int) -> str:
    """`train-000000.tar`."""
    return f"{split}-{number:06d}.tar"


def lay_out(index: DatasetIndex, split: Split, seed: int, shard_bytes: int) -> Layout:
    """A shard takes the images that begin in its `shard_bytes` of the shuffled whole."""
    shuffle = np.argsort(bits(_ORDER, seed, get_args(Split).index(split), np.arange(len(index))), kind="stable")
    lengths = 3 * _BLOCK + _padded(index.sizes[shuffle], _BLOCK)  # two headers, one block of label
    ends = np.cumsum(lengths)
    starts = ends - lengths
    _, shards = np.unique(starts // shard_bytes, return_inverse=True)
    first = np.flatnonzero(np.diff(shards, prepend=-1))
    in_shard = starts - starts[first][shards]
    last = np.append(first[1:], len(shuffle)) - 1
    file_bytes = _padded(in_shard[last] + lengths[last] + 2 * _BLOCK, _RECORD)
    of_image = np.empty(len(index), np.int32), np.empty(len(index), np.int64)
    of_image[0][shuffle], of_image[1][shuffle] = shards, in_shard + _BLOCK
    return Layout(order=shuffle, shards=of_image[0], offsets=of_image[1], file_bytes=file_bytes)


def _padded(num_bytes: NDArray[np.int64], unit: int) -> NDArray[np.int64]:
    return -(-num_bytes // unit) * unit


def reading(read: Reader) -> ShardWriter:
    """Writes one shard after the other, each image read by its number; shards that are there already are kept."""

    def write(staging: Staging, split: Split, index: DatasetIndex, layout: Layout, advance: Advance) -> list[str]:
        digests = []
        for number, num_bytes in enumerate(layout.file_bytes.tolist()):
            path, images = staging.at(shard_name(split, number)), layout.images(number)
            if path.exists() and path.stat().st_size == num_bytes:
                digests.append(sha256_of(path))
                advance(len(images))
            else:
                digests.append(_write_shard(path, index, read, images, num_bytes, advance))
        return digests

    return write


def _table(split: Split, index: DatasetIndex, layout: Layout, digests: Sequence[str]) -> ShardTable:
    """The index of a split's shards."""
    return ShardTable(
        files=tuple(shard_name(split, number) for number in range(len(layout.file_bytes))),
        file_bytes=layout.file_bytes,
        file_mtimes=np.zeros(len(layout.file_bytes), np.int64),
        sha256=tuple(digests),
        classes=index.classes,
        names=index.names,
        labels=index.labels,
        shards=layout.shards,
        offsets=layout.offsets,
        sizes=index.sizes,
        widths=index.widths,
        heights=index.heights,
    )


def _write_shard(
    path: Path,
    index: DatasetIndex,
    read: Reader,
    images: NDArray[np.int64],
    num_bytes: int,
    advance: Advance,
) -> str:
    """Write one shard, which has its name when it is whole and on the disk; returns its SHA-256."""
    digest = hashlib.sha256()
    part = path.with_name(f".{path.name}.part")
    with part.open("wb") as file:

        def put(data: bytes) -> None:
            file.write(data)
            digest.update(data)

        for image, data in _read(index, read, images):
            put(sample(index, image, data))
            advance(1)
        put(bytes(num_bytes - file.tell()))
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    return digest.hexdigest()


def _read(index: DatasetIndex, read: Reader, images: NDArray[np.int64]) -> Iterator[tuple[int, bytes]]:
    """Images and their bytes in order, read ahead by several threads."""

    def read_one(image: int) -> tuple[int, bytes]:
        try:
            return image, read(image)
        except UnreadableImageError as error:
            raise DataError(f"cannot read {printable(index.path(image))}: {error}") from error

    with ThreadPoolExecutor(_READERS) as pool:
        numbers = iter(images.tolist())
        while some := list(islice(numbers, _READ_AHEAD)):
            yield from pool.map(read_one, some)


def sample(index: DatasetIndex, image: int, data: bytes) -> bytes:
    """An image, whose bytes are `data`, and its label as they lie in a shard. Raises DataError for other data."""
    if len(data) != index.sizes[image]:
        raise DataError(f"{printable(index.path(image))} changed while it was packed")
    label = _member(f"{image:08d}{_LABEL}", str(int(index.labels[image])).encode())
    return _member(f"{image:08d}.{_kind(data)}", data) + label


def _member(name: str, data: bytes) -> bytes:
    """A file as tar has it: header, bytes, zeros to the next block. Nobody's, of no time: equal data, equal bytes."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    return info.tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % _BLOCK)


def _kind(data: bytes) -> str:
    """Extension by content."""
    if data.startswith(b"\x89PNG"):
        return "png"
    return "webp" if data[8:12] == b"WEBP" else "jpg"
