"""What `dawnrun data check` found in a split, kept in the cache and known again by what the split holds."""

import hashlib
import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from dawnrun.dataset.decode import BadImage
from dawnrun.dataset.folder import Scan
from dawnrun.dataset.staging import write_aside
from dawnrun.text import count, plural

_VERSION = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """A split as it was checked: `date` in UTC, its number of images, unreadable ones, and what else was wrong with it."""

    date: str
    num_images: int
    bad: tuple[BadImage, ...]
    problems: tuple[str, ...]

    def __str__(self) -> str:
        """`checked on 2026-11-30: 1,281,167 images, nothing wrong was found`."""
        found = [plural(len(self.bad), "unreadable image")] * bool(self.bad)
        found += self.problems or ([] if self.bad else ["nothing wrong was found"])
        return f"checked on {self.date}: {count(self.num_images)} images, {'; '.join(found)}"


def stamp_of(scan: Scan) -> str:
    """SHA-256 over the classes, and name, bytes and time of change of each image, or of each shard that holds them.

    Not the content itself, which takes as long to read as the check: a file that was changed and given back its old size
    and time is taken for the old one. The same images elsewhere, or copied without their times, are other images.
    """
    digest = hashlib.sha256(b"\0".join(map(os.fsencode, scan.classes)))
    digest.update(b"\0\0" + b"\0".join(map(os.fsencode, scan.names)))
    digest.update(scan.labels.astype("<i4").tobytes() + scan.sizes.astype("<i8").tobytes())
    digest.update(scan.mtimes.astype("<i8").tobytes() if scan.shards is None else _of_shards(scan))
    return digest.hexdigest()


def _of_shards(scan: Scan) -> bytes:
    assert scan.shards is not None
    lines = []
    for name, sha256 in zip(scan.shards.table.files, scan.shards.table.sha256, strict=True):
        with suppress(OSError):  # one that is missing is found out elsewhere
            status = (scan.shards.folder / name).stat()
            lines.append(f"{name} {sha256} {status.st_size} {status.st_mtime_ns}")
    return "\n".join(lines).encode(errors="surrogateescape")


def keep_verdict(
    cache_dir: Path, stamp: str, *, num_images: int, bad: Sequence[BadImage], problems: Sequence[str]
) -> None:
    """Remember what a check found. A cache that cannot be written is passed over."""
    date = time.strftime("%Y-%m-%d", time.gmtime())
    verdict = Verdict(date=date, num_images=num_images, bad=tuple(bad), problems=tuple(problems))
    with suppress(OSError):
        cache_dir.mkdir(parents=True, exist_ok=True)
        write_aside(_path(cache_dir, stamp), json.dumps(asdict(verdict)).encode())


def known_verdict(cache_dir: Path, stamp: str) -> Verdict | None:
    """What a check of these very files found; None where there was none, or its file is damaged."""
    try:
        found = json.loads(_path(cache_dir, stamp).read_text(encoding="utf-8"))
        found["bad"] = tuple(BadImage(**image) for image in found["bad"])
        found["problems"] = tuple(map(str, found["problems"]))
        return Verdict(**found)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _path(cache_dir: Path, stamp: str) -> Path:
    return cache_dir / f"checked-v{_VERSION}-{stamp[:24]}.json"
