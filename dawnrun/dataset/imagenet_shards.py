"""ILSVRC2012 from its archives straight to shards: no million files in between; the same shards as from class folders."""

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dawnrun.cache import default_cache_dir
from dawnrun.dataset.decode import UnreadableImageError, printable, read_size
from dawnrun.dataset.folder import Scan, Split, listed
from dawnrun.dataset.imagenet import ClassSource, Sources, check_classes, check_counts
from dawnrun.dataset.index import DatasetIndex, fingerprint_of
from dawnrun.dataset.pack import Progress, pack_splits, reading
from dawnrun.dataset.size_cache import SizeCache
from dawnrun.errors import DataError
from dawnrun.text import plural

_HEAD = 16_384
"""Bytes in which most images say their size."""
_THREADS = 8
_CHUNK = 256


def write_imagenet_shards(
    folder: Path, sources: Sources, *, any_size: bool, seed: int, shard_bytes: int, progress: Progress
) -> tuple[bool, dict[Split, tuple[int, int]]]:
    """Pack what was given into `folder`; see `pack.write_shards` for the rest, `imagenet.write_imagenet` for the counts.

    Everything is counted before anything is written. Raises DataError.
    """
    check_classes(sources, any_size=any_size)
    with ExitStack() as stack:
        places = {split: _Places.of(classes, stack) for split, classes in sources.splits.items()}
        found = {split: each.num_images() for split, each in places.items()}
        check_counts(found, sources, any_size=any_size)
        indexed = {split: (_index(each, progress), reading(each.read)) for split, each in places.items()}
        return pack_splits(indexed, folder, seed=seed, shard_bytes=shard_bytes, progress=progress)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Places:
    """Where each image of a split is: image i has `sizes[i]` bytes from `offsets[i]` on in `files[of_file[i]]`.

    `descriptors`: of the archives among the files, which stay open. Names are those in class folders, in their order.
    """

    classes: tuple[str, ...]
    names: tuple[str, ...]
    labels: NDArray[np.int32]
    files: tuple[Path, ...]
    of_file: NDArray[np.int32]
    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]
    descriptors: Mapping[int, int]

    @classmethod
    def of(cls, sources: Mapping[str, ClassSource], stack: ExitStack) -> "_Places":
        """List every class. Archives are opened until `stack` ends. Raises DataError."""
        files: dict[Path, int] = {}
        rows: list[tuple[str, int, int, int, int]] = []
        descriptors: dict[int, int] = {}
        classes = tuple(sorted(sources))
        for label, name in enumerate(classes):
            pictures = sorted(sources[name](), key=lambda picture: picture.name)
            for picture, following in zip(pictures, [*pictures[1:], None], strict=True):
                if following is not None and picture.name == following.name:
                    raise DataError(f"class {name} holds {printable(picture.name)} twice")
                number = files.setdefault(picture.path, len(files))
                if picture.member is None:
                    place = (0, picture.path.stat().st_size)
                else:
                    place = (picture.member.offset, picture.member.size)
                    if number not in descriptors:
                        descriptors[number] = stack.enter_context(picture.path.open("rb")).fileno()
                rows.append((f"{name}/{picture.name}", label, number, *place))
        names, *columns = zip(*rows, strict=True) if rows else ((), (), (), (), ())
        labels, of_file, offsets, sizes = (np.array(column, np.int64) for column in columns)
        return cls(
            classes=classes,
            names=names,
            labels=labels.astype(np.int32),
            files=tuple(files),
            of_file=of_file.astype(np.int32),
            offsets=offsets,
            sizes=sizes,
            descriptors=descriptors,
        )

    def num_images(self) -> dict[str, int]:
        """Of each class."""
        numbers: list[int] = np.bincount(self.labels, minlength=len(self.classes)).tolist()
        return dict(zip(self.classes, numbers, strict=True))

    def read(self, image: int, num_bytes: int | None = None) -> bytes:
        """The bytes of an image, or the first `num_bytes`. Raises UnreadableImageError."""
        number, offset = int(self.of_file[image]), int(self.offsets[image])
        wanted = min(int(self.sizes[image]), num_bytes or 2**62)
        try:
            if number in self.descriptors:
                data = os.pread(self.descriptors[number], wanted, offset)
            else:
                with self.files[number].open("rb") as file:
                    data = file.read(wanted)
        except OSError as error:
            raise UnreadableImageError(error.strerror or str(error)) from error
        if len(data) != wanted:
            raise UnreadableImageError(f"{printable(self.files[number])} is cut short")
        return data

    def size_in_pixels(self, image: int) -> tuple[int, int]:
        """Width and height. Raises UnreadableImageError."""
        try:
            return read_size(self.read(image, _HEAD))
        except UnreadableImageError:
            return read_size(self.read(image))


def _index(places: _Places, progress: Progress) -> DatasetIndex:
    """The index that the class folders would have. Raises DataError that names images without a readable header."""
    folder = Path(os.path.commonpath(places.files))
    changed = np.array([path.stat().st_mtime_ns for path in places.files], np.int64)
    scan = Scan(
        folder=folder,
        classes=places.classes,
        names=places.names,
        labels=places.labels,
        sizes=places.sizes,
        mtimes=changed[places.of_file],
        remarks={},
        dangling=(),
        empty=(),
    )
    # A command that is given again does not read a million headers again.
    cache = SizeCache(default_cache_dir(), folder)
    pixels = cache.look_up(scan)
    missing = np.flatnonzero(pixels[:, 0] == 0)
    bad = []
    if len(missing):
        with progress(len(missing)) as advance:
            for image, size, reason in _headers(places, missing):
                pixels[image] = size
                bad += [f"{printable(places.names[image])}: {reason}"] if reason else []
                advance(1)
        cache.store(scan, pixels)
    if bad:
        raise DataError(f"{plural(len(bad), 'unreadable image')} in {printable(folder)}:\n{listed(bad, noun='images')}")
    widths, heights = np.ascontiguousarray(pixels[:, 0]), np.ascontiguousarray(pixels[:, 1])
    return DatasetIndex(
        folder=folder,
        classes=places.classes,
        names=places.names,
        labels=places.labels,
        sizes=places.sizes,
        widths=widths,
        heights=heights,
        fingerprint=fingerprint_of(places.classes, places.names, places.sizes, widths, heights),
        remarks={},
    )


def _headers(places: _Places, images: NDArray[np.int64]) -> Iterator[tuple[int, tuple[int, int], str]]:
    """Image, (width, height), and why it cannot be read; on threads, for slow disks."""

    def read(chunk: NDArray[np.int64]) -> list[tuple[int, tuple[int, int], str]]:
        return [_header(places, image) for image in chunk.tolist()]

    with ThreadPoolExecutor(_THREADS) as pool:
        for found in pool.map(read, (images[at : at + _CHUNK] for at in range(0, len(images), _CHUNK))):
            yield from found


def _header(places: _Places, image: int) -> tuple[int, tuple[int, int], str]:
    try:
        return image, places.size_in_pixels(image), ""
    except UnreadableImageError as error:
        return image, (0, 0), str(error)
