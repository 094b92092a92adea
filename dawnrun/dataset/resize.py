"""Smaller copies of a data set in class folders: the same names and classes, fewer pixels to decode."""

import io
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Literal, get_args

from PIL import Image

from dawnrun.dataset.decode import FORMATS, UnreadableImageError, printable, reason_of, to_rgb
from dawnrun.dataset.folder import Scan, Split, find_split, listed, scan_split
from dawnrun.dataset.index import refuse_unusable
from dawnrun.dataset.staging import Staging, refuse_inside, told_apart, write_aside
from dawnrun.errors import DataError
from dawnrun.text import plural

Filter = Literal["lanczos", "bicubic", "bilinear", "box"]
_CHUNK = 32
_KEPT_MODES = ("RGB", "L")
"""Everything else becomes RGB; grey stays grey, which decodes to three equal channels."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """How copies are made: pixels of the shorter side (smaller images keep their size), JPEG quality, filter."""

    short_side: int
    quality: int = 90
    filter: Filter = "lanczos"


def resized_size(width: int, height: int, short_side: int) -> tuple[int, int]:
    """Size of a copy: the shorter side `short_side`, the ratio kept to the nearest pixel; never larger."""
    shorter = min(width, height)
    if shorter <= short_side:
        return width, height
    return (width * short_side * 2 + shorter) // (2 * shorter), (height * short_side * 2 + shorter) // (2 * shorter)


def resize_image(data: bytes, name: str, settings: Settings) -> bytes:
    """An encoded image to its copy: PNG where `name` ends so, else JPEG. Tags, profiles and transparency are dropped.

    Raises UnreadableImageError.
    """
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as opened:
            image: Image.Image = opened
            size = resized_size(*image.size, settings.short_side)
            if image.format == "JPEG":
                image.draft("", (2 * size[0], 2 * size[1]))  # still twice the pixels of the copy
            if image.mode not in _KEPT_MODES:
                image = to_rgb(image)
            # Even where the size stays, so that the tags go.
            small = image.resize(size, Image.Resampling[settings.filter.upper()])
    except Exception as error:
        raise UnreadableImageError(reason_of(error, data)) from error
    small.info.clear()
    file = io.BytesIO()
    if name.lower().endswith(".png"):
        small.save(file, "PNG")
    else:
        small.save(file, "JPEG", quality=settings.quality)
    return file.getvalue()


def write_resized(
    source: Path, folder: Path, settings: Settings, *, num_processes: int, progress: "Progress"
) -> tuple[bool, int]:
    """Copy every split of `source` to `folder`; False where this very copy is there already. Also how many images.

    Images that are there from a run that was stopped are kept. Raises DataError; with it, unreadable images are all
    named, and what was made stays unfinished.
    """
    scans = {split: _scanned(source, split) for split in get_args(Split)}
    for scan in scans.values():
        refuse_inside(folder, scan.folder)
    num_images = sum(len(scan.names) for scan in scans.values())
    staging = Staging(
        folder,
        {
            "name": "resized copy",
            "short_side": settings.short_side,
            "quality": settings.quality,
            "filter": settings.filter,
        },
        source={"images": num_images, "bytes": sum(int(scan.sizes.sum()) for scan in scans.values())},
    )
    if staging.is_complete():
        return False, num_images
    staging.open()
    bad: list[str] = []
    with told_apart(folder), progress(num_images) as advance, _workers(num_processes) as pool:
        for split, scan in scans.items():
            target = staging.at(split)
            for class_folder in sorted({Path(name).parent for name in scan.names}):
                (target / class_folder).mkdir(parents=True, exist_ok=True)
            for number, reasons in _run(pool, _tasks(scan, target, settings)):
                bad += reasons
                advance(number)
    if bad:
        raise DataError(
            f"{plural(len(bad), 'unreadable image')}; the copy is unfinished:\n{listed(bad, noun='images')}\n"
            f"    list all of them: dawnrun data check {printable(source.absolute())}\n"
            "    mend or remove them, then give the same command again"
        )
    staging.finish()
    return True, num_images


Progress = Callable[[int], AbstractContextManager[Callable[[int], None]]]
_Task = tuple[list[tuple[str, str, int]], Settings]
"""Paths of sources and copies, and when the sources were changed, in ns."""


def _scanned(root: Path, split: Split) -> Scan:
    scan = scan_split(find_split(root, split))
    refuse_unusable(scan)
    return scan


def _tasks(scan: Scan, target: Path, settings: Settings) -> Iterator[_Task]:
    for first in range(0, len(scan.names), _CHUNK):
        images = range(first, min(first + _CHUNK, len(scan.names)))
        yield [(scan.path(i), f"{target}/{scan.names[i]}", int(scan.mtimes[i])) for i in images], settings


def _resize_some(task: _Task) -> tuple[int, list[str]]:
    """Make the copies that are not there yet; how many images these are, and the unreadable ones with their reasons."""
    images, settings = task
    bad = []
    for source, target, changed_ns in images:
        with suppress(FileNotFoundError):
            if os.stat(target).st_mtime_ns >= changed_ns:  # noqa: PTH116 - a million of them
                continue
        try:
            copy = resize_image(Path(source).read_bytes(), target, settings)
        except UnreadableImageError as error:
            bad.append(f"{printable(source)}: {error}")
            continue
        write_aside(Path(target), copy)
    return len(images), bad


@contextmanager
def _workers(num_processes: int) -> Iterator[ProcessPoolExecutor | None]:
    """Processes, because threads would wait for one another on machines with many cores; none for one process."""
    if num_processes == 1:
        yield None
        return
    pool = ProcessPoolExecutor(num_processes, multiprocessing.get_context("spawn"), _end_with_parent)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _run(pool: ProcessPoolExecutor | None, tasks: Iterable[_Task]) -> Iterator[tuple[int, list[str]]]:
    """Results in order, a bounded number of tasks under way."""
    if pool is None:
        yield from map(_resize_some, tasks)
        return
    ahead: list[Future[tuple[int, list[str]]]] = []
    for task in tasks:
        ahead.append(pool.submit(_resize_some, task))
        if len(ahead) > 1024:
            yield ahead.pop(0).result()
    for job in ahead:
        yield job.result()


def _end_with_parent() -> None:
    """Leave Ctrl-C to the parent, and do not outlive it however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        sentinel = parent.sentinel
        threading.Thread(target=lambda: (wait([sentinel]), os._exit(1)), daemon=True).start()
