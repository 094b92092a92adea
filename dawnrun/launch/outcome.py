"""How a job ended, from what its processes left behind: whose failure came first, and what it printed."""

import json
import re
import signal
import socket
import time
import unicodedata
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from dawnrun.errors import ExitCode
from dawnrun.launch.processes import start_ticks
from dawnrun.text import escaped

LAST_LINES = 20
SHORT = 110
"""Characters of a consequence: libraries put stacks and addresses into theirs."""
FOREIGN_HOST_QUIET_S = 60.0
"""An attempt of another host counts as running while its event log is younger; the trainer writes every 5 s."""

# torch.distributed.run prints one such block for each worker that failed by itself.
AGENT_BLOCK = re.compile(r"rank\s*:\s*(\d+) \(local_rank: \d+\)\s+exitcode\s*:\s*(-?\d+) \(pid: (\d+)\)")
ENDED_BY_OTHERS = {signal.SIGTERM, signal.SIGABRT, signal.SIGINT, signal.SIGHUP}
"""Signals that reach a worker because of another's failure: the agent's SIGTERM, gloo's and NCCL's abort."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """One process that failed. `time` in seconds since 1970; step and epoch as in the event log.

    `rank` None: an agent or a whole host; `log`: where it printed, if that is not the rank's own log.
    """

    rank: int | None
    host: str
    pid: int | None
    time: float
    error: str
    message: str
    step: int | None = None
    epoch: int | None = None
    exit_code: int = ExitCode.TRAIN
    log: Path | None = None

    def __str__(self) -> str:
        """`rank 1 on HOST: ValueError: ...`, the message's first line alone."""
        first = (self.message.strip().splitlines() or [""])[0]
        where = f" at step {self.step}" if self.step is not None else ""
        who = f"rank {self.rank} on {self.host}" if self.rank is not None else f"host {self.host}"
        return f"{who}{where}: {self.error}{': ' if first else ''}{first}"

    def in_short(self) -> str:
        """The same as a consequence is told: one line of plain text, not longer than a screen is wide."""
        # Pictures, which the messages of gloo begin with, are category So.
        text = " ".join("".join(char for char in escaped(self) if unicodedata.category(char) != "So").split())
        return text if len(text) <= SHORT else f"{text[: SHORT - 3].rstrip()}..."


def read_failures(folder: Path) -> list[Failure]:
    """The `failure-rank-*.json` that workers wrote, the earliest first; a file cut short says at least the rank."""
    failures = []
    for path in folder.glob("failure-rank-*.json"):
        rank = int(path.stem.rpartition("-")[2])
        with suppress(OSError):
            failures.append(_parse(rank, path.read_text(encoding="utf-8", errors="replace"), path.stat().st_mtime))
    return sorted(failures, key=lambda failure: (failure.time, failure.rank or 0))


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


def read_node(folder: Path, node: int = 0) -> Mapping[str, Any]:
    """A guard's record of this job, empty if there is none yet."""
    try:
        return dict(json.loads((folder / f"node-{node}.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def read_losses(folder: Path) -> list[Failure]:
    """The hosts that the launcher heard nothing more of, and those that could not begin; the earliest first."""
    losses = []
    for path in folder.glob("lost-node-*.json"):
        with suppress(OSError, ValueError, KeyError, TypeError):
            fields = json.loads(path.read_text(encoding="utf-8"))
            losses.append(
                Failure(
                    rank=None,
                    host=str(fields["host"]),
                    pid=None,
                    time=float(fields["time"]),
                    error=str(fields.get("error", "lost")),
                    message=str(fields["message"]),
                    exit_code=int(fields.get("exit_code", ExitCode.TRAIN)),
                )
            )
    return sorted(losses, key=lambda loss: loss.time)


def find_failures(folder: Path, logs: Path) -> list[Failure]:
    """Every failure that is known on any node, the cause first.

    A worker that a signal killed could not write: a guard or torchrun's agent saw it, and it comes before what the
    others met in consequence. So does a host that is gone.
    """
    written = read_failures(folder)
    ranks = {failure.rank for failure in written}
    traces = {path.stem[5:] for path in (*folder.glob("node-*.json"), *logs.glob("node-*.log"))}
    nodes = sorted(int(trace) for trace in traces if trace.isdecimal())
    seen = [(number, *item) for number in nodes for item in _seen_by_guard(folder, logs, number)]
    unreported = [item for item in seen if item[1] is None or item[1] not in ranks]
    killed = [item for item in unreported if item[2] < 0 and -item[2] not in ENDED_BY_OTHERS]
    losses = read_losses(folder)
    silent = killed if killed or written or losses else unreported
    first = min([failure.time for failure in (*written, *losses)], default=time.time())
    # A host is gone since it was last heard, so its loss stands before the connections that broke by it.
    told = sorted([*written, *losses], key=lambda failure: failure.time)
    return [
        *(
            _silent_failure(rank, code, pid, node=read_node(folder, number), before=first, log=_node_log(logs, number))
            for number, rank, code, pid in silent
        ),
        *told,
    ]


def _node_log(logs: Path, number: int) -> Path | None:
    log = logs / f"node-{number}.log"
    return log if log.exists() else None


Seen = tuple[int | None, int, int | None]
"""Rank (None: the agent itself), exit code (negative: a signal) and pid."""


def _seen_by_guard(folder: Path, logs: Path, number: int) -> list[Seen]:
    """What ended badly on a node: workers that torchrun's agent reports, else the agent, or the only process."""
    node, log = read_node(folder, number), _node_log(logs, number)
    stopped = node.get("reason") in ("lost", "interrupted")
    if stopped and node.get("signal"):
        return []  # the guard itself ended it
    own = _own_failure(node)
    if log is None:
        return own
    blocks = AGENT_BLOCK.findall(log.read_text(encoding="utf-8", errors="replace"))
    found: list[Seen] = [(int(rank), int(code), int(pid)) for rank, code, pid in blocks]
    bad = [item for item in dict.fromkeys(found) if item[1] not in ENDED_WELL]
    if stopped:
        bad = [item for item in bad if item[1] != -signal.SIGKILL]  # what did not end in time was killed by us
    return bad if found else [(None, code, pid) for _, code, pid in own]


def _own_failure(node: Mapping[str, Any]) -> list[Seen]:
    """The command of a guard, if it ended badly."""
    if node.get("signal"):
        return [(0, -signal.Signals[node["signal"]].value, None)]
    code = node.get("exit_code")
    return [(0, code, None)] if code not in (None, *ENDED_WELL) else []


ENDED_WELL = (ExitCode.OK, ExitCode.BELOW_TARGET, ExitCode.PREEMPTED, ExitCode.INTERRUPTED)
"""Exit codes of a worker that did what it should."""


def _silent_failure(
    rank: int | None, code: int, pid: int | None, *, node: Mapping[str, Any], before: float, log: Path | None
) -> Failure:
    host = str(node.get("host") or socket.gethostname())
    if code < 0:
        name = signal.Signals(-code).name
        hint = "; the kernel does this when memory runs out" if name == "SIGKILL" else ""
        who = "the agent was " if rank is None else ""
        message = f"{who}ended by signal {-code}{hint}"
        return Failure(rank=rank, host=host, pid=pid, time=before, error=name, message=message, log=log)
    message = f"ended with exit code {code} and no report of its own"
    known = code in set(ExitCode) and code != ExitCode.BUG
    return Failure(
        rank=rank,
        host=host,
        pid=pid,
        time=before,
        error="exited",
        message=message,
        exit_code=code if known else 5,
        log=log,
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
    if not node or node.get("ended") or _ended_for_launcher(trainer_log.with_name("launcher.jsonl")):
        return False
    if node.get("host") == socket.gethostname():
        ticks = node.get("start_ticks")
        return ticks is not None and start_ticks(int(node["pid"])) == ticks
    with suppress(OSError):
        return time.time() - trainer_log.stat().st_mtime < FOREIGN_HOST_QUIET_S
    return False


def _ended_for_launcher(log: Path) -> bool:
    """Whether the launcher saw the end, or waited until the lease of a lost host had run out."""
    return any('"kind":"launch.ended"' in line.replace(" ", "") for line in last_lines(log, 1))


def newest_checkpoint(checkpoints: Path, *, but: Path | None = None) -> Path | None:
    """The complete checkpoint of the highest step, `but` left out: a folder gets its name only when it is complete."""
    try:
        there = (path for path in checkpoints.glob("step-*") if path.name[5:].isdecimal() and path.is_dir())
        found = sorted(path for path in there if path != but)
    except OSError:
        return None
    return found[-1] if found else None
