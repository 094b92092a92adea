"""Writes a generated data set in class folders: aside first, under its name when complete; an equal one is kept."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from dawnrun.errors import DataError

MANIFEST = "data-set.json"
Spec = Mapping[str, str | int]


def write_data_set(
    folder: Path,
    *,
    spec: Spec,
    images: Iterable[tuple[str, bytes]],
) -> bool:
    """Write `images` (path below `folder`, encoded bytes) and a manifest of `spec` and every size in bytes.

    Returns False, and makes no image, where a complete set of the same spec is there already.
    Raises DataError where anything else is there or the folder cannot be written.
    """
    folder = folder.absolute()
    if os.path.lexists(folder) and not _is_empty(folder):
        if _is_complete(folder, spec):
            return False
        raise DataError(
            f"{folder} exists and is not {_words(spec)}: nothing was changed\n    give another folder, or remove it"
        )
    try:
        _write(folder, spec, images)
    except OSError as error:
        raise DataError(f"cannot write {error.filename or folder}: {error.strerror}") from error
    return True


def _write(folder: Path, spec: Spec, images: Iterable[tuple[str, bytes]]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".part", dir=folder.parent))
    try:
        aside.chmod(0o777 & ~_umask())  # mkdtemp shuts everyone else out
        sizes: dict[str, int] = {}
        for name, data in images:
            path = aside / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            sizes[name] = len(data)
        (aside / MANIFEST).write_text(json.dumps({"spec": dict(spec), "files": sizes}, indent=0), encoding="utf-8")
        aside.replace(folder)  # also takes the place of an empty folder
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def _umask() -> int:
    """The process's mask of permissions, which can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir())


def _is_complete(folder: Path, spec: Spec) -> bool:
    """Whether the manifest is of `spec` and every file it lists is there with its size, and no other image."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if manifest["spec"] != dict(spec):
            return False
        there = {
            f"{Path(base).relative_to(folder).as_posix()}/{name}": (Path(base) / name).stat().st_size
            for base, _, names in os.walk(folder)
            for name in names
            if name.endswith((".jpg", ".jpeg", ".png"))
        }
        return bool(there == manifest["files"])
    except (OSError, ValueError, TypeError, KeyError):
        return False


def _words(spec: Spec) -> str:
    """`the complete data set demo (seed 0, ...)`."""
    rest = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in spec.items() if key != "name")
    return f"the complete data set {spec['name']} ({rest})"
