"""The node guard: runs a job's command on one machine and leaves no process of it behind.

    python -m dawnrun.launch.guard --record FILE --output FILE --grace-s S -- COMMAND...

Its standard input is the launcher's lease: the end of that stream stops the job, so a launcher that dies takes the job
with it; where the lease is a matter of time, so does silence on it. A line `save`, `now` or `stacks` on it is an order.
So is the text of a file `orders` beside the record, for who has no line to the guard. SIGTERM (or SIGINT, SIGHUP) asks the workers to save and end, and after the grace kills what is left; a second
one kills at once. SIGUSR1 makes the workers print their stacks (faulthandler) and end. As "child subreaper" the guard
inherits every orphan of the job, so nothing escapes it. FILE of `--record` says who runs, and at the end how it ended.
"""

import argparse
import ctypes
import json
import math
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from dawnrun.launch.processes import descendants, is_worker, start_ticks

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
POLL_S = 0.1
STACKS_S = 5.0
"""Time for the workers to print their stacks before they are killed."""
CUT_GRACE_S = 4.0
"""Time for the workers of a node that is cut off."""
LOOK_S = 1.0
"""Between two looks at the file of orders, which may lie on a slow disk."""
AGENT_S = 3.0
"""Time for an agent whose workers have ended after a stop; it may wait for one on a node that is gone."""
KILL_LIMIT_S = 20.0
"""A process that ignores SIGKILL for so long sits in the kernel; waiting longer helps nobody."""


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _die_with_guard() -> None:
    """In the child, before the command: should the guard itself be killed, the kernel kills the command."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _die_with_guard_alone() -> None:
    """The same, and a scheduler's signals, which reach every process of a step, are left to the guard."""
    _die_with_guard()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """What a guard hears from its launcher.

    `hold_s`: silence after which standard input counts as cut, None: never. `stdin`: whether there is one at all.
    `beat`: called about every 0.1 s.
    """

    stdin: bool = True
    hold_s: float | None = None
    beat: Callable[[], None] = lambda: None


ORDERS = {b"save": signal.SIGTERM, b"stacks": signal.SIGUSR1}
LOCAL_LEASE = Lease()


class Guard:
    """One command from its start to the end of its last process."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        record: Path,
        output: Path,
        grace_s: float,
        env: Mapping[str, str] | None = None,
        lease: Lease = LOCAL_LEASE,
        beside: Sequence[str] = (),
    ) -> None:
        """`output` gets what the command prints; `record` is rewritten whole at start and end.

        `beside`: a second command, which ends with the first at the latest; its own end changes nothing.
        """
        self._record, self._grace_s, self._lease = record, grace_s, lease
        self._heard, self._looked, self._line = time.monotonic(), 0.0, b""
        self._signals: list[int] = []
        self._lease_open, self._had_workers = lease.stdin, False
        self._reason: str | None = None
        self._deadline: float | None = None
        _prctl(PR_SET_CHILD_SUBREAPER, 1)
        _, hard = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard))  # printing stacks must not leave core files
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, lambda number, _: self._signals.append(number))
        self._facts: dict[str, object] = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "start_ticks": start_ticks(os.getpid()),
            "command": list(command),
            "started_utc": datetime.now(UTC).isoformat(timespec="milliseconds"),
        }
        self._write(ended=False)
        self._job = self._start(command, output, env)
        self._beside = self._start(beside, output, env) if beside else None

    def _start(self, command: Sequence[str], output: Path, env: Mapping[str, str] | None) -> "subprocess.Popen[bytes]":
        with output.open("ab") as file:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=env,
                start_new_session=True,
                # Safe: this process has one thread.
                preexec_fn=_die_with_guard if self._lease.stdin else _die_with_guard_alone,
            )

    def run(self) -> int:
        """Wait, obey, clean up; return the command's exit code, 128 + N if signal N ended it."""
        while self._job.poll() is None or (self._reason and self._something_is_left()):
            self._look_at_lease()
            while self._signals:
                self._obey(self._signals.pop(0))
            if self._deadline is not None and time.monotonic() > self._deadline:
                break
            if self._had_workers and not self._workers():
                self._had_workers, self._deadline = False, min(self._deadline or math.inf, time.monotonic() + AGENT_S)
        kill_all(self._job.poll)
        code = self._job.returncode
        with suppress(OSError):  # a full disk must not change how the job ended
            self._write(
                ended=True,
                ended_utc=datetime.now(UTC).isoformat(timespec="milliseconds"),
                reason=self._reason or ("signalled" if code is not None and code < 0 else "exited"),
                exit_code=code if code is not None and code >= 0 else None,
                signal=signal.Signals(-code).name if code is not None and code < 0 else None,
            )
        return 1 if code is None else code if code >= 0 else 128 - code

    def _something_is_left(self) -> bool:
        """Whether processes of the job outlive its command; what ran beside it has nothing left to do."""
        if self._beside is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._beside.pid, signal.SIGKILL)
        return bool(descendants(os.getpid()))

    @property
    def record(self) -> Mapping[str, object]:
        """What the record says."""
        return self._facts

    def _look_at_lease(self) -> None:
        """Wait a moment, or until there is an order or the launcher is gone."""
        ready, _, _ = select.select([0] if self._lease_open else [], [], [], POLL_S)
        self._lease.beat()
        now = time.monotonic()
        if ready:
            heard = os.read(0, 4096)
            self._heard = now
            if not heard:
                self._lease_open = False
                self._stop("lost", self._grace_s)
            *lines, self._line = (self._line + heard).split(b"\n")
            for line in lines:
                self._order(line.strip())
        elif self._lease_open and self._lease.hold_s is not None and now - self._heard > self._lease.hold_s:
            # Cut off: the other nodes do not answer either, so the workers cannot agree to save.
            self._lease_open = False
            self._stop("lost", min(self._grace_s, CUT_GRACE_S))
        if now - self._looked > LOOK_S:
            self._looked = now
            with suppress(OSError):
                self._order(self._record.with_name("orders").read_bytes().strip())

    def _order(self, order: bytes) -> None:
        if order == b"now":
            self._reason = self._reason or "interrupted"
            self._deadline = time.monotonic()
        elif order in ORDERS and self._reason is None:
            self._obey(ORDERS[order])

    def _obey(self, number: int) -> None:
        if number == signal.SIGUSR1:
            self._reason = self._reason or "interrupted"
            self._deadline = time.monotonic() + STACKS_S
            self._signal_workers(signal.SIGABRT)
        elif self._reason is None:
            self._stop("interrupted", self._grace_s)
        elif self._lease.stdin:
            # A scheduler sends one end in several signals, and knows how to kill.
            self._deadline = time.monotonic()

    def _stop(self, reason: str, grace_s: float) -> None:
        if self._reason is None:
            self._reason = reason
            self._deadline = time.monotonic() + grace_s
            self._signal_workers(signal.SIGTERM)

    def _signal_workers(self, number: int) -> None:
        """To the ranks themselves, not to torchrun, which would pass it on late; to the command if it is the rank."""
        self._had_workers = bool(workers := self._workers())
        for pid in workers or [self._job.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _workers(self) -> list[int]:
        return [pid for pid in descendants(self._job.pid) if is_worker(pid)]

    def _write(self, **more: object) -> None:
        self._facts |= more
        aside = self._record.with_name(f".{self._record.name}.new")
        aside.write_text(json.dumps(self._facts) + "\n", encoding="utf-8")
        aside.replace(self._record)


def kill_all(poll: Callable[[], object]) -> None:
    """SIGKILL to every process below this one until none is left; `poll` collects the command's own end.

    Adopted processes are collected too: where process 1 is no init, as in many containers, nobody else would.
    """
    deadline = time.monotonic() + KILL_LIMIT_S
    while time.monotonic() < deadline:
        left = descendants(os.getpid())
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if poll() is not None:
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            if not left:
                return
        time.sleep(0.02)


def main() -> int:
    """Read the arguments and guard the command."""
    parser = argparse.ArgumentParser(prog="python -m dawnrun.launch.guard", description=__doc__)
    parser.add_argument("--record", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--grace-s", type=float, default=60.0)
    parser.add_argument("--beside", type=json.loads, default=(), help="a second command, as a JSON list")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    guard = Guard(
        arguments.command,
        record=arguments.record,
        output=arguments.output,
        grace_s=arguments.grace_s,
        beside=arguments.beside,
    )
    return guard.run()


if __name__ == "__main__":
    sys.exit(main())
