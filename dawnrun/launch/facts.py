"""What a node tells of itself before a job is started on it; torch is not imported for it."""

import hashlib
import os
import platform
import shutil
import socket
import sys
import time
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import dawnrun
from dawnrun.errors import DataError
from dawnrun.launch.devices import available_cores, hints
from dawnrun.launch.network import interfaces

MARKER = ".staged.json"
"""In every complete copy that `dawnrun data stage` made; dawnrun.dataset.copies writes it."""
EQUAL = ("dawnrun", "code", "python", "torch", "torchvision")
"""Facts that must be the same on every node."""


def code_sha256(package: Path | None = None) -> str:
    """Fingerprint of dawnrun's own source."""
    package = package or Path(dawnrun.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(str(path.relative_to(package)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def versions() -> dict[str, str]:
    """The facts of `EQUAL`."""
    found = {"dawnrun": dawnrun.__version__, "code": code_sha256(), "python": platform.python_version()}
    return found | {name: _version(name) for name in ("torch", "torchvision")}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def node_facts(question: Mapping[str, Any], *, first: bool) -> dict[str, Any]:
    """Everything that is checked before a start.

    `question`: `nonce`, a file that only a shared run root has; `data`, data set -> folder; `run_root`; `stage`, data
    set -> [folder on the shared disk, folder of the copy]; `measure`: look longer. What all nodes see alike is looked at
    on the `first` alone.
    """
    sets = {name: (Path(source), Path(place)) for name, (source, place) in question.get("stage", {}).items()}
    to_stage = {name: pair for name, pair in sets.items() if not (pair[1] / MARKER).exists()}
    return {
        **versions(),
        "executable": sys.executable,
        "host": socket.gethostname(),
        "time": time.time(),
        "cores": available_cores(),
        "devices": len(hints()),
        "interfaces": dict(interfaces()),
        # "CLIENT PORT SERVER PORT": the address by which the launcher reached this machine.
        "ssh_address": os.environ.get("SSH_CONNECTION", "   ").split(" ")[2],
        "shm_bytes": free_bytes("/dev/shm"),  # noqa: S108 - asked for its size alone
        "free_bytes": free_bytes(question["run_root"]),
        "nonce": _read(Path(question["nonce"])),
        "data": _data_problems(
            {name: Path(path) for name, path in question.get("data", {}).items() if name not in to_stage}
        ),
        "not_staged": sorted(to_stage),
        "local_free_bytes": {name: _free_above(place) for name, (_, place) in to_stage.items()},
        "set_bytes": {name: _set_bytes(source) for name, (source, _) in sets.items()}
        if first and question.get("measure")
        else {},
    }


def _free_above(place: Path) -> int | None:
    """Room where a folder is to be made."""
    return free_bytes(str(next((path for path in (place, *place.parents) if path.exists()), place)))


def _set_bytes(source: Path) -> int | None:
    from dawnrun.dataset.copies import list_files  # brings numpy and Pillow

    try:
        return sum(entry.num_bytes for entry in list_files(source))
    except DataError:
        return None


def free_bytes(path: str) -> int | None:
    """Room on the disk that a folder is on; None if there is no such folder."""
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return None


def _data_problems(folders: Mapping[str, Path]) -> list[str]:
    from dawnrun.launch.checks import data_problems

    return data_problems(folders)
