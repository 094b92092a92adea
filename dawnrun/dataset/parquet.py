"""Parquet as Hugging Face publishes image data sets: which files, which columns, and what each row holds.

Columns: `image`, a struct with the encoded file as `bytes` and maybe its `path`; `label`, a whole number. The names of
the classes are in the schema's metadata, under `huggingface`, as the names of a ClassLabel.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dawnrun.dataset.decode import UnreadableImageError, printable, read_size
from dawnrun.dataset.folder import Split, listed
from dawnrun.errors import DataError
from dawnrun.text import plural

_WORDS: dict[Split, str] = {"train": "train", "val": "(?:validation|valid|val)"}
_FOLDERS = ("", "data", "default")
"""Where published sets keep their files, below the set's folder."""
_OF = re.compile(r"\d+-of-(\d+)")
_ROWS = 64
"""Read at a time."""
_VERSION = 1
INSTALL = "reading Parquet needs pyarrow: pip install 'dawnrun[parquet]'"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rows:
    """What one file holds, row by row: names (of files, or made up), labels, sizes in bytes, widths and heights.

    `reasons`: why the header of an image is unreadable, by row; its width and height are 0.
    """

    names: tuple[str, ...]
    labels: NDArray[np.int64]
    sizes: NDArray[np.int64]
    widths: NDArray[np.int32]
    heights: NDArray[np.int32]
    reasons: dict[int, str]


def find_parquet(root: Path, split: Split) -> tuple[Path, ...]:
    """The files of a split: ROOT/train-*.parquet or ROOT/train/*.parquet, ROOT/data or ROOT/default likewise; () if none.

    Raises DataError where files of a numbered series are missing.
    """
    beside = re.compile(rf"{_WORDS[split]}[-_.].*\.parquet", re.IGNORECASE)
    inside = re.compile(_WORDS[split], re.IGNORECASE)
    for folder in (root / name for name in _FOLDERS):
        if not folder.is_dir():
            continue
        found = [path for path in folder.iterdir() if beside.fullmatch(path.name) and path.is_file()]
        below = [path for path in folder.iterdir() if inside.fullmatch(path.name) and path.is_dir()]
        found += [path for each in below for path in each.glob("*.parquet")]
        if found:
            stated = [match[1] for path in found if (match := _OF.search(path.name))]
            if stated and (len(set(stated)) > 1 or int(stated[0]) != len(found)):
                raise DataError(f"{printable(folder)} holds {len(found)} of {stated[0]} files of {split}")
            return tuple(sorted(found))
    return ()


def class_names(files: Sequence[Path], given: Path | None) -> tuple[str, ...]:
    """Names of the classes by number: from the file `given`, one a line, else what the Parquet files say.

    Raises DataError where there are none, two of one name, or files that differ.
    """
    if given is not None:
        try:
            names = tuple(given.read_text(encoding="utf-8").splitlines())
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"cannot read {printable(given)}: {getattr(error, 'strerror', None) or error}") from error
        where = printable(given)
    else:
        stated = {path: _stated_names(path) for path in files}
        names, where = stated[files[0]], printable(files[0])
        other = next((path for path in files if stated[path] != names), None)
        if other is not None:
            raise DataError(f"{where} and {printable(other)} name other classes")
    if not names:
        raise DataError(f"{where} does not name its classes\n    give --classes FILE, a name a line, from class 0 on")
    if len(set(names)) != len(names) or "" in names:
        twice = max(names, key=names.count)
        what = f"has the class {printable(twice)} twice" if names.count(twice) > 1 else "has an empty line"
        raise DataError(f"{where} {what}\n    give --classes FILE, a name a line, from class 0 on")
    return names


def read_rows(path: Path, cache_dir: Path) -> Rows:
    """Look at every row of a file; what was found is kept in the cache. Raises DataError for what cannot be packed."""
    status = path.stat()
    key = f"{os.fsdecode(path.absolute())} {status.st_size} {status.st_mtime_ns}".encode(errors="surrogateescape")
    cached = cache_dir / f"parquet-v{_VERSION}-{hashlib.sha256(key).hexdigest()[:24]}.npz"
    with suppress(Exception):  # not there, or damaged in any way
        return _load(cached)
    columns: list[tuple[str, int, int, int, int]] = []
    reasons: dict[int, str] = {}
    for row, (data, name, label) in enumerate(images_of(path)):
        try:
            width, height = read_size(data)
        except UnreadableImageError as error:
            width = height = 0
            reasons[row] = str(error)
        columns.append((name, label, len(data), width, height))
    names, *numbers = zip(*columns, strict=True) if columns else ((), (), (), (), ())
    labels, sizes, widths, heights = (np.array(each, np.int64) for each in numbers)
    rows = Rows(
        names=names,
        labels=labels,
        sizes=sizes,
        widths=widths.astype(np.int32),
        heights=heights.astype(np.int32),
        reasons=reasons,
    )
    with suppress(OSError):
        cache_dir.mkdir(parents=True, exist_ok=True)
        _save(rows, cached)
    return rows


def images_of(path: Path) -> Iterator[tuple[bytes, str, int]]:
    """Bytes, name and label of every row, in order. Raises DataError."""
    with _opened(path) as file:
        has_path = _check_schema(file.schema_arrow, path)
        columns = ["image.bytes", *["image.path"] * has_path, "label"]
        row = 0
        for batch in file.iter_batches(batch_size=_ROWS, columns=columns):
            for image, label in zip(batch.column("image").to_pylist(), batch.column("label").to_pylist(), strict=True):
                data = image and image["bytes"]
                if not data or label is None or label < 0:
                    what = f"label {label}" if data else "no image (its bytes are empty: only a path is not enough)"
                    raise DataError(f"{printable(path)}: row {row} has {what}")
                name = Path(image.get("path") or "").name
                yield data, name or f"{path.stem}-{row:06d}", label
                row += 1


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """A Parquet file. Raises DataError where pyarrow is missing, or the file is damaged, now or while it is read."""
    try:
        import pyarrow
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise DataError(INSTALL) from error
    try:
        with ParquetFile(path) as file:
            yield file
    except (OSError, pyarrow.ArrowException) as error:
        raise DataError(f"cannot read {printable(path)}: {str(error).strip().splitlines()[0]}") from error


def _check_schema(schema: Any, path: Path) -> bool:
    """Raise DataError unless the columns are those wanted; whether images have paths."""
    from pyarrow import types

    kinds = {field.name: field.type for field in schema}
    image, label = kinds.get("image"), kinds.get("label")
    parts: dict[str, Any] = {}
    if image is not None and types.is_struct(image):
        parts = {field.name: field.type for field in map(image.field, range(image.num_fields))}
    data = parts.get("bytes")
    has_bytes = data is not None and (types.is_binary(data) or types.is_large_binary(data))
    if not has_bytes or label is None or not types.is_integer(label):
        found = ", ".join(f"{field.name}: {field.type}" for field in schema) or "none"
        raise DataError(
            f"{printable(path)} has the columns {printable(found)}\n"
            "    wanted: image: struct<bytes: binary, path: string>, label: int64"
        )
    return "path" in parts


def _stated_names(path: Path) -> tuple[str, ...]:
    """Names in the schema's metadata; none where it has none."""
    with _opened(path) as file:
        _check_schema(file.schema_arrow, path)
        metadata = file.schema_arrow.metadata or {}
    try:
        names = json.loads(metadata[b"huggingface"])["info"]["features"]["label"]["names"]
        return tuple(map(str, names))
    except (KeyError, ValueError, TypeError):
        return ()


def refuse_unreadable(found: Sequence[tuple[Path, Rows]]) -> None:
    """Raise DataError that names the images without a readable header."""
    bad = [
        f"{printable(path)}: row {row} ({printable(rows.names[row])}): {reason}"
        for path, rows in found
        for row, reason in sorted(rows.reasons.items())
    ]
    if bad:
        raise DataError(f"{plural(len(bad), 'unreadable image')}:\n{listed(bad, noun='images')}")


def _save(rows: Rows, path: Path) -> None:
    texts = json.dumps({"names": rows.names, "reasons": rows.reasons}).encode()
    numbers = {name: getattr(rows, name) for name in ("labels", "sizes", "widths", "heights")}
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    with part.open("wb") as file:
        np.savez(file, allow_pickle=False, texts=np.frombuffer(texts, np.uint8), **numbers)
    part.replace(path)


def _load(path: Path) -> Rows:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
        texts = json.loads(stored["texts"].tobytes())
        numbers = {name: stored[name] for name in ("labels", "sizes", "widths", "heights")}
    names = tuple(texts["names"])
    if any(len(column) != len(names) for column in numbers.values()):
        raise ValueError("its parts do not fit one another")
    return Rows(names=names, reasons={int(row): reason for row, reason in texts["reasons"].items()}, **numbers)
