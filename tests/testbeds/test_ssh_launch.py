"""Runs over two hosts by ssh: to the end, and through every harm."""

import os
import signal
import time

import pytest

from dawnrun.launch.outcome import read_node


def steps(place, more: int = 5):
    """Wait until both workers run and some steps are done."""
    place.wait_for("attempts/1/rank-001.started")
    place.wait_for("attempts/1/rank-000.started")
    time.sleep(1 + more * 0.05)


def test_a_run_over_two_hosts(place):
    """C34: one run directory, one writer; C27: a log for each rank and each agent."""
    process = place.train("finish")
    text, _ = process.communicate(timeout=100)
    assert process.returncode == 0, text
    assert "starting 2 processes on 2 nodes" in text
    logs = place.run_dir.logs / "1"
    assert "fake worker 0 of 2 started" in (logs / "rank-000.log").read_text()
    assert "fake worker 1 of 2 started" in (logs / "rank-001.log").read_text()
    records = [read_node(place.run_dir.attempt_dir(1), node) for node in range(2)]
    assert [(record["host"], record["exit_code"]) for record in records] == [("node1", 0), ("node2", 0)]
    assert place.processes() == {}


def harm(place, kind: str) -> None:
    if kind == "worker":
        os.kill(place.on_host(2, "fake_worker.py")[-1], signal.SIGKILL)
    elif kind == "agent":
        (agent,) = [pid for pid in place.on_host(2, "torch.distributed.run")]
        os.kill(agent, signal.SIGKILL)
    elif kind == "host":
        place.hosts.kill(2)
    elif kind == "link":
        place.hosts.cut(2)
    elif kind == "ssh":
        (ssh,) = place.processes("-- node2") or list(place.processes("ssh"))
        os.kill(ssh, signal.SIGKILL)


@pytest.mark.parametrize(
    ("kind", "bound_s", "cause"),
    [
        ("worker", 8, "cause: rank 1 on node2: SIGKILL"),
        ("agent", 8, "cause: host node2: SIGKILL: the agent was ended by signal 9"),
        ("host", 20, "cause: host node2: lost: nothing heard from it for 10 s"),
        ("link", 20, "cause: host node2: lost: nothing heard from it for 10 s"),
    ],
)
def test_a_harm(place, kind, bound_s, cause):
    process = place.train("endless")
    steps(place)
    began = time.monotonic()
    harm(place, kind)
    text, _ = process.communicate(timeout=100)
    took = time.monotonic() - began
    print(f"MEASURED {kind} {took:.1f} s until the command ended")
    assert place.processes() == {}
    assert process.returncode == 5, text
    assert cause in text.splitlines()[-2], text
    assert f"go on with: dawnrun resume {place.run_dir.path}" in text.splitlines()[-1]
    assert took < bound_s
