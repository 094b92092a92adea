"""Runs over two hosts by ssh: to the end, and through every harm."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from testbed_place import PATHS

from dawnrun.launch.outcome import newest_checkpoint, read_node
from dawnrun.record.rundir import RunDir
from dawnrun.record.summary import summarize

ROOT = Path(__file__).parents[2]


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
        (agent,) = place.on_host(2, "torch.distributed.run")
        os.kill(agent, signal.SIGKILL)
    elif kind == "host":
        place.hosts.kill(2)
    elif kind == "link":
        place.hosts.cut(2)
    elif kind == "ssh":
        (ssh,) = place.processes("-- node2 ")
        os.kill(ssh, signal.SIGKILL)


@pytest.mark.parametrize(
    ("kind", "bound_s", "cause"),
    [
        ("worker", 8, "cause: rank 1 on node2: SIGKILL"),
        ("agent", 8, "cause: host node2: SIGKILL: the agent was ended by signal 9"),
        pytest.param("ssh", 8, "cause: host node2: lost: ssh ended with exit code -9", marks=pytest.mark.slow),
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
    # The host whose ssh was killed notices by the end of its input, on its own.
    place.until_none_is_left(5 if kind == "ssh" else 0.1)
    assert process.returncode == 5, text
    assert cause in text.splitlines()[-2], text
    assert f"go on with: dawnrun resume {place.run_dir.path}" in text.splitlines()[-1]
    assert took < bound_s


def test_ctrl_c_saves_and_leaves_nothing(place):
    process = place.train("endless")
    steps(place)
    process.send_signal(signal.SIGINT)
    text, _ = process.communicate(timeout=30)
    assert process.returncode == 130, text
    assert newest_checkpoint(place.run_dir.checkpoints) is not None
    assert place.processes() == {}
    assert summarize(place.run_dir).status in ("preempted", "interrupted")


@pytest.mark.slow
def test_nothing_survives_the_launcher(place):
    process = place.train("endless")
    steps(place)
    process.kill()
    place.until_none_is_left(15)
    assert read_node(place.run_dir.attempt_dir(1), 1)["reason"] == "lost"
    assert newest_checkpoint(place.run_dir.checkpoints) is not None


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_lost_host_comes_back_by_itself(place):
    """The launcher starts the next attempt on the same hosts; each attempt has its own rendezvous."""
    process = place.train("endless", max_restarts=1)
    steps(place)
    harm(place, "agent")
    place.wait_for("attempts/2/rank-001.started")
    orders = [place.run_dir.attempt_dir(attempt) / "node-0.log" for attempt in (1, 2)]
    assert [read_node(order.parent)["host"] for order in orders] == ["node1", "node1"]
    ids = [[word for word in read_node(order.parent)["command"] if "rdzv" in word] for order in orders]
    assert ids[0] != ids[1]
    process.send_signal(signal.SIGINT)
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 130, text
    assert "starting again; restarts left after this one: 0" in text


def test_a_hang_over_two_hosts(place):
    """C45: the rank that hangs is on the second host; each rank's position is printed."""
    process = place.train("hang:1", hang_timeout_s=3)
    text, _ = process.communicate(timeout=100)
    assert process.returncode == 5, text
    assert "in wait_for_the_other_ranks" in text.partition("rank 0, ")[2].partition("rank 1, ")[0], text
    assert "in wait_for_a_gradient_that_never_comes" in text.partition("rank 1, ")[2]
    assert "no step for 3 s" in text
    assert place.processes() == {}


def test_on_with_fewer_nodes(place):
    """Where every phase divides; else the numbers of nodes that would are listed, and nothing is started."""
    process = place.train("endless")
    steps(place)
    process.send_signal(signal.SIGTERM)
    text, _ = process.communicate(timeout=30)
    assert process.returncode == 75, text
    run = place.run_dir
    site = place.site(fake="finish", nodes=1, ssh={"hosts": ["node2"]}, processes_per_node=3)
    code, text = place.run("resume", str(run.path), "--site", site)
    assert code == 2, text
    assert "32 cannot be split over 3 processes of 16 images" in text
    assert "with 3 processes on each node every phase can be split over: no number of nodes" in text
    site = place.site(fake="finish", nodes=2, processes_per_node=2)
    code, text = place.run("resume", str(run.path), "--site", site)
    assert code == 2 and "with 2 processes on each node every phase can be split over: 1\n" in text, text
    assert list(run.attempts()) == [1]
    site = place.site(fake="finish", nodes=1, ssh={"hosts": ["node2"]})
    code, text = place.run("resume", str(run.path), "--site", site)
    assert code == 0, text
    assert read_node(run.attempt_dir(2))["host"] == "node2"
    assert summarize(run).status == "finished"


def test_the_printed_commands_run_by_hand(place):
    """--dry-run: what is printed gives the same job; nothing is started by it."""
    site = place.site(fake="finish")
    code, text = place.run("train", "--config", "toy.yaml", "--site", site, "--dry-run")
    assert code == 0, text
    assert not any((place.folder / "runs").iterdir())
    run = place.folder / "runs" / "by-hand"
    for folder in ("attempts/1", "logs/1", "events", "checkpoints"):
        (run / folder).mkdir(parents=True)
    script = ""
    for line in text.splitlines():
        if line.startswith("# file ") and line.endswith(":"):
            script += f"cat > '{line[7:-1]}' <<'END OF FILE'\n"
        elif line.startswith("# end of "):
            script += "END OF FILE\n"
        else:
            script += f"{line}\n"
    printed = next(line for line in text.splitlines() if line.startswith("# file "))[7:].rpartition("/")[0]
    script = script[script.index("cat > ") :].replace(printed, str(run))
    done = subprocess.run(
        ["bash", "-c", script], cwd=place.folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert summarize(RunDir(run)).status == "finished", done.stdout + done.stderr


HOSTILE = {"A": "a b", "B": "$HOME `id` \"'", "C": "line\nline", "D": "*;&|"}


def test_what_is_refused_before_the_start(place):
    """C28, C32 and the mistakes of a first day: exit code 4 or 2 in seconds, and nothing is started."""
    own = place.hosts.folder / "own"

    def refused(**values) -> tuple[int, str]:
        began = time.monotonic()
        code, text = place.run("train", "--config", "toy.yaml", "--site", place.site(**values))
        assert time.monotonic() - began < 30
        assert "nothing was started" in text and "Traceback" not in text, text
        assert not list((place.folder / "runs").iterdir())
        return code, text

    code, text = refused(ssh={"hosts": ["node1", "no-such-host.invalid"]})
    assert code == 4 and "no-such-host.invalid: ssh: Could not resolve hostname" in text
    code, text = refused(interface="nosuch0")
    assert code == 2 and "interface nosuch0 is not there; there are " in text and "eth0" in text
    code, text = refused(run_root=str(own / "runs"))
    assert code == 4 and f"node2: run_root {own}/runs is not the folder that it is here" in text
    assert "node1: " not in text
    code, text = refused(ssh={"python": "/no/such/python"})
    assert code == 4 and "/no/such/python" in text
    code, text = refused(ssh={"options": ["-o", f"UserKnownHostsFile={os.devnull}"]})
    assert code == 4 and "Host key verification failed" in text
    code, text = refused(ssh={"options": ["-l", "nobody-we-know"]})
    assert code == 4 and "Permission denied" in text
    code, text = refused(data_root=str(place.folder / "elsewhere"))
    assert code == 4 and f"node1: {place.folder}/elsewhere: no such folder (data set full)" in text


def test_other_code_on_a_host(place):
    """The fingerprint of the source is compared, not only the version."""
    copy = place.folder / "copy"
    shutil.copytree(ROOT / "dawnrun", copy / "dawnrun", ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "dawnrun" / "text.py").write_text((copy / "dawnrun" / "text.py").read_text() + "\n# changed\n")
    site = place.site(ssh={"directory": str(copy)})
    code, text = place.run("train", "--config", "toy.yaml", "--site", site)
    assert code == 4, text
    assert "node1: code is " in text and "; install the same on all" in text


def test_hostile_values_come_through(place):
    folder = place.folder / 'it\'s a "run" $root'
    process = place.train("finish", env={**HOSTILE, "PYTHONPATH": PATHS}, run_root=str(folder))
    text, _ = process.communicate(timeout=100)
    assert process.returncode == 0, text
    (run,) = folder.glob("toy-*")
    seen = json.loads((run / "attempts" / "1" / "environment.json").read_text())
    assert {name: seen[name] for name in HOSTILE} == HOSTILE


def test_doctor(place):
    """Every node in a line; a fault is told with what to do, and makes it fail."""
    code, text = place.run("doctor", "--quick", "--config", "toy.yaml", "--site", place.site())
    assert code == 0, text
    assert "good   node1: dawnrun " in text and "good   node2: dawnrun " in text
    assert f"eth0 {place.hosts.address(2)}" in text
    assert not list((place.folder / "runs").iterdir())
    code, text = place.run("doctor", "--quick", "--config", "toy.yaml", "--site", place.site(data_root="/nowhere"))
    assert code == 4, text
    assert "fails  node1: /nowhere: no such folder (data set full)" in text
    assert "a run would fail: 2 problems on node1, node2" in text
