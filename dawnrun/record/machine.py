"""What a run ran on: hardware, system, versions and commit, found with the standard library alone."""

import os
import platform
import re
import socket
import subprocess
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path

Fact = str | int | None


def machine_facts() -> Mapping[str, Fact]:
    """`host`, `cpu` (model), `cores` (that this process may use), `memory_bytes`, `os`, `python`; None: not known."""
    return {
        "host": socket.gethostname(),
        "cpu": _cpu_model(),
        "cores": _cores(),
        "memory_bytes": _memory_bytes(),
        "os": _os_name(),
        "python": platform.python_version(),
    }


def package_versions(names: Iterable[str]) -> Mapping[str, str | None]:
    """Version of each installed distribution; None: not installed."""
    return {name: _version(name) for name in names}


def git_commit(inside: Path) -> str | None:
    """Commit of the checkout that holds `inside`, with `-dirty` if tracked files were changed; None: not a checkout."""
    folder = inside if inside.is_dir() else inside.parent
    commit = _git(folder, "rev-parse", "HEAD")
    # An installed package may lie inside somebody else's checkout: only one that tracks it speaks for it.
    if commit is None or not _git(folder, "ls-files", "--", "."):
        return None
    return f"{commit}-dirty" if _git(folder, "status", "--porcelain", "--untracked-files=no") else commit


def _git(folder: Path, *arguments: str) -> str | None:
    """What git prints, or None if it fails or is not there."""
    # GIT_OPTIONAL_LOCKS=0: looking must not write to the checkout's index.
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, env=environment
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The model's name as the kernel states it, or what the platform knows."""
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", cpuinfo.read_text(errors="replace"), re.MULTILINE)
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor() or platform.machine()


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None


def _os_name() -> str:
    try:
        return f"{platform.freedesktop_os_release()['PRETTY_NAME']} (Linux {platform.release()})"
    except (OSError, KeyError):
        return f"{platform.system()} {platform.release()}"
