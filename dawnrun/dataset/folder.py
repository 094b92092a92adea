"""Class folders on disk: which layout a data set has, and every image file below it."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dawnrun.dataset.decode import printable, read_file
from dawnrun.dataset.shards import Shards
from dawnrun.dataset.staging import refuse_unfinished
from dawnrun.errors import DataError

Split = Literal["train", "val"]
EXTENSIONS = (".jpg", ".jpeg", ".png")
_FOLDERS: dict[Split, tuple[str, ...]] = {"train": ("train",), "val": ("val", "validation")}
_NESTED = ("", "Data/CLS-LOC", "ILSVRC/Data/CLS-LOC")
"""Where ILSVRC2012 archives and the downloads made from them put the splits."""
_SCAN_THREADS = 8  # a scan waits for the file system, not for the processor
NUM_SHOWN = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Scan:
    """Every image of a split as its store lists it: names, int64[n] sizes in bytes and mtimes in ns.

    `dangling`: links that lead nowhere; `empty`: class folders without an image. A set with either is not usable.
    `shards`: None where each image is a file of its own, then names are sorted.
    """

    folder: Path
    classes: tuple[str, ...]
    names: tuple[str, ...]
    labels: NDArray[np.int32]
    sizes: NDArray[np.int64]
    mtimes: NDArray[np.int64]
    remarks: dict[str, int]
    dangling: tuple[str, ...]
    empty: tuple[str, ...]
    shards: Shards | None = None

    def path(self, image: int) -> str:
        """Path of an image's file, or shard and name."""
        return self.shards.path(image) if self.shards else f"{self.folder}/{self.names[image]}"

    def read(self, image: int) -> bytes:
        """The bytes of an image. Raises UnreadableImageError."""
        return self.shards.read(image) if self.shards else read_file(self.path(image))

    def class_name(self, image: int) -> str:
        """Class of an image, as text that can be printed."""
        return printable(self.classes[self.labels[image]])


@dataclass(kw_only=True, slots=True)
class _Found:
    """What a walk gathered below one class folder."""

    files: list[tuple[str, int, int]] = field(default_factory=list)
    dangling: list[str] = field(default_factory=list)
    remarks: Counter[str] = field(default_factory=Counter)


def listed(entries: Sequence[str], *, noun: str) -> str:
    """The first ten entries, one a line, and how many more there are."""
    lines = [f"    {entry}" for entry in islice(entries, NUM_SHOWN)]
    if len(entries) > NUM_SHOWN:
        lines.append(f"    and {len(entries) - NUM_SHOWN:,} more {noun}")
    return "\n".join(lines)


def find_split(root: Path, split: Split) -> Path:
    """The folder that holds the class folders of `split`. Raises DataError that says what was looked for."""
    root = root.absolute()
    if not root.is_dir():
        what = "is not a folder" if root.exists() else "does not exist"
        raise DataError(f"data folder {printable(root)} {what}\n    a run looks below data_root of its site file")
    refuse_unfinished(root)
    for nested in _NESTED:
        found = [folder for name in _FOLDERS[split] if (folder := root / nested / name).is_dir()]
        if len(found) > 1 and not found[0].samefile(found[1]):
            raise DataError(f"both {printable(found[0])} and {printable(found[1])} exist; remove or rename one of them")
        if found:
            return found[0]
    if any(any(folder.glob("*.parquet")) for folder in (root, root / "data", root / "default")):
        raise DataError(
            f"{printable(root)} holds Parquet files, which a run does not read\n    make shards of them: dawnrun data pack "
            f"{printable(root)} DST"
        )
    names = " or ".join(f"{name}/" for name in _FOLDERS[split])
    seen = sorted(printable(entry.name) + "/" * entry.is_dir() for entry in os.scandir(root))
    raise DataError(
        f"no folder {names} below {printable(root)}\n"
        f"    found there: {', '.join(seen[:NUM_SHOWN]) or 'nothing'}{', ...' * (len(seen) > NUM_SHOWN)}\n"
        f"    wanted: {root}/train/CLASS/*.jpg and {root}/val/CLASS/*.jpg; `dawnrun data demo DIR` makes an example"
    )


def scan_split(folder: Path) -> Scan:
    """List every image below the class folders of `folder`, links followed. Raises DataError if there are none."""
    top = _Found()
    class_names = sorted(_class_names(folder, top))
    if not class_names and not top.dangling:
        raise _no_classes(folder, top.remarks["images_outside_class_folders"])
    with ThreadPoolExecutor(_SCAN_THREADS) as pool:
        found = list(pool.map(lambda name: _walk(folder, name), class_names))
    files = [entry for each in found for entry in sorted(each.files)]
    return Scan(
        folder=folder,
        classes=tuple(class_names),
        names=tuple(name for name, _, _ in files),
        labels=np.repeat(np.arange(len(found), dtype=np.int32), [len(each.files) for each in found]),
        sizes=np.array([size for _, size, _ in files], np.int64),
        mtimes=np.array([mtime for _, _, mtime in files], np.int64),
        remarks=dict(sum((each.remarks for each in found), top.remarks)),
        dangling=tuple(printable(folder / name) for each in (top, *found) for name in each.dangling),
        empty=tuple(printable(folder / name) for name, each in zip(class_names, found, strict=True) if not each.files),
    )


def _class_names(folder: Path, found: _Found) -> Iterator[str]:
    """Folders directly below `folder`; what else lies there is noted in `found`."""
    for entry in _entries(folder):
        kind = _kind(entry, folder)
        if kind == "folder":
            yield entry.name
        elif kind == "image":
            found.remarks["images_outside_class_folders"] += 1
        elif kind == "dangling":
            found.dangling.append(entry.name)
        else:
            found.remarks[kind] += 1


def _walk(folder: Path, class_name: str) -> _Found:
    """All images below one class folder, at any depth; names are relative to `folder`, labels its own, not a link's."""
    found = _Found()
    todo = [(class_name, frozenset({_identity(folder / class_name)}))]
    while todo:
        below, chain = todo.pop()
        for entry in _entries(folder / below):
            name, kind = f"{below}/{entry.name}", _kind(entry, folder / below)
            if kind == "folder":
                status = entry.stat()
                identity = status.st_dev, status.st_ino
                if identity in chain:
                    found.remarks["link_cycles"] += 1
                else:
                    todo.append((name, chain | {identity}))
            elif kind == "image":
                status = entry.stat()
                found.files.append((name, status.st_size, status.st_mtime_ns))
            elif kind == "dangling":
                found.dangling.append(name)
            else:
                found.remarks[kind] += 1
    return found


def _kind(entry: os.DirEntry[str], folder: Path) -> str:
    """`folder`, `image`, `dangling` or the remark that an entry of `folder` is counted under."""
    if entry.name.startswith("."):
        return "hidden_files"
    if entry.is_symlink():
        try:
            identity = _identity(entry.path)
        except OSError:
            return "dangling"
        if any(identity == _identity(above) for above in (folder, *folder.parents)):
            return "link_cycles"
    if entry.is_dir():
        return "folder"
    is_image = entry.name.lower().endswith(EXTENSIONS) and entry.is_file()
    return "image" if is_image else "other_files"


def _identity(path: Path | str) -> tuple[int, int]:
    """Device and inode of what `path` leads to."""
    status = os.stat(path)  # noqa: PTH116 - a DirEntry's path is a str
    return status.st_dev, status.st_ino


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """The entries of a folder. Raises DataError if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as error:
        raise DataError(f"cannot read folder {printable(folder)}: {error.strerror}") from error


def _no_classes(folder: Path, loose: int) -> DataError:
    """What is wrong with a split without class folders that holds `loose` images."""
    where = printable(folder)
    if not loose:
        return DataError(
            f"{where} holds no class folders\n    wanted: one folder for each class with its images inside"
        )
    is_ilsvrc = any(entry.name.startswith("ILSVRC2012_val_") for entry in _entries(folder))
    flat = f"{where} holds {loose:,} images but no class folders"
    if is_ilsvrc:
        return DataError(
            f"{flat}: the ILSVRC2012 validation images as they come out of their archive\n"
            f"    sort them into class folders: dawnrun data imagenet --train {where.rpartition('/')[0]}/train --val {where} "
            "--devkit ILSVRC2012_devkit_t12.tar.gz --out DIR\n"
            "    (files are linked, not copied; --devkit takes LOC_val_solution.csv too)"
        )
    return DataError(f"{flat}\n    sort them into class folders, one for each class")
