"""Which images a split of a data set holds: names, labels, widths and heights, found once and cached."""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dawnrun.cache import default_cache_dir
from dawnrun.dataset.decode import UnreadableImageError, printable, read_file, read_size
from dawnrun.dataset.folder import EXTENSIONS, Scan, Split, listed
from dawnrun.dataset.shards import Shards, Texts
from dawnrun.dataset.size_cache import SizeCache
from dawnrun.dataset.store import scan_store
from dawnrun.dataset.verdict import Verdict, known_verdict, stamp_of
from dawnrun.errors import DataError
from dawnrun.text import plural

_CHUNK = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetIndex:
    """One split (train or val) of a data set in class folders or shards.

    `names[i]` is the path of image i below `folder`, with forward slashes, or its name in its shard; `labels` int32[n]
    index `classes` (sorted as text); `sizes` int64[n] are bytes; `widths` and `heights` int32[n] are pixels as stored,
    orientation tags ignored, both 0 where the header is unreadable and the caller allowed it.
    `fingerprint` is a SHA-256 over classes, names, sizes in bytes, widths and heights.
    `verdict` is what `dawnrun data check` found in these very files, if it looked at them.
    `remarks` counts what was passed over: hidden_files, other_files, images_outside_class_folders, link_cycles.
    """

    folder: Path
    classes: tuple[str, ...]
    names: tuple[str, ...]
    labels: NDArray[np.int32]
    sizes: NDArray[np.int64]
    widths: NDArray[np.int32]
    heights: NDArray[np.int32]
    fingerprint: str
    remarks: Mapping[str, int]
    shards: Shards | None = None
    verdict: Verdict | None = None

    def __len__(self) -> int:
        """Number of images."""
        return len(self.names)

    def path(self, image: int) -> str:
        """Path of an image's file, or shard and name."""
        return self.shards.path(image) if self.shards else f"{self.folder}/{self.names[image]}"

    def read(self, image: int) -> bytes:
        """The bytes of an image. Raises UnreadableImageError."""
        return self.shards.read(image) if self.shards else read_file(self.path(image))

    @property
    def is_by_path(self) -> bool:
        """Whether every image is a file of its own, at `path`."""
        return self.shards is None

    def class_name(self, image: int) -> str:
        """Class of an image, as text that can be printed."""
        return printable(self.classes[self.labels[image]])


def build_index(
    root: Path,
    split: Split,
    *,
    cache_dir: Path | None = None,
    max_bad: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> DatasetIndex:
    """Find every image of `split` below `root`; headers of new and changed files are read, others come from the cache.

    `cache_dir`: where sizes are kept (default: see `default_cache_dir`); a damaged or unwritable cache is passed
    over. Up to `max_bad` images with unreadable headers are kept with width and height 0. `progress(done, total)` is
    told of the headers read. Raises DataError.
    """
    cache_dir = cache_dir or default_cache_dir()
    scan = scan_store(root, split, cache_dir=cache_dir, progress=progress)
    refuse_unusable(scan)
    pixels, reasons = _sizes_in_pixels(scan, cache_dir, progress)
    if len(reasons) > max_bad:
        raise _unreadable(scan, reasons, max_bad=max_bad, root=root)
    widths, heights = np.ascontiguousarray(pixels[:, 0]), np.ascontiguousarray(pixels[:, 1])
    return DatasetIndex(
        folder=scan.folder,
        classes=scan.classes,
        names=scan.names,
        labels=scan.labels,
        sizes=scan.sizes,
        widths=widths,
        heights=heights,
        fingerprint=fingerprint_of(scan.classes, scan.names, scan.sizes, widths, heights),
        remarks=scan.remarks,
        shards=scan.shards,
        verdict=known_verdict(cache_dir, stamp_of(scan)),
    )


def subset(index: DatasetIndex, kept: NDArray[np.bool_]) -> DatasetIndex:
    """The images for which `kept`, bool[n], is true, under the same classes; equal to the index of a set of only these."""
    names = tuple(compress(index.names, kept))
    sizes, widths, heights = index.sizes[kept], index.widths[kept], index.heights[kept]
    return replace(
        index,
        names=names,
        labels=index.labels[kept],
        sizes=sizes,
        widths=widths,
        heights=heights,
        fingerprint=fingerprint_of(index.classes, names, sizes, widths, heights),
        shards=index.shards and index.shards.subset(kept),
    )


def check_same_classes(train: DatasetIndex | Scan, val: DatasetIndex | Scan) -> None:
    """Raise DataError that shows the first difference unless both have the same class list."""
    if train.classes == val.classes:
        return
    here, there = set(train.classes), set(val.classes)
    where = {name: train.folder if name in here else val.folder for name in here ^ there}
    first = min(where)
    other = val.folder if first in here else train.folder
    raise DataError(
        f"class lists differ: {len(train.classes):,} classes in {printable(train.folder)}, "
        f"{len(val.classes):,} in {printable(val.folder)}\n"
        f"    first difference: {printable(first)} is in {printable(where[first])} but not in {printable(other)} "
        f"({len(where):,} in all)"
    )


def refuse_unusable(scan: Scan) -> None:
    """Raise DataError that lists what no run can use: links leading nowhere, empty class folders, shards cut short."""
    parts = []
    if scan.shards and (problems := scan.shards.problems()):
        parts.append(
            f"{plural(len(problems), 'shard')} of another size than the index says:\n{listed(problems, noun='shards')}"
        )
    if scan.dangling:
        parts.append(f"{plural(len(scan.dangling), 'link')} leading nowhere:\n{listed(scan.dangling, noun='links')}")
    if scan.empty:
        no_image = f"{plural(len(scan.empty), 'class folder')} without an image ({', '.join(EXTENSIONS)})"
        parts.append(f"{no_image}:\n{listed(scan.empty, noun='folders')}\n    fill or remove them")
    if parts:
        raise DataError("\n".join(parts))


def _sizes_in_pixels(
    scan: Scan, cache_dir: Path, progress: Callable[[int, int], None] | None
) -> tuple[NDArray[np.int32], dict[int, str]]:
    """Width and height of each image, int32[n, 2], and the reasons where its header cannot be read."""
    if scan.shards:
        table = scan.shards.table
        sizes = np.stack([table.widths, table.heights], axis=1)
        return sizes, {int(image): _read_one(scan, int(image))[2] for image in np.flatnonzero(sizes[:, 0] == 0)}
    cache = SizeCache(cache_dir, scan.folder)
    sizes = cache.look_up(scan)
    missing = np.flatnonzero(sizes[:, 0] == 0)
    reasons: dict[int, str] = {}
    for image, size, reason in _read_sizes(scan, missing, progress):
        sizes[image] = size
        if reason:
            reasons[image] = reason
    if len(missing) > len(reasons):
        cache.store(scan, sizes)
    return sizes, reasons


def _read_sizes(
    scan: Scan, images: NDArray[np.int64], progress: Callable[[int, int], None] | None
) -> Iterator[tuple[int, tuple[int, int], str]]:
    """Image, (width, height) and the reason if that is unreadable, in order; on threads, for slow disks."""

    def read(chunk: NDArray[np.int64]) -> list[tuple[int, tuple[int, int], str]]:
        return [_read_one(scan, image) for image in chunk.tolist()]

    chunks = [images[first : first + _CHUNK] for first in range(0, len(images), _CHUNK)]
    done = 0
    with ThreadPoolExecutor(min(16, 2 * (os.cpu_count() or 1))) as pool:
        for found in pool.map(read, chunks):
            yield from found
            done += len(found)
            if progress:
                progress(done, len(images))


def _read_one(scan: Scan, image: int) -> tuple[int, tuple[int, int], str]:
    try:
        return image, read_size(scan.read(image) if scan.shards else scan.path(image)), ""
    except UnreadableImageError as error:
        return image, (0, 0), str(error)


def fingerprint_of(classes: Texts, names: Texts, *columns: NDArray[np.int64] | NDArray[np.int32]) -> str:
    """SHA-256, as documented in DatasetIndex; the same on every machine."""
    digest = hashlib.sha256()
    for texts in (classes, names):
        digest.update(b"%d\n" % len(texts))
        digest.update(b"\0".join(map(os.fsencode, texts)))
    for numbers in columns:
        digest.update(numbers.astype("<i8").tobytes())
    return digest.hexdigest()


def _unreadable(scan: Scan, reasons: Mapping[int, str], *, max_bad: int, root: Path) -> DataError:
    """The error that names unreadable images."""
    bad = [
        f"{printable(scan.path(image))} (class {scan.class_name(image)}): {reason}"
        for image, reason in sorted(reasons.items())
    ]
    return DataError(
        f"{plural(len(bad), 'unreadable image')}, {max_bad:,} allowed:\n"
        f"{listed(bad, noun='images')}\n"
        f"    list all of them: dawnrun data check {printable(root)}\n"
        "    go on without them, in training only: input.max_bad_images in the recipe"
    )
