"""Shards that other tools made: no index, so every header is read once and what was found is kept in the cache."""

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from dawnrun.dataset.archive import Member, members, opened, read_member
from dawnrun.dataset.decode import UnreadableImageError, printable, read_size
from dawnrun.dataset.shards import CLASSES, Shards, ShardTable, Texts
from dawnrun.errors import DataError

_IMAGES = ("jpg", "jpeg", "png", "webp")
_LABEL = "cls"
_HEAD = 16_384
"""Bytes in which most images say their size."""
_DIGITS = 5
"""Classes known by number alone are named by it, zeros in front, so that they sort as numbers."""


@dataclass(frozen=True, slots=True)
class _Sample:
    name: str
    offset: int
    num_bytes: int
    size: tuple[int, int]
    label: str


def index_foreign(
    folder: Path, files: Texts, *, cache_dir: Path, progress: Callable[[int, int], None] | None = None
) -> Shards:
    """Find every sample with an image and a `.cls` in shards `files` of `folder`. Raises DataError.

    Images are numbered by shard and place in it. `progress(done, total)` counts shards.
    """
    status = [(folder / name).stat() for name in files]
    file_bytes = np.array([each.st_size for each in status], np.int64)
    mtimes = np.array([each.st_mtime_ns for each in status], np.int64)
    names_file = folder / CLASSES
    named = [os.fsencode(folder / name) for name in files]
    if names_file.exists():
        named.append(str(names_file.stat().st_mtime_ns).encode())
    cached = cache_dir / f"shards-v1-{hashlib.sha256(bytes(1).join(named)).hexdigest()[:24]}.npz"
    with suppress(OSError, ValueError):
        table = ShardTable.load(cached)
        same = table.files == files and (table.file_bytes == file_bytes).all() and (table.file_mtimes == mtimes).all()
        if same:
            return Shards(folder=folder, table=table)
    found: list[list[_Sample]] = []
    with ThreadPoolExecutor(min(8, 2 * (os.cpu_count() or 1))) as pool:
        for samples in pool.map(lambda name: list(_samples(folder / name)), files):
            found.append(samples)
            if progress:
                progress(len(found), len(files))
    table = _table(files, file_bytes, mtimes, found, names_file)
    with suppress(OSError):
        cache_dir.mkdir(parents=True, exist_ok=True)
        table.save(cached)
    return Shards(folder=folder, table=table)


def _samples(path: Path) -> Iterator[_Sample]:
    """The samples of one shard: members that follow one another and share a name up to its first dot."""
    with opened(path) as file:
        key, parts = "", dict[str, Member]()
        for member in [*members(file, path), None]:
            folder, _, base = member.name.rpartition("/") if member else ("", "", "")
            stem, _, extension = base.partition(".")
            if member is None or f"{folder}/{stem}" != key:
                if parts:
                    yield _sample(file, path, parts)
                key, parts = f"{folder}/{stem}", {}
            if member is not None:
                parts[extension.lower()] = member


def _sample(file: IO[bytes], path: Path, parts: dict[str, Member]) -> _Sample:
    image = next((parts[kind] for kind in _IMAGES if kind in parts), None)
    label = parts.get(_LABEL)
    if image is None or label is None:
        first = next(iter(parts.values()))
        raise DataError(
            f"shard {printable(path)}: sample {printable(first.name)} has no {'image' if image is None else '.cls'} "
            f"({', '.join(parts)})\n    wanted for each sample: .cls and one of {', '.join(f'.{kind}' for kind in _IMAGES)}\n"
            "    for ILSVRC2012's own archives: dawnrun data imagenet --help"
        )
    try:
        text = read_member(file, path, label).decode().strip()
    except UnicodeDecodeError as error:
        raise DataError(f"shard {printable(path)}: {printable(label.name)} is no text") from error
    return _Sample(image.name, image.offset, image.size, _size(file, path, image), text)


def _size(file: IO[bytes], path: Path, image: Member) -> tuple[int, int]:
    """Width and height; 0, 0 where the header cannot be read."""
    for num_bytes in dict.fromkeys((min(_HEAD, image.size), image.size)):
        with suppress(UnreadableImageError):
            return read_size(read_member(file, path, Member(image.name, image.offset, num_bytes)))
    return 0, 0


def _table(
    files: Texts,
    file_bytes: NDArray[np.int64],
    mtimes: NDArray[np.int64],
    found: list[list[_Sample]],
    names_file: Path,
) -> ShardTable:
    samples = [sample for of_shard in found for sample in of_shard]
    texts = {sample.label for sample in samples}
    class_of = {text: text for text in texts}
    if all(re.fullmatch(r"\d+", text) for text in texts):
        class_of = _numbered(texts, names_file)
    classes = tuple(sorted(set(class_of.values())))
    place = {name: number for number, name in enumerate(classes)}
    return ShardTable(
        files=files,
        file_bytes=file_bytes,
        file_mtimes=mtimes,
        sha256=("",) * len(files),
        classes=classes,
        names=tuple(sample.name for sample in samples),
        labels=np.array([place[class_of[sample.label]] for sample in samples], np.int32),
        shards=np.repeat(np.arange(len(files), dtype=np.int32), [len(of_shard) for of_shard in found]),
        offsets=np.array([sample.offset for sample in samples], np.int64),
        sizes=np.array([sample.num_bytes for sample in samples], np.int64),
        widths=np.array([sample.size[0] for sample in samples], np.int32),
        heights=np.array([sample.size[1] for sample in samples], np.int32),
    )


def _numbered(texts: set[str], names_file: Path) -> dict[str, str]:
    """Names of classes that samples know by number: from classes.txt, else the number."""
    try:
        names = names_file.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except FileNotFoundError:
        return {text: f"{int(text):0{_DIGITS}d}" for text in texts}
    except OSError as error:
        raise DataError(f"cannot read {printable(names_file)}: {error.strerror}") from error
    highest = max(map(int, texts), default=-1)
    if highest >= len(names) or len(set(names)) != len(names):
        raise DataError(f"{printable(names_file)} has {len(set(names)):,} classes, the shards use number {highest:,}")
    return {text: names[int(text)] for text in texts}
