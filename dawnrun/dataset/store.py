"""Where the images of a split are: class folders or shards, whichever the data set has."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from dawnrun.dataset.folder import Scan, Split, find_split, scan_split
from dawnrun.dataset.foreign_shards import index_foreign
from dawnrun.dataset.shards import Shards, find_shards, load_packed


def scan_store(
    root: Path, split: Split, *, cache_dir: Path, progress: Callable[[int, int], None] | None = None
) -> Scan:
    """Every image of `split` below `root`. Raises DataError; shards that are cut or missing are `Shards.problems`."""
    folder, files = find_shards(root, split)
    shards = load_packed(root, split, files)
    if shards is None and files:
        shards = index_foreign(folder, files, cache_dir=cache_dir, progress=progress)
    return scan_split(find_split(root, split)) if shards is None else _as_scan(shards)


def _as_scan(shards: Shards) -> Scan:
    table = shards.table
    return Scan(
        folder=shards.folder,
        classes=table.classes,
        names=table.names,
        labels=table.labels,
        sizes=table.sizes,
        mtimes=np.zeros(len(table.names), np.int64),
        remarks={},
        dangling=(),
        empty=(),
        shards=shards,
    )
