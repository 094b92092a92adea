"""Runs over two nodes of a real Slurm without accounting: to the end, cancelled, preempted."""

import json
import os
import signal
import subprocess
import time

import pytest
from cli_runs import wait_for

from dawnrun.launch.outcome import newest_checkpoint, read_node
from dawnrun.record.rundir import RunDir
from dawnrun.record.summary import summarize


def train(place, fake: str, **values):
    site = place.slurm_site(fake=fake, **values)
    return place.start("train", "--config", "toy.yaml", "--site", site)


def job_of(place, attempt: int = 1) -> str:
    return json.loads(place.wait_for(f"attempts/{attempt}/job.json").read_text())["slurm"]


def running(place, attempt: int = 1) -> None:
    place.wait_for(f"attempts/{attempt}/rank-001.started")
    place.wait_for(f"attempts/{attempt}/rank-000.started")
    time.sleep(1)


def test_a_run_under_slurm(place, slurm):
    """Submitted, followed through the queue to its end; a name that Slurm and a shell would take apart comes through."""
    hostile = {"A": "a b", "B": "$HOME `id` \"'", "C": "line\nline"}
    root = place.folder / 'it\'s a 50% "run"'
    process = train(place, "finish", env=hostile, run_root=str(root), slurm={"options": ["--comment=it's $HOME #1"]})
    text, _ = process.communicate(timeout=100)
    assert process.returncode == 0, text
    assert "target reached" in text
    (run,) = root.glob("toy-*")
    seen = json.loads((run / "attempts/1/environment.json").read_text())
    assert {name: seen[name] for name in hostile} == hostile
    assert [read_node(run / "attempts/1", node)["host"] for node in range(2)] == ["node1", "node2"]
    job = json.loads((run / "attempts/1/job.json").read_text())["slurm"]
    shown = slurm.ask("scontrol", "show", "job", job)
    assert "Comment=it's $HOME #1" in shown
    assert f"JobName={run.name}" in shown
    assert slurm.state(job) == "COMPLETED"


def test_scancel_saves_and_leaves_nothing(place, slurm):
    process = train(place, "endless")
    running(place)
    job = job_of(place)
    slurm.ask("scancel", job)
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 75, text
    assert slurm.state(job) == "CANCELLED"
    assert newest_checkpoint(place.run_dir.checkpoints) is not None
    assert place.processes() == {}


def test_preempted_and_requeued(place, slurm):
    """C30: saved in the grace time, back in the queue, and on from there as the next attempt of the same job."""
    process = train(place, "endless")
    running(place)
    job = job_of(place)
    urgent = slurm.preempt()
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 75, text
    assert f"job {job} is back in the queue" in text, f"{slurm.state(job)}: {text[-600:]}"
    kept = newest_checkpoint(place.run_dir.checkpoints)
    assert kept is not None
    code, text = place.run("resume", str(place.run_dir.path))
    assert code == 2 and f"job {job}" in text
    running(place, 2)
    events = wait_for(lambda: (place.run_dir.events_dir(2) / "trainer.jsonl").read_text(), what="the second attempt")
    assert json.loads(events.splitlines()[0])["data"]
    assert slurm.state(job) == "RUNNING", urgent
    code, text = place.run("jobs", "stop", str(place.run_dir.path))
    assert code == 0, text
    wait_for(lambda: slurm.state(job) not in ("RUNNING", "COMPLETING"), what="the end of the job")
    assert slurm.state(job) == "FAILED"  # with 75, and not requeued
    assert place.processes() == {}
    assert summarize(place.run_dir).status in ("preempted", "interrupted")


@pytest.mark.slow
def test_a_killed_agent_fails_the_job(place, slurm):
    process = train(place, "endless")
    running(place)
    (agent,) = place.on_host(2, "torch.distributed.run")
    began = time.monotonic()
    os.kill(agent, signal.SIGKILL)
    text, _ = process.communicate(timeout=60)
    print(f"MEASURED slurm agent {time.monotonic() - began:.1f} s until the command ended")
    assert process.returncode == 5, text
    assert "cause: host node2: SIGKILL: the agent was ended by signal 9" in text
    assert place.processes() == {}


def test_refused_by_slurm(place, slurm):
    process = train(place, "finish", slurm={"partition": "no such"})
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 4, text
    assert "invalid partition specified: no such" in text
    assert "nothing was started" in text


def test_a_node_without_the_data(place, slurm):
    """Found by the nodes before an agent starts; told as the cause, and nothing is left."""
    process = train(place, "finish", data_root="/nowhere")
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 4, text
    assert "not started: /nowhere: no such folder (data set full)" in text, text
    assert place.processes() == {}


@pytest.mark.slow
def test_inside_an_allocation(place, slurm):
    """C29: a step of the allocation that is there; one that is too small is refused."""
    site = place.slurm_site(fake="finish")
    command = ["salloc", "-Q", "-N2", "--exclusive", *place.command("train", "--config", "toy.yaml", "--site", site)]
    done = subprocess.run(
        command, cwd=place.folder, env=place.env, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "target reached" in done.stdout
    command = ["salloc", "-Q", "-N1", *place.command("train", "--config", "toy.yaml", "--site", site)]
    done = subprocess.run(
        command, cwd=place.folder, env=place.env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 4, done.stdout + done.stderr
    assert "has 1 nodes (node1), the site asks for 2" in done.stderr


def test_doctor(place, slurm):
    code, text = place.run("doctor", "--quick", "--config", "toy.yaml", "--site", place.slurm_site())
    assert code == 0, text
    assert "good   node1: dawnrun " in text and "good   node2: dawnrun " in text


def test_detached(place, slurm):
    """Submitted and left alone; logs and list show it, and it ends by itself."""
    site = place.slurm_site(fake="finish")
    code, text = place.run("train", "--config", "toy.yaml", "--site", site, "--detach")
    assert code == 0, text
    job = job_of(place)
    assert f"job {job} is submitted; follow it with: dawnrun jobs logs {place.run_dir.path} --follow" in text
    code, text = place.run("jobs", "list", "--run-root", "runs")
    assert code == 0 and f"{place.run_dir.path.name}  attempt 1" in text and f"job {job} of Slurm" in text
    code, text = place.run("jobs", "logs", str(place.run_dir.path), "--follow", "--rank", "1")
    assert code == 0 and "fake worker 1 of 2 started" in text
    assert summarize(place.run_dir).status == "finished"


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_lost_node_is_requeued(place, slurm):
    """Noticed after SlurmdTimeout (15 s here); the job waits in the queue until the node is back."""
    process = train(place, "endless")
    running(place)
    job = job_of(place)
    began = time.monotonic()
    place.hosts.kill(2)
    try:
        text, _ = process.communicate(timeout=120)
        print(f"MEASURED slurm host {time.monotonic() - began:.1f} s until the command ended")
        assert process.returncode == 75, text
        assert f"job {job} is back in the queue" in text, f"{slurm.state(job)}: {text[-600:]}"
        assert place.processes() == {}
    finally:
        slurm.ask("scancel", job)
        place.hosts.boot()
        slurm.start_node(2)
        wait_for(lambda: slurm.usable(), timeout_s=60, what="node2")


@pytest.mark.slow
def test_the_printed_script_run_by_hand(place, slurm):
    """--dry-run: what is printed gives the same job; nothing is submitted by it."""
    code, text = place.run("train", "--config", "toy.yaml", "--site", place.slurm_site(fake="finish"), "--dry-run")
    assert code == 0, text
    assert not any((place.folder / "runs").iterdir()) and not slurm.ask("squeue", "-h").strip()
    run, done = place.run_by_hand(text)
    assert done.returncode == 0, done.stderr
    job = done.stdout.strip().splitlines()[-1]
    wait_for(lambda: slurm.state(job) == "COMPLETED", what=f"the end of job {job}")
    assert f"JobName={run.name}" in slurm.ask("scontrol", "show", "job", job)
    assert summarize(RunDir(run)).status == "finished"


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_time_limit(place, slurm):
    """C30: warned before its end, the job saves and goes back into the queue."""
    process = train(place, "endless", slurm={"time_limit": "0:01:00", "warning_s": 30})
    running(place)
    job = job_of(place)
    text, _ = process.communicate(timeout=120)
    assert process.returncode == 75, text
    assert f"job {job} is back in the queue" in text, f"{slurm.state(job)}: {text[-600:]}"
    assert newest_checkpoint(place.run_dir.checkpoints) is not None
    assert json.loads((place.run_dir.attempt_dir(1) / "outcome.json").read_text())["reason"] == "preempted"


@pytest.mark.slow
def test_a_hang_under_slurm(place, slurm):
    """The order to print stacks goes through the file; each rank's position is printed."""
    process = train(place, "hang:1", hang_timeout_s=3)
    text, _ = process.communicate(timeout=100)
    assert process.returncode == 5, text
    assert "in wait_for_a_gradient_that_never_comes" in text.partition("rank 1, ")[2]
    assert place.processes() == {}
