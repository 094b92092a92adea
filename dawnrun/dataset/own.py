"""Images of the user's own: listed and read by an object that the recipe imports, instead of class folders or shards."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dawnrun.dataset.decode import UnreadableImageError, read_size
from dawnrun.dataset.folder import Split, listed
from dawnrun.dataset.index import DatasetIndex
from dawnrun.errors import DataError
from dawnrun.recipe.imported import a, called, refused
from dawnrun.text import plural

KEY = "input.import"


class ImageSource(Protocol):
    """What the imported function returns for a folder and a split.

    `labels[i]`, from 0, is the class of image `names[i]`; `classes` are the same for both splits. `read` returns a whole
    encoded file (JPEG or PNG); it is called from several threads, and raises OSError or ValueError for a bad image.
    `widths` and `heights` in pixels as stored may be left out: every process then reads every image once at the start.
    """

    classes: Sequence[str]
    names: Sequence[str]
    labels: Sequence[int]

    def read(self, name: str) -> bytes:
        """The bytes of an image."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnIndex(DatasetIndex):
    """An index whose images are read by `source`; `sizes` are all 0."""

    source: ImageSource

    @property
    def is_by_path(self) -> bool:
        """Names need not be paths."""
        return False

    def read(self, image: int) -> bytes:
        """The bytes of an image. Raises UnreadableImageError."""
        return _read(self.source, self.names[image])


def index_own(path: str, root: Path, split: Split, *, max_bad: int = 0) -> DatasetIndex:
    """What `path`, as a recipe names it, lists for `root` and `split`.

    RecipeError at input.import if it cannot be had or is no ImageSource, DataError for unreadable images.
    """
    source = called(KEY, path, folder=root, split=split)
    classes, names, labels = _columns(path, source, split)
    pixels = _sizes_in_pixels(path, source, names, max_bad)
    return OwnIndex(
        folder=root,
        classes=classes,
        names=names,
        labels=labels,
        sizes=np.zeros(len(names), np.int64),
        widths=np.ascontiguousarray(pixels[:, 0]),
        heights=np.ascontiguousarray(pixels[:, 1]),
        fingerprint=_fingerprint(classes, names, labels, pixels),
        remarks={},
        source=source,
    )


def _columns(path: str, source: Any, split: Split) -> tuple[tuple[str, ...], tuple[str, ...], NDArray[np.int32]]:
    """Classes, names and labels. RecipeError where the object has not all, or they do not fit together."""
    lacking = [name for name in ("classes", "names", "labels", "read") if not hasattr(source, name)]
    if lacking:
        raise refused(KEY, f"{path} returned {a(source)} without {', '.join(lacking)}")
    classes, names = tuple(source.classes), tuple(source.names)
    if not all(isinstance(text, str) for text in (*classes, *names)) or len(set(classes)) < len(classes):
        raise refused(KEY, f"{path}: classes and names must be text, and no class may be listed twice")
    try:
        labels = np.asarray(source.labels, np.int32)
    except (TypeError, ValueError, OverflowError):
        raise refused(KEY, f"{path}: labels must be whole numbers") from None
    if not names or labels.shape != (len(names),):
        raise refused(KEY, f"{path}: {plural(len(names), 'name')} and {labels.size} labels for {split}")
    if labels.min() < 0 or labels.max() >= len(classes):
        message = f"{path}: labels from {labels.min()} to {labels.max()} for {plural(len(classes), 'class', 'classes')}"
        raise refused(KEY, f"{message}; they count from 0")
    return classes, names, labels


def _sizes_in_pixels(path: str, source: Any, names: tuple[str, ...], max_bad: int) -> NDArray[np.int32]:
    """Width and height of each image, int32[n, 2], 0 where its header cannot be read."""
    if hasattr(source, "widths") and hasattr(source, "heights"):
        message = f"{path}: widths and heights must be pixels, 1 or more, one each for every name"
        try:
            stated = np.stack([np.asarray(source.widths, np.int32), np.asarray(source.heights, np.int32)], axis=-1)
        except (TypeError, ValueError, OverflowError):
            raise refused(KEY, message) from None
        if stated.shape != (len(names), 2) or stated.min() < 1:
            raise refused(KEY, message)
        return stated
    found, bad = np.zeros((len(names), 2), np.int32), list[str]()
    for image, size in enumerate(_read_sizes(source, names)):
        if isinstance(size, tuple):
            found[image] = size
        else:
            bad.append(f"{names[image]}: {size}")
    if len(bad) > max_bad:
        raise DataError(
            f"{plural(len(bad), 'unreadable image')} from {path}, {max_bad:,} allowed:\n{listed(bad, noun='images')}"
        )
    return found


def _read_sizes(source: ImageSource, names: tuple[str, ...]) -> Iterator[tuple[int, int] | str]:
    """Width and height, or why not, in order; on threads, for slow disks."""

    def read(name: str) -> tuple[int, int] | str:
        try:
            return read_size(_read(source, name))
        except UnreadableImageError as error:
            return str(error)

    with ThreadPoolExecutor(min(16, 2 * (os.cpu_count() or 1))) as pool:
        yield from pool.map(read, names)


def _read(source: ImageSource, name: str) -> bytes:
    try:
        data = source.read(name)
    except (OSError, ValueError, LookupError) as error:
        raise UnreadableImageError(f"{type(error).__name__}: {error}") from error
    if not isinstance(data, bytes):
        raise UnreadableImageError(f"read returned {a(data)}, not bytes")
    return data


def _fingerprint(
    classes: tuple[str, ...], names: tuple[str, ...], labels: NDArray[np.int32], pixels: NDArray[np.int32]
) -> str:
    """SHA-256 over classes, names, labels, widths and heights; the bytes of the images are not read for it."""
    digest = hashlib.sha256()
    for texts in (classes, names):
        digest.update(b"%d\n" % len(texts))
        digest.update(b"\0".join(map(os.fsencode, texts)))
    for numbers in (labels, pixels):
        digest.update(numbers.astype("<i8").tobytes())
    return digest.hexdigest()
