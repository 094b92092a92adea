"""The node guard with real processes: nothing outlives it, whatever is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from dawnrun.launch.processes import start_ticks

WORKER = """
import os, signal, sys, time
if "save" in sys.argv:
    signal.signal(signal.SIGTERM, lambda *_: (open(sys.argv[1] + "/saved", "w").close(), os._exit(75)))
if "deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[1] + f"/pid-{os.getpid()}", "w").close()
time.sleep(100)
"""
AGENT = """
import os, subprocess, sys, time
command = [sys.executable, sys.argv[1] + "/worker.py", *sys.argv[1:]]
for rank in range(2):
    subprocess.Popen(command, env={**os.environ, "LOCAL_RANK": str(rank)}, start_new_session=True)
open(sys.argv[1] + f"/agent-{os.getpid()}", "w").close()
time.sleep(100)
"""


class Started:
    """A guard with what it started."""

    def __init__(self, folder: Path, *command: str, grace_s: float = 10) -> None:
        (folder / "worker.py").write_text(WORKER)
        (folder / "agent.py").write_text(AGENT)
        self.folder = folder
        words = ("--record", str(folder / "node-0.json"), "--output", str(folder / "out"), "--grace-s", str(grace_s))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dawnrun.launch.guard", *words, "--", sys.executable, *command],
            stdin=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )

    def pids(self, count: int, prefix: str = "pid") -> list[int]:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            found = [int(path.name.partition("-")[2]) for path in self.folder.glob(f"{prefix}-*")]
            if len(found) == count:
                return found
            time.sleep(0.02)
        raise TimeoutError

    def end(self, timeout_s: float) -> int:
        try:
            return self.process.wait(timeout_s)
        finally:
            self.process.stdin.close()

    @property
    def record(self) -> dict:
        return json.loads((self.folder / "node-0.json").read_text())


def alive(pids: list[int]) -> list[int]:
    found = []
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, 0)
            found.append(pid)
    return found


@pytest.fixture
def start(tmp_path):
    guards = []

    def run(*command: str, **options: float) -> Started:
        guards.append(Started(tmp_path, *command, **options))
        return guards[-1]

    yield run
    for guard in guards:
        guard.process.stdin.close()
        guard.process.wait(30)


def test_the_code_of_the_command(start, tmp_path):
    guard = start("-c", "import sys; print('hello'); sys.exit(6)")
    assert guard.end(10) == 6
    assert (tmp_path / "out").read_text() == "hello\n"
    assert (guard.record["reason"], guard.record["exit_code"], guard.record["signal"]) == ("exited", 6, None)


def test_a_signal_that_ended_the_command(start):
    guard = start("-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert guard.end(10) == 128 + 9
    assert (guard.record["reason"], guard.record["exit_code"], guard.record["signal"]) == ("signalled", None, "SIGKILL")


def test_sigterm_reaches_the_workers_not_their_agent(start, tmp_path):
    guard = start(f"{tmp_path}/agent.py", str(tmp_path), "save", grace_s=3)
    workers, (agent,) = guard.pids(2), guard.pids(1, "agent")
    guard.process.send_signal(signal.SIGTERM)
    time.sleep(1)
    assert alive([agent]) == [agent]
    assert (tmp_path / "saved").exists()
    assert guard.end(10) == 128 + 9  # the agent did not end by itself
    assert alive([*workers, agent]) == []
    assert guard.record["reason"] == "interrupted"


def test_deaf_workers_are_killed_after_the_grace(start, tmp_path):
    guard = start(f"{tmp_path}/agent.py", str(tmp_path), "deaf", grace_s=1)
    workers = guard.pids(2)
    began = time.monotonic()
    guard.process.send_signal(signal.SIGTERM)
    guard.end(10)
    assert 0.9 < time.monotonic() - began < 5
    assert alive(workers) == []


def test_a_second_sigterm_kills_at_once(start, tmp_path):
    guard = start(f"{tmp_path}/agent.py", str(tmp_path), "deaf", grace_s=60)
    workers = guard.pids(2)
    guard.process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    guard.process.send_signal(signal.SIGTERM)
    guard.end(5)
    assert alive(workers) == []


def test_workers_of_a_killed_agent(start, tmp_path):
    """What bare torchrun leaves running for good."""
    guard = start(f"{tmp_path}/agent.py", str(tmp_path))
    workers, (agent,) = guard.pids(2), guard.pids(1, "agent")
    os.kill(agent, signal.SIGKILL)
    assert guard.end(5) == 128 + 9
    assert alive(workers) == []


def test_a_lost_lease(start, tmp_path):
    guard = start(f"{tmp_path}/agent.py", str(tmp_path), "save", grace_s=3)
    workers = guard.pids(2)
    guard.process.stdin.close()
    guard.process.wait(10)
    assert alive(workers) == []
    assert (tmp_path / "saved").exists()
    assert guard.record["reason"] == "lost"


def test_a_killed_guard_takes_the_command_with_it(start, tmp_path):
    guard = start(f"{tmp_path}/worker.py", str(tmp_path))
    (worker,) = guard.pids(1)
    guard.process.kill()
    guard.end(5)
    deadline = time.monotonic() + 5
    while start_ticks(worker) is not None and time.monotonic() < deadline:  # perhaps a zombie of process 1's
        time.sleep(0.05)
    assert start_ticks(worker) is None
