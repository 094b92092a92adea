"""ILSVRC2012 as it is handed out (archives, or what was extracted from them) to class folders.

Images keep their bytes, the set's oddities too: a PNG named .JPEG, files in CMYK, grey ones, orientation tags. All are
met where images are decoded, by content.
"""

import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from dawnrun.dataset.archive import Member, members, opened, read_member
from dawnrun.dataset.check import ILSVRC2012
from dawnrun.dataset.decode import printable
from dawnrun.dataset.devkit import CLASS, ValidationLabels, image_number, read_blacklist, read_labels
from dawnrun.dataset.folder import EXTENSIONS, Split, listed
from dawnrun.dataset.staging import Staging, check_room, told_apart
from dawnrun.errors import DataError
from dawnrun.text import count

_THREADS = 8  # writing a million files waits for the file system
_ROOM = 1.02
"""Files take whole blocks on a disk."""


class Picture(NamedTuple):
    """One image: its file's name, and the file or archive that has it; `member`: where in the archive."""

    name: str
    path: Path
    member: Member | None = None


ClassSource = Callable[[], Iterator[Picture]]
"""Lists the images of one class."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sources:
    """What was given, read as far as finding out which classes there are."""

    splits: Mapping[Split, Mapping[str, ClassSource]]
    num_bytes: int
    num_excluded: int
    train_sizes: Mapping[str, int] | None


def find_sources(train: Path, val: Path, labels: Path | None, *, blacklist: Path | None) -> Sources:
    """Look into archives and folders. Raises DataError for what is not ILSVRC2012."""
    known = read_labels(labels) if labels else None
    excluded = read_blacklist(blacklist) if blacklist else frozenset()
    train_classes = _train_folder(train) if train.is_dir() else _train_archive(train)
    val_classes = _validation(val, known, excluded)
    archives = sum(path.stat().st_size for path in (train, val) if path.is_file())
    return Sources(
        splits={"train": train_classes, "val": val_classes},
        num_bytes=archives,
        num_excluded=len(excluded),
        train_sizes=known.train_sizes if known else None,
    )


def write_imagenet(folder: Path, sources: Sources, *, any_size: bool, advance: Callable[[int], None]) -> bool:
    """Write `folder`/{train,val}/CLASS/*.JPEG; `advance(1)` for each class. False where the set is there already.

    Finished classes of a run that was killed are kept. The counts are those of ILSVRC2012 unless `any_size`.
    Raises DataError; nothing in `folder` looks like a data set until everything was written and counted.
    """
    check_classes(sources, any_size=any_size)
    spec: dict[str, str | int] = {
        "name": "ILSVRC2012",
        "classes": len(sources.splits["train"]),
        "archive_bytes": sources.num_bytes,
        "images_excluded": sources.num_excluded,
    }
    staging = Staging(folder, spec)
    is_new = not staging.is_complete()
    if is_new:
        if not staging.aside.exists():
            check_room(folder, int(_ROOM * sources.num_bytes))
        staging.open()
    with told_apart(folder):
        found: dict[Split, dict[str, int]] = {
            split: _write_split(staging.at(split), of_split, advance) for split, of_split in sources.splits.items()
        }
    check_counts(found, sources, any_size=any_size)
    if is_new:
        staging.finish()
    return is_new


def _train_archive(path: Path) -> dict[str, ClassSource]:
    """The classes of ILSVRC2012_img_train.tar, an archive with one of each class inside."""
    with opened(path) as file:
        inner = list(members(file, path))
    for member in inner:
        if not CLASS.fullmatch(PurePosixPath(member.base).stem) or not member.base.endswith(".tar"):
            raise DataError(
                f"{printable(path)} holds {printable(member.name)}, wanted n01440764.tar and so on: "
                "not the training archive of ILSVRC2012's task 1 and 2"
            )
    sources = {PurePosixPath(member.base).stem: _nested(path, member) for member in inner}
    return _each_once(sources, [PurePosixPath(member.base).stem for member in inner], path)


def _nested(path: Path, member: Member | None) -> ClassSource:
    """A class's archive: `member` of the archive `path`, or `path` itself."""

    def read() -> Iterator[Picture]:
        with opened(path) as file:
            for image in list(members(file, path, within=member)):
                if _is_image(image.base):
                    yield Picture(image.base, path, image)

    return read


def _train_folder(folder: Path) -> dict[str, ClassSource]:
    """An extracted training set: class folders, or the archives of the classes."""
    sources: dict[str, ClassSource] = {}
    names = []
    for path in sorted(folder.iterdir()):
        if CLASS.fullmatch(path.stem) and (path.is_dir() or path.suffix == ".tar"):
            sources[path.stem] = _class_folder(path) if path.is_dir() else _nested(path, None)
            names.append(path.stem)
    if not sources:
        raise DataError(f"{printable(folder)} holds no class folders or archives (n01440764, n01440764.tar)")
    return _each_once(sources, names, folder)


def _each_once(sources: dict[str, ClassSource], names: list[str], path: Path) -> dict[str, ClassSource]:
    if len(sources) != len(names):
        raise DataError(f"{printable(path)} holds a class twice: {max(names, key=names.count)}")
    return sources


def _class_folder(folder: Path) -> ClassSource:
    return lambda: (Picture(path.name, path) for path in sorted(folder.iterdir()) if _is_image(path.name))


def _validation(path: Path, known: ValidationLabels | None, excluded: frozenset[int]) -> dict[str, ClassSource]:
    """Validation images by class: class folders as they are, flat files (archive or folder) by their labels."""
    if path.is_dir() and any(CLASS.fullmatch(entry.name) for entry in path.iterdir() if entry.is_dir()):
        return {name: _without(read, excluded) for name, read in _train_folder(path).items()}
    if known is None:
        raise DataError(
            f"{printable(path)} holds images without their classes; --devkit says which each has\n"
            "    it takes ILSVRC2012_devkit_t12.tar.gz, LOC_val_solution.csv or a text file of `image class`"
        )
    by_class: dict[str, list[Member | Path]] = defaultdict(list)
    for found in _flat_images(path):
        name = found.name if isinstance(found, Path) else found.base
        number = image_number(name)
        if number is None or number not in known.classes:
            raise DataError(f"{printable(path)}: {printable(name)} is no validation image that the labels know")
        if number not in excluded:
            by_class[known.classes[number]].append(found)
    return {name: _flat_class(path, images) for name, images in by_class.items()}


def _without(read: ClassSource, excluded: frozenset[int]) -> ClassSource:
    return lambda: (picture for picture in read() if image_number(picture.name) not in excluded)


def _flat_images(path: Path) -> list[Member] | list[Path]:
    if path.is_dir():
        return [each for each in sorted(path.iterdir()) if _is_image(each.name)]
    with opened(path) as file:
        return [member for member in members(file, path) if _is_image(member.base)]


def _flat_class(path: Path, images: list[Member | Path]) -> ClassSource:
    return lambda: (
        Picture(image.name, image) if isinstance(image, Path) else Picture(image.base, path, image) for image in images
    )


def _is_image(name: str) -> bool:
    return name.lower().endswith(EXTENSIONS) and not name.startswith(".")


def _write_split(folder: Path, sources: Mapping[str, ClassSource], advance: Callable[[int], None]) -> dict[str, int]:
    """Write every class that is not there yet; returns the number of images in each."""
    folder.mkdir(exist_ok=True)
    with ThreadPoolExecutor(_THREADS) as pool:
        jobs = {pool.submit(_write_class, folder / name, read): name for name, read in sources.items()}
        sizes: dict[str, int] = {}
        try:
            for job in as_completed(jobs):
                sizes[jobs[job]] = job.result()
                advance(1)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return sizes


def _write_class(folder: Path, read: ClassSource) -> int:
    """Write the images of a class to a folder that gets its name when all are there; returns how many it has."""
    if not folder.is_dir():
        part = folder.with_name(f".{folder.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        archives: dict[Path, IO[bytes]] = {}
        with ExitStack() as stack:
            for name, source, member in read():
                path = part / name
                if path.exists():
                    raise DataError(f"class {folder.name} holds {printable(name)} twice")
                if member is None:
                    _link(source, path)
                    continue
                if source not in archives:
                    archives[source] = stack.enter_context(opened(source))
                path.write_bytes(read_member(archives[source], source, member))
        part.replace(folder)
    return len(os.listdir(folder))  # noqa: PTH208 - names are enough


def _link(source: Path, path: Path) -> None:
    """A hard link where the file system can, which takes no room; else a copy."""
    try:
        path.hardlink_to(source.resolve())
    except OSError:
        shutil.copyfile(source, path)


def check_classes(sources: Sources, *, any_size: bool) -> None:
    """Raise DataError unless both splits have the same classes, and as many as ILSVRC2012."""
    train, val = set(sources.splits["train"]), set(sources.splits["val"])
    if train != val:
        odd = sorted(train ^ val)
        raise DataError(f"{len(odd):,} classes are not in both train and val:\n{listed(odd, noun='classes')}")
    if not train:
        raise DataError("no classes in what was given")
    if not any_size and len(train) != ILSVRC2012["classes"]:
        raise _wrong_count({"classes": len(train)}, ILSVRC2012)


def check_counts(found: Mapping[Split, Mapping[str, int]], sources: Sources, *, any_size: bool) -> None:
    """`found`: images by split and class. Raise DataError unless everything is there."""
    expected = {**ILSVRC2012, "val": ILSVRC2012["val"] - sources.num_excluded}
    empty = sorted(f"{split}/{name}" for split, sizes in found.items() for name, size in sizes.items() if not size)
    if empty:
        raise DataError(f"{len(empty):,} classes without an image:\n{listed(empty, noun='classes')}")
    if any_size:
        return
    if sources.train_sizes is not None:
        short = [
            f"{name}: {count(size)} images, the development kit says {count(wanted)}"
            for name, size in sorted(found["train"].items())
            if size != (wanted := sources.train_sizes.get(name, 0))
        ]
        if short:
            raise DataError(f"{len(short):,} training classes are not whole:\n{listed(short, noun='classes')}")
    sums: dict[str, int] = {split: sum(sizes.values()) for split, sizes in found.items()}
    if any(sums[split] != expected[split] for split in found):
        raise _wrong_count(sums, expected)


def _wrong_count(found: Mapping[str, int], expected: Mapping[str, int]) -> DataError:
    told = ", ".join(f"{count(number)} {what} (wanted {count(expected[what])})" for what, number in found.items())
    return DataError(
        f"not the full ILSVRC2012 set: {told}\n    --any-size takes a part of it; a report on such a set says so"
    )
