"""Processes of this machine as /proc tells of them."""

from contextlib import suppress
from pathlib import Path


def parents() -> dict[int, int]:
    """Parent of every living process of this machine, zombies left out, from /proc."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError, ValueError, IndexError):
                # The name before the last ")" may hold anything, spaces and brackets too.
                state, parent = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
                if state not in "ZX":
                    found[int(entry.name)] = int(parent)
    return found


def descendants(root: int) -> list[int]:
    """Living processes below `root`, parents before their children."""
    parent_of = parents()
    found = [root]
    for process in found:
        found += [pid for pid, parent in parent_of.items() if parent == process]
    return found[1:]


def start_ticks(pid: int) -> int | None:
    """When a process started, in kernel ticks since boot; with the pid it names one process for good. None: not alive."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def is_worker(pid: int) -> bool:
    """Whether a process was started by torchrun as a rank of the job."""
    with suppress(OSError):
        return b"\0LOCAL_RANK=" in b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
    return False
