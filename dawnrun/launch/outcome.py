"""How a job ended, from what its processes left behind: whose failure came first, and what it printed."""

import json
import re
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from dawnrun.errors import ExitCode
from dawnrun.launch.guard import start_ticks

LAST_LINES = 20
FOREIGN_HOST_QUIET_S = 60.0
"""An attempt of another host counts as running while its event log is younger; the trainer writes every 5 s."""

# torch.distributed.run prints one such block for each worker that failed by itself.
AGENT_BLOCK = re.compile(r"rank\s*:\s*(\d+) \(local_rank: \d+\)\s+exitcode\s*:\s*(-?\d+) \(pid: (\d+)\)")
ENDED_BY_OTHERS = {signal.SIGTERM, signal.SIGABRT, signal.SIGINT, signal.SIGHUP}
"""Signals that reach a worker because of another's failure: the agent's SIGTERM, gloo's and NCCL's abort."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """One process that failed. `time` in seconds since 1970; step and epoch as in the event log."""

    rank: int
    host: str
    pid: int | None
    time: float
    error: str
    message: str
    step: int | None = None
    epoch: int | None = None
    exit_code: int = ExitCode.TRAIN

    def __str__(self) -> str:
        """`rank 1 on HOST: ValueError: ...`, the message's first line alone."""
        first = (self.message.strip().splitlines() or [""])[0]
        where = f" at step {self.step}" if self.step is not None else ""
        return f"rank {self.rank} on {self.host}{where}: {self.error}{': ' if first else ''}{first}"


def read_failures(folder: Path) -> list[Failure]:
    """The `failure-rank-*.json` that workers wrote, the earliest first; a file cut short says at least the rank."""
    failures = []
    for path in folder.glob("failure-rank-*.json"):
        rank = int(path.stem.rpartition("-")[2])
        with suppress(OSError):
            failures.append(_parse(rank, path.read_text(encoding="utf-8", errors="replace"), path.stat().st_mtime))
    return sorted(failures, key=lambda failure: (failure.time, failure.rank))


def _parse(rank: int, text: str, written: float) -> Failure:
    try:
        fields: Mapping[str, Any] = dict(json.loads(text))
        return Failure(
            rank=int(fields.get("rank", rank)),
            host=str(fields.get("host", "?")),
            pid=fields.get("pid"),
            time=_seconds(fields.get("time"), written),
            error=str(fields.get("error", "failed")),
            message=str(fields.get("message") or ""),
            step=fields.get("step"),
            epoch=fields.get("epoch"),
            exit_code=int(fields.get("exit_code") or ExitCode.TRAIN),
        )
    except (ValueError, TypeError):
        return Failure(rank=rank, host="?", pid=None, time=written, error="failed", message="its report was cut short")


def _seconds(moment: Any, default: float) -> float:
    if isinstance(moment, int | float):
        return float(moment)
    try:
        return datetime.fromisoformat(str(moment)).timestamp()
    except ValueError:
        return default


def read_node(folder: Path) -> Mapping[str, Any]:
    """The guard's record of this job, empty if there is none yet."""
    try:
        return dict(json.loads((folder / "node-0.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def find_failures(folder: Path, logs: Path) -> list[Failure]:
    """Every failure that is known, the cause first.

    A worker that a signal killed could not write: the guard or torchrun's agent saw it, and it comes before what the
    others met in consequence.
    """
    written = read_failures(folder)
    ranks = {failure.rank for failure in written}
    node = read_node(folder)
    seen = _agent_failures(logs / "node-0.log", node) if (logs / "node-0.log").exists() else _own_failure(node)
    unreported = [(rank, code, pid) for rank, code, pid in seen if rank not in ranks]
    killed = [item for item in unreported if item[1] < 0 and -item[1] not in ENDED_BY_OTHERS]
    silent = killed if killed or written else unreported
    first = written[0].time if written else time.time()
    return [_silent_failure(*item, node=node, before=first) for item in silent] + written


def _own_failure(node: Mapping[str, Any]) -> list[tuple[int, int, int | None]]:
    """Rank, exit code and pid of the only process, if it ended badly."""
    if node.get("signal"):
        return [(0, -signal.Signals[node["signal"]].value, None)]
    code = node.get("exit_code")
    return [(0, code, None)] if code not in (None, *ENDED_WELL) else []


ENDED_WELL = (ExitCode.OK, ExitCode.BELOW_TARGET, ExitCode.PREEMPTED, ExitCode.INTERRUPTED)
"""Exit codes of a worker that did what it should."""


def _agent_failures(log: Path, node: Mapping[str, Any]) -> list[tuple[int, int, int | None]]:
    """The same for each worker that torchrun's agent reports, or for the agent itself if it could not."""
    blocks = AGENT_BLOCK.findall(log.read_text(encoding="utf-8", errors="replace"))
    found: list[tuple[int, int, int | None]] = [(int(rank), int(code), int(pid)) for rank, code, pid in blocks]
    bad = [item for item in dict.fromkeys(found) if item[1] not in ENDED_WELL]
    return bad if found else _own_failure(node)


def _silent_failure(rank: int, code: int, pid: int | None, *, node: Mapping[str, Any], before: float) -> Failure:
    host = str(node.get("host") or socket.gethostname())
    if code < 0:
        name = signal.Signals(-code).name
        hint = "; the kernel does this when memory runs out" if name == "SIGKILL" else ""
        return Failure(rank=rank, host=host, pid=pid, time=before, error=name, message=f"ended by signal {-code}{hint}")
    message = f"ended with exit code {code} and no report of its own"
    known = code in set(ExitCode) and code != ExitCode.BUG
    return Failure(
        rank=rank, host=host, pid=pid, time=before, error="exited", message=message, exit_code=code if known else 5
    )


def last_lines(log: Path, limit: int = LAST_LINES) -> Sequence[str]:
    """The end of what a process printed; empty if there is no such file."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - 64 * 1024))
            text = file.read().decode("utf-8", errors="replace")
    except OSError:
        return ()
    lines = [line.rpartition("\r")[2].rstrip() for line in text.rstrip().split("\n")]
    return [line for line in lines if line][-limit:]


def is_running(folder: Path, trainer_log: Path) -> bool:
    """Whether an attempt still runs: by its guard on this host, by the age of its event log on another."""
    node = read_node(folder)
    if not node or node.get("ended"):
        return False
    if node.get("host") == socket.gethostname():
        ticks = node.get("start_ticks")
        return ticks is not None and start_ticks(int(node["pid"])) == ticks
    with suppress(OSError):
        return time.time() - trainer_log.stat().st_mtime < FOREIGN_HOST_QUIET_S
    return False


def newest_checkpoint(checkpoints: Path) -> Path | None:
    """The complete checkpoint of the highest step: a folder gets its name only when it is complete."""
    try:
        found = sorted(path for path in checkpoints.glob("step-*") if path.name[5:].isdecimal() and path.is_dir())
    except OSError:
        return None
    return found[-1] if found else None
