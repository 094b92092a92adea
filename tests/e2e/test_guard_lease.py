"""The guard of one node among several: lines and silence of its launcher, the file of orders, a scheduler's signals."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
START = """
import sys
from pathlib import Path
from dawnrun.launch.guard import Guard, Lease
folder, lease = Path(sys.argv[1]), eval(sys.argv[2])
command = [sys.executable, str(folder / "agent.py"), str(folder)]
sys.exit(Guard(command, record=folder / "node-1.json", output=folder / "out", grace_s=6, lease=lease).run())
"""
# An agent that dies of SIGTERM, and a worker that saves on it.
AGENT = """
import os, subprocess, sys, time
worker = '''
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (time.sleep(1), open(sys.argv[1] + "/saved", "w").close(), os._exit(0)))
open(sys.argv[1] + "/ready", "w").close()
time.sleep(100)
'''
subprocess.run([sys.executable, "-c", worker, sys.argv[1]], env={**os.environ, "LOCAL_RANK": "0"})
"""


@pytest.fixture
def start(tmp_path):
    (tmp_path / "agent.py").write_text(AGENT)
    guards = []

    def run(lease: str) -> subprocess.Popen:
        command = [sys.executable, "-c", START, str(tmp_path), lease]
        guards.append(subprocess.Popen(command, stdin=subprocess.PIPE, cwd=ROOT))
        deadline = time.monotonic() + 20
        while not (tmp_path / "ready").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return guards[-1]

    yield run
    for guard in guards:
        guard.kill()
        guard.stdin.close()
        guard.wait()


def reason(folder: Path) -> str:
    return json.loads((folder / "node-1.json").read_text())["reason"]


def test_silence_is_a_lost_lease(start, tmp_path):
    guard = start("Lease(hold_s=1.0)")
    for _ in range(8):
        guard.stdin.write(b"\n")
        guard.stdin.flush()
        time.sleep(0.25)
    assert guard.poll() is None  # beats hold it
    began = time.monotonic()
    guard.wait(10)
    assert 0.5 < time.monotonic() - began < 6
    assert reason(tmp_path) == "lost"


@pytest.mark.parametrize(("order", "saved"), [(b"save", True), (b"now", False)])
def test_orders_by_line(start, tmp_path, order, saved):
    guard = start("Lease(hold_s=60)")
    guard.stdin.write(b"\n" + order + b"\n")
    guard.stdin.flush()
    guard.wait(10)
    assert reason(tmp_path) == "interrupted"
    assert (tmp_path / "saved").exists() is saved


def test_orders_by_file(start, tmp_path):
    """What `dawnrun jobs stop` writes, whatever launcher there is."""
    guard = start("Lease()")
    (tmp_path / "orders").write_text("save\n")
    guard.wait(10)
    assert reason(tmp_path) == "interrupted"
    assert (tmp_path / "saved").exists()


def test_a_scheduler_s_signals_leave_time_to_save(start, tmp_path):
    """It signals every process, more than once: the agent must not die of it, nor a second one kill at once."""
    guard = start("Lease(stdin=False)")
    agent = int(Path(f"/proc/{guard.pid}/task/{guard.pid}/children").read_text().split()[0])
    for pid in (agent, guard.pid):
        os.kill(pid, signal.SIGTERM)
    time.sleep(0.3)
    guard.send_signal(signal.SIGTERM)
    assert guard.wait(10) == 0  # the agent's own code: it outlived its worker
    assert (tmp_path / "saved").exists()
