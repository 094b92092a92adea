"""Which class each ILSVRC2012 validation image has: from the development kit, or the lists that come with downloads."""

import csv
import io
import re
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dawnrun.dataset.decode import printable
from dawnrun.dataset.index import DatasetIndex, subset
from dawnrun.errors import DataError

CLASS = re.compile(r"n\d{8}")
"""A WordNet ID, which is the name of a class folder."""
_NUMBERED = re.compile(r"ILSVRC2012_val_(\d{8})")
_META, _TRUTH = "meta.mat", "ILSVRC2012_validation_ground_truth.txt"


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidationLabels:
    """`classes[n]`: class of validation image number n, from 1. `train_sizes`: training images of each class, if told."""

    classes: Mapping[int, str]
    train_sizes: Mapping[str, int] | None = None


def image_number(name: str) -> int | None:
    """Number of a validation image by its file's name; None if it is not named as one."""
    match = _NUMBERED.match(name)
    return int(match[1]) if match else None


def read_labels(path: Path) -> ValidationLabels:
    """Read the development kit (folder, .tar.gz), LOC_val_solution.csv, or lines of `image class`. Raises DataError."""
    try:
        if path.is_dir():
            meta, truth = next(path.rglob(_META), None), next(path.rglob(_TRUTH), None)
            if meta is None or truth is None:
                raise DataError(f"{printable(path)} holds no {_META if meta is None else _TRUTH}")
            return _from_kit(meta.read_bytes(), truth.read_text(), path)
        if tarfile.is_tarfile(path):
            return _from_archive(path)
        return _from_list(path.read_text(encoding="utf-8"), path)
    except (OSError, EOFError, UnicodeDecodeError, tarfile.TarError) as error:
        raise DataError(f"cannot read {printable(path)}: {getattr(error, 'strerror', None) or error}") from error


def read_blacklist(path: Path) -> frozenset[int]:
    """Numbers of the validation images that ILSVRC2014 left out, one a line. Raises DataError."""
    try:
        numbers = frozenset(int(line) for line in path.read_text(encoding="utf-8").split())
    except OSError as error:
        raise DataError(f"cannot read {printable(path)}: {error.strerror}") from error
    except ValueError as error:
        raise DataError(f"{printable(path)} is not a list of image numbers: {error}") from error
    if not numbers or min(numbers) < 1:
        raise DataError(f"{printable(path)} is not a list of image numbers: {'zero' if numbers else 'nothing'} in it")
    return numbers


def without_blacklisted(index: DatasetIndex, path: Path) -> DatasetIndex:
    """`index` without the validation images that the list at `path` names. Raises DataError."""
    numbers = [image_number(name.rpartition("/")[2]) for name in index.names]
    if None in numbers:
        other = printable(index.path(numbers.index(None)))
        raise DataError(
            f"{other} is not named ILSVRC2012_val_NNNNNNNN, so it cannot be told whether {printable(path)} leaves it out"
        )
    listed = read_blacklist(path)
    return subset(index, np.array([number not in listed for number in numbers], np.bool_))


def _from_archive(path: Path) -> ValidationLabels:
    found: dict[str, bytes] = {}
    with tarfile.open(path) as archive:
        for info in archive:
            name = info.name.rpartition("/")[2]
            if name in (_META, _TRUTH) and info.isreg():
                file = archive.extractfile(info)
                found[name] = file.read() if file else b""
    for name in (_META, _TRUTH):
        if name not in found:
            raise DataError(f"{printable(path)} holds no {name}: not the development kit of ILSVRC2012's task 1 and 2")
    return _from_kit(found[_META], found[_TRUTH].decode(), path)


def _from_kit(meta: bytes, truth: str, path: Path) -> ValidationLabels:
    """Line n of the truth is the kit's own number of image n's class; meta.mat says which WordNet ID that is."""
    try:
        from scipy.io import loadmat
    except ImportError as error:
        raise DataError(
            "reading the development kit's meta.mat needs scipy: pip install 'dawnrun[imagenet]'\n"
            "    or give LOC_val_solution.csv instead of the kit"
        ) from error
    try:
        synsets = loadmat(io.BytesIO(meta), squeeze_me=True)["synsets"]
        rows = [(int(row["ILSVRC2012_ID"]), str(row["WNID"]), row) for row in synsets]
        leaves = {number: wnid for number, wnid, row in rows if int(row["num_children"]) == 0}
        sizes = {wnid: int(row["num_train_images"]) for number, wnid, row in rows if number in leaves}
        classes = {number: leaves[int(line)] for number, line in enumerate(truth.split(), start=1)}
    except Exception as error:
        raise DataError(f"{printable(path)}: cannot make sense of {_META} and {_TRUTH}: {error!r}") from error
    return ValidationLabels(classes=_checked(classes, path), train_sizes=sizes)


def _from_list(text: str, path: Path) -> ValidationLabels:
    """`ILSVRC2012_val_00000001.JPEG n01751748`, one a line, or the CSV file with boxes behind the class."""
    classes: dict[int, str] = {}
    separator = "," if "," in text.partition("\n")[0] else " "
    for line, row in enumerate(csv.reader(text.splitlines(), delimiter=separator), start=1):
        if not row or row[0] == "ImageId":
            continue
        number = image_number(row[0].rpartition("/")[2])
        if number is None or len(row) < 2 or not row[1]:
            raise DataError(f"{printable(path)}:{line}: wanted ILSVRC2012_val_NNNNNNNN and a class, is {row}")
        if classes.setdefault(number, row[1].split()[0]) != row[1].split()[0]:
            raise DataError(f"{printable(path)}:{line}: {row[0]} has two classes")
    return ValidationLabels(classes=_checked(classes, path))


def _checked(classes: dict[int, str], path: Path) -> dict[int, str]:
    wrong = next((name for name in classes.values() if not CLASS.fullmatch(name)), None)
    if wrong is not None or not classes:
        raise DataError(f"{printable(path)}: {'no images' if wrong is None else f'{wrong} is not a class (n01440764)'}")
    return classes
