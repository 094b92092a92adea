"""Looks at a whole data set at once: every file decoded to its last byte, everything wrong with it in one list."""

import hashlib
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from dawnrun.cache import default_cache_dir
from dawnrun.dataset.decode import BadImage, UnreadableImageError, check_image, printable
from dawnrun.dataset.folder import Scan, Split
from dawnrun.dataset.index import check_same_classes
from dawnrun.dataset.store import scan_store
from dawnrun.dataset.verdict import keep_verdict, stamp_of
from dawnrun.errors import DataError
from dawnrun.text import count, plural

ILSVRC2012 = {"classes": 1000, "train": 1_281_167, "val": 50_000}
"""The full set. The only place of these numbers."""
_DUPLICATED_FRACTION = 0.5
"""Two class folders with more of the smaller one's files in common are one class twice."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckResult:
    """What was found: `problems` make a set unfit to train on, `remarks` are worth knowing."""

    bad: tuple[BadImage, ...]
    problems: tuple[str, ...]
    remarks: tuple[str, ...]


def list_splits(root: Path) -> tuple[dict[Split, Scan], tuple[str, ...]]:
    """The splits below `root` that can be listed, and what is wrong with the others or between them."""
    scans: dict[Split, Scan] = {}
    problems: list[str] = []
    for split in get_args(Split):
        try:
            scans[split] = scan = scan_store(root, split, cache_dir=default_cache_dir())
            problems += scan.shards.problems() if scan.shards else []
            problems += [f"link leading nowhere: {path}" for path in scan.dangling]
            problems += [f"class folder without an image: {path}" for path in scan.empty]
        except DataError as error:
            problems.append(str(error))
    if len(scans) == 2:
        try:
            check_same_classes(scans["train"], scans["val"])
        except DataError as error:
            problems.append(str(error))
    return scans, tuple(dict.fromkeys(problems))  # a missing root is said once


def check_images(scans: Mapping[Split, Scan], advance: Callable[[int], None]) -> CheckResult:
    """Read and decode every image; `advance(1)` is called for each. Memory: 16 bytes of digest for each image.

    What was found is kept for the start of runs, see `verdict`.
    """
    bad: list[BadImage] = []
    problems: list[str] = []
    remarks = _size_remarks(scans)
    digests: dict[Split, set[bytes]] = {}
    for split, scan in scans.items():
        stamp = stamp_of(scan)  # before anything is read: what changes meanwhile is not what was looked at
        damaged = scan.shards.damaged() if scan.shards else []
        unreadable: list[BadImage] = []
        by_content: dict[bytes, list[int]] = defaultdict(list)
        for image, (digest, reason) in enumerate(_looked_at(scan)):
            if reason:
                path, class_name = printable(scan.path(image)), scan.class_name(image)
                unreadable.append(BadImage(path=path, class_name=class_name, reason=reason, split=split))
            else:
                by_content[digest].append(image)
            advance(1)
        wrong = [*damaged, *_duplicated_classes(scan, by_content)]
        keep_verdict(default_cache_dir(), stamp, num_images=len(scan.names), bad=unreadable, problems=wrong)
        bad += unreadable
        problems += wrong
        repeated = sum(len(images) - 1 for images in by_content.values())
        if repeated:
            remarks.append(f"{split}: {count(repeated)} files are copies of others")
        digests[split] = set(by_content)
    common = set.intersection(*digests.values()) if len(digests) == 2 else set()
    if common:
        remarks.append(f"{plural(len(common), 'picture')} in both train and val")
    return CheckResult(bad=tuple(bad), problems=tuple(problems), remarks=tuple(remarks))


def _looked_at(scan: Scan) -> Iterator[tuple[bytes, str]]:
    """For each image a digest of its bytes and, if it cannot be decoded, the reason; decoded on all cores."""

    def look(image: int) -> tuple[bytes, str]:
        try:
            data = scan.read(image)
            check_image(data)
        except UnreadableImageError as error:
            return b"", str(error)
        return hashlib.blake2b(data, digest_size=16).digest(), ""

    num_threads = os.cpu_count() or 1
    step = 64 * num_threads  # bounds what is read ahead
    with ThreadPoolExecutor(num_threads) as pool:
        for first in range(0, len(scan.names), step):
            yield from pool.map(look, range(first, min(first + step, len(scan.names))))


def _duplicated_classes(scan: Scan, by_content: Mapping[bytes, list[int]]) -> list[str]:
    """Pairs of class folders that hold the same pictures."""
    sizes = Counter[int]()
    shared = Counter[tuple[int, int]]()
    for images in by_content.values():
        labels = sorted({int(scan.labels[image]) for image in images})
        sizes.update(labels)
        shared.update((a, b) for a in labels for b in labels if a < b)
    return [
        f"{printable(scan.folder)}: class folders {printable(scan.classes[a])} and {printable(scan.classes[b])} "
        f"have {plural(number, 'picture')} in common; remove one of them"
        for (a, b), number in sorted(shared.items())
        if number > _DUPLICATED_FRACTION * min(sizes[a], sizes[b])
    ]


def _size_remarks(scans: Mapping[Split, Scan]) -> list[str]:
    """What was passed over, and whether this is the full ILSVRC2012 set."""
    remarks = [
        f"{split}: {count(number)} {what.replace('_', ' ')} passed over"
        for split, scan in scans.items()
        for what, number in sorted(scan.remarks.items())
    ]
    found: dict[str, int] = {split: len(scan.names) for split, scan in scans.items()}
    classes = {len(scan.classes) for scan in scans.values()}
    if found | {"classes": max(classes, default=0)} != ILSVRC2012 or len(classes) != 1:
        full = (
            f"{count(ILSVRC2012['classes'])} classes, {count(ILSVRC2012['train'])} + {count(ILSVRC2012['val'])} images"
        )
        remarks.append(f"not the full ILSVRC2012 set ({full})")
    return remarks
