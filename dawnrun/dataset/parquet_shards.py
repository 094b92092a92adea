"""Parquet files to shards. Parquet is read from front to back, so images are written where they belong as they come."""

import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import get_args

import numpy as np

from dawnrun.cache import default_cache_dir
from dawnrun.dataset.decode import printable
from dawnrun.dataset.folder import Split
from dawnrun.dataset.index import DatasetIndex, fingerprint_of
from dawnrun.dataset.pack import HEADER_BYTES, Advance, Layout, Progress, ShardWriter, pack_splits, sample, shard_name
from dawnrun.dataset.parquet import Rows, class_names, find_parquet, images_of, read_rows, refuse_unreadable
from dawnrun.dataset.shards import sha256_of
from dawnrun.dataset.staging import Staging, write_aside
from dawnrun.errors import DataError

_THREADS = 4


def has_parquet(root: Path) -> bool:
    """Whether a folder is a data set in Parquet files."""
    return any(find_parquet(root, split) for split in get_args(Split))


def pack_parquet(
    root: Path,
    folder: Path,
    *,
    classes: Path | None,
    seed: int,
    shard_bytes: int,
    listing: Progress,
    progress: Progress,
) -> tuple[bool, dict[Split, tuple[int, int]]]:
    """Pack both splits in the Parquet files of `root`; `classes` names the classes, `listing` counts files. See `pack.write_shards`."""
    root = root.absolute()
    files = {split: find_parquet(root, split) for split in get_args(Split)}
    for split, of_split in files.items():
        if not of_split:
            raise DataError(
                f"no {split} files in {printable(root)}: wanted data/{split}-00000-of-00001.parquet or the like"
            )
    names = class_names([path for of_split in files.values() for path in of_split], classes)
    sources: dict[Split, tuple[DatasetIndex, ShardWriter]] = {}
    for split, of_split in files.items():
        index, num_rows = _index(root, of_split, names, listing)
        sources[split] = (index, _in_order_of_files(of_split, num_rows))
    return pack_splits(sources, folder, seed=seed, shard_bytes=shard_bytes, progress=progress)


def _index(
    root: Path, files: Sequence[Path], class_of: Sequence[str], progress: Progress
) -> tuple[DatasetIndex, list[int]]:
    """The index of a split, images numbered by file and row, and the rows of each file. Raises DataError."""
    found: list[tuple[Path, Rows]] = []
    with ThreadPoolExecutor(_THREADS) as pool, progress(len(files)) as advance:
        for path, rows in zip(files, pool.map(lambda path: read_rows(path, default_cache_dir()), files), strict=True):
            found.append((path, rows))
            advance(1)
    refuse_unreadable(found)
    numbers = np.concatenate([rows.labels for _, rows in found])
    if numbers.max(initial=-1) >= len(class_of):
        raise DataError(f"label {numbers.max()} in {printable(root)}, but only {len(class_of):,} classes have a name")
    classes = tuple(sorted(class_of))
    place = {name: number for number, name in enumerate(classes)}
    labels = np.array([place[name] for name in class_of], np.int32)[numbers]
    texts = [name for _, rows in found for name in rows.names]
    names = tuple(f"{classes[label]}/{text}" for label, text in zip(labels.tolist(), texts, strict=True))
    sizes, widths, heights = (
        np.concatenate([getattr(rows, column) for _, rows in found]) for column in ("sizes", "widths", "heights")
    )
    index = DatasetIndex(
        folder=root,
        classes=classes,
        names=names,
        labels=labels,
        sizes=sizes,
        widths=widths,
        heights=heights,
        fingerprint=fingerprint_of(classes, names, sizes, widths, heights),
        remarks={},
    )
    return index, [len(rows.names) for _, rows in found]


def _in_order_of_files(files: Sequence[Path], num_rows: Sequence[int]) -> ShardWriter:
    """Writes all shards at once, file after file; stopped, it goes on with the file that it was at."""

    def write(staging: Staging, split: Split, index: DatasetIndex, layout: Layout, advance: Advance) -> list[str]:
        shards = [staging.at(shard_name(split, number)) for number in range(len(layout.file_bytes))]
        parts = [path.with_name(f".{path.name}.part") for path in shards]
        progress = staging.aside / f".{split}-files-done.json"
        if not any(path.exists() for path in shards):  # else only their renaming was left to do
            done = _files_done(progress, parts, layout)
            advance(sum(num_rows[:done]))
            for number in range(done, len(files)):
                first = sum(num_rows[:number])
                _place(files[number], range(first, first + num_rows[number]), index, layout, parts, advance)
                os.sync()
                write_aside(progress, json.dumps(number + 1).encode())
        for path, part in zip(shards, parts, strict=True):
            if not path.exists():
                part.replace(path)
        progress.unlink(missing_ok=True)
        return [sha256_of(path) for path in shards]

    return write


def _files_done(progress: Path, parts: Sequence[Path], layout: Layout) -> int:
    """How many files need not be read again; shards that are not there yet are made, full of zeros."""
    done = 0
    with suppress(OSError, ValueError):
        done = int(json.loads(progress.read_text(encoding="utf-8")))
    for part, num_bytes in zip(parts, layout.file_bytes.tolist(), strict=True):
        if not part.exists() or part.stat().st_size != num_bytes:
            done = 0
            with part.open("wb") as file:
                file.truncate(num_bytes)
    return done


def _place(
    path: Path, images: range, index: DatasetIndex, layout: Layout, parts: Sequence[Path], advance: Advance
) -> None:
    """Write every image of a file, which are those of these numbers, to its place."""
    left = iter(images)
    for data, _, _ in images_of(path):
        image = next(left, None)
        if image is None:
            raise DataError(f"{printable(path)} changed while it was packed")
        with parts[layout.shards[image]].open("r+b") as file:
            file.seek(int(layout.offsets[image]) - HEADER_BYTES)
            file.write(sample(index, image, data))
        advance(1)
    if next(left, None) is not None:
        raise DataError(f"{printable(path)} changed while it was packed")
