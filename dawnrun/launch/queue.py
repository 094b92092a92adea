"""What Slurm's queue says of a job, without accounting; from squeue, whose `-o` is the same in all versions."""

import json
import subprocess
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from dawnrun.launch.base import JobStatus
from dawnrun.launch.outcome import read_node

ASK_LIMIT_S = 20.0
SETTLE_LIMIT_S = 15.0
"""A requeued job is first COMPLETING: seconds after the end of its steps in a cluster of two nodes."""
GONE_S = 4.0
"""So long a job must have been neither running nor waiting: while it is put back it is neither for a moment."""
STATES = {
    "PENDING": JobStatus.QUEUED,
    "CONFIGURING": JobStatus.QUEUED,
    "REQUEUED": JobStatus.QUEUED,
    "REQUEUE_HOLD": JobStatus.QUEUED,
    "REQUEUE_FED": JobStatus.QUEUED,
    "SPECIAL_EXIT": JobStatus.QUEUED,
    "RUNNING": JobStatus.RUNNING,
    "COMPLETING": JobStatus.RUNNING,
    "STAGE_OUT": JobStatus.RUNNING,
    "SUSPENDED": JobStatus.RUNNING,
    "STOPPED": JobStatus.RUNNING,
    "SIGNALING": JobStatus.RUNNING,
    "RESIZING": JobStatus.RUNNING,
    "COMPLETED": JobStatus.SUCCEEDED,
    "CANCELLED": JobStatus.CANCELLED,
    "PREEMPTED": JobStatus.CANCELLED,
}
"""Slurm's states; every other one is a failure."""


ACTIVE = (JobStatus.QUEUED, JobStatus.RUNNING)


REQUEUED = "requeued"
"""File in the folder of an attempt whose job was put back by its launcher; Slurm may still be ending it."""


def held_by(folder: Path, states: Collection[JobStatus] = ACTIVE) -> str | None:
    """Number of the job that an attempt waits or runs in, or goes on in by itself; None if there is none."""
    try:
        number = str(json.loads((folder / "job.json").read_text(encoding="utf-8"))["slurm"])
    except (OSError, ValueError, KeyError):
        return None
    return number if job_status(number, folder) in states else None


def requeued(folder: Path, *, limit_s: float = SETTLE_LIMIT_S, gone_s: float = GONE_S) -> str | None:
    """Number of the job of an attempt that has ended, if it is back in the queue; waits while Slurm still ends it."""
    number, began = held_by(folder, tuple(JobStatus)), time.monotonic()
    if (folder / REQUEUED).exists():
        return number
    if failed_on_its_nodes(folder):
        return None
    last_active = began
    while number is not None and time.monotonic() - began < limit_s and time.monotonic() - last_active < gone_s:
        status = job_status(number, folder)
        if status is JobStatus.QUEUED:
            return number
        if status in ACTIVE:
            last_active = time.monotonic()
        time.sleep(0.3)
    return None


def failed_on_its_nodes(folder: Path) -> bool:
    """Whether all guards have told their ends, and one of them an agent's failure: nobody puts such a job back."""
    try:
        order = json.loads((folder / "order.json").read_text(encoding="utf-8"))
        records = [read_node(folder, node) for node in range(order["nodes"] + order["evaluator_node"])]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    ended = all(record.get("ended") for record in records)
    return ended and any(record.get("reason") in ("exited", "signalled") and _failed(record) for record in records)


def _failed(record: Mapping[str, Any]) -> bool:
    return bool(record.get("signal") or record.get("exit_code"))


def job_status(number: str, folder: Path, run: Callable[..., Any] = subprocess.run) -> JobStatus | None:
    """A job's state without accounting; None if Slurm does not answer."""
    try:
        words = ["squeue", "-h", "-j", number, "-t", "all", "-o", "%T"]
        done = run(words, capture_output=True, text=True, timeout=ASK_LIMIT_S, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    states = done.stdout.split()
    if states:
        return STATES.get(states[0], JobStatus.FAILED)
    if done.returncode and "invalid job id" not in done.stderr.lower():
        return None
    # Slurm forgets a job some minutes after its end.
    record = read_node(folder)
    return JobStatus.SUCCEEDED if record.get("exit_code") == 0 else JobStatus.FAILED


def misses_a_node(number: str) -> bool:
    """Whether Slurm does not hear from a node of a job, long before it takes the node for down."""
    try:
        nodes = _said("squeue", "-h", "-j", number, "-o", "%N")
        return any(state.endswith("*") for state in _said("sinfo", "-h", "-N", "-n", nodes, "-o", "%T").split())
    except (OSError, subprocess.SubprocessError):
        return False


def _said(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, timeout=ASK_LIMIT_S, check=True).stdout.strip()
