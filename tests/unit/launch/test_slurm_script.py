"""The batch script and what is asked of Slurm; a fake squeue answers."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from dawnrun.errors import LaunchError
from dawnrun.launch import queue
from dawnrun.launch.base import Job, JobStatus
from dawnrun.launch.batch import begin, free_port, meet
from dawnrun.launch.order import Order
from dawnrun.launch.queue import held_by, job_status
from dawnrun.launch.slurm import SlurmLauncher, order_of, script
from dawnrun.recipe.reader import read_text
from dawnrun.recipe.schema import Site
from dawnrun.record.rundir import RunDir

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "golden" / "job.sbatch"
SITE = """
launcher: {slurm: {partition: gpu, account: it's, time_limit: 3:00:00, cpus_per_node: 96, options: [--qos=a b],
  python: /env/bin/python, directory: /code}}
nodes: 16
processes_per_node: 8
device: cuda
"""


def job(run: Path = Path("/runs/fast-1"), site: str = SITE, attempt: int = 1) -> Job:
    return Job(
        folder=run / "attempts" / str(attempt),
        logs=run / "logs" / str(attempt),
        site=read_text(site, Site, source="site.yaml").value,
        command=("-m", "dawnrun.train", str(run), "--attempt", str(attempt)),
    )


def test_the_accepted_script():
    """C30: the warning's signal and lead time are asked for. `GOLDEN=1` writes the accepted text anew."""
    text = script(job())
    if os.environ.get("GOLDEN"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()
    assert "#SBATCH --signal=B:TERM@120" in text


def test_settings_of_the_script():
    text = script(
        job(site="launcher: {slurm: {requeue: false, signal: USR2, warning_s: 30}}\nprocesses_per_node: 1\ndevice: cpu")
    )
    assert "--gpus-per-node" not in text and "--exclusive" in text and "--no-requeue" in text
    assert "scontrol requeue" not in text
    assert "#SBATCH --signal=B:USR2@30" in text and "' USR2" in text


def fake_programs(folder: Path, **codes: int) -> dict[str, str]:
    for name, code in codes.items():
        (folder / name).write_text(
            f'#!/bin/sh\nfor word; do printf "%s\\n" "$word"; done > {folder}/{name}.words\nexit {code}\n'
        )
        (folder / name).chmod(0o755)
    return {
        "PATH": f"{folder}:/usr/bin:/bin",
        "PYTHONPATH": str(ROOT),
        "SLURM_JOB_ID": "12",
        "SLURM_JOB_NODELIST": "192.0.2.[1-2]",
    }


@pytest.mark.parametrize(("code", "attempt"), [(7, 1), (0, 1)])
def test_the_script_ends_with_the_code_of_srun(tmp_path, code, attempt):
    """C35: also in a folder whose name a shell would take apart."""
    run = tmp_path / 'it\'s $HOME "run"'
    (run / "attempts" / "1").mkdir(parents=True)
    site = f"launcher: {{slurm: {{python: {sys.executable}}}}}\nnodes: 2\nprocesses_per_node: 1\ndevice: cpu"
    (tmp_path / "bin").mkdir()
    environment = fake_programs(tmp_path / "bin", srun=code, squeue=0, scontrol=1)
    the_job = job(run, site)
    (run / "attempts" / "1" / "order.json").write_text(order_of(the_job, {}).text())
    (run / "attempts" / "1" / "job.json").write_text("{}")
    done = subprocess.run(["bash", "-c", script(the_job)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    words = (tmp_path / "bin" / "srun.words").read_text().splitlines()
    assert words[-2:] == ["--order", f"{run}/attempts/1/order.json"]
    assert f"--output={str(run).replace('%', '%%')}/logs/1/srun-%t.log" in words
    order = (run / "attempts" / "1" / "order.json").read_text()
    assert '"address": "192.0.2.1", "port": 20012' in order


def test_a_requeued_job_is_the_next_attempt(tmp_path):
    """Another number, another rendezvous, the same recipe: never two agents of different attempts in one store."""
    run = RunDir(tmp_path)
    folder = run.attempt_dir(1)
    folder.mkdir(parents=True)
    (folder / "order.json").write_text(order_of(job(tmp_path), {}).text())
    for name in ("resolved.yaml", "site.yaml", "job.json"):
        (folder / name).write_text(name)
    environment = {"SLURM_JOB_ID": "12", "SLURM_JOB_NODELIST": ",".join(f"192.0.2.{n}" for n in range(1, 17))}
    assert begin(run, 1, environment) == 1
    first = (folder / "order.json").read_text()
    assert begin(run, 1, {**environment, "SLURM_RESTART_COUNT": "1"}) == 2
    second = (run.attempt_dir(2) / "order.json").read_text()
    assert '"--attempt", "1"]' in first and '"--attempt", "2"]' in second
    assert '"port": 20012' in first and '"port": 20013' in second
    assert f'"rendezvous": "{tmp_path.name}-1-12-0"' in first and f'"rendezvous": "{tmp_path.name}-2-12-1"' in second
    assert (run.attempt_dir(2) / "resolved.yaml").read_text() == "resolved.yaml"


def test_fewer_nodes_than_asked():
    """C29."""
    with pytest.raises(LaunchError, match=r"job 5 has 2 nodes \(n08, n09\), the site asks for 16"):
        meet(order_of(job(), {}), {"SLURM_JOB_ID": "5", "SLURM_JOB_NODELIST": "n[08-09]"})


def test_inside_an_allocation_it_is_a_step():
    """Decided by the allocation's variables; a lone task count starts nothing of the kind (C29)."""
    inside = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": ",".join(f"192.0.2.{n}" for n in range(1, 17))}
    launcher = SlurmLauncher(job().site.launcher.slurm, environment=inside)
    (command,) = launcher.plan(job()).commands
    assert command[:4] == ("srun", "--nodes=16", "--ntasks=16", "--ntasks-per-node=1")
    outside = SlurmLauncher(job().site.launcher.slurm, environment={"SLURM_NTASKS": "4"})
    assert outside.plan(job()).commands == (("sbatch", "--parsable", "/runs/fast-1/attempts/1/job.sh"),)


def test_an_order_reads_back():
    order = order_of(job(), {})
    import json

    assert Order.read(json.loads(order.text())) == order


@pytest.mark.parametrize(
    ("answer", "code", "error", "expected"),
    [
        ("PENDING\n", 0, "", JobStatus.QUEUED),
        ("RUNNING\n", 0, "", JobStatus.RUNNING),
        ("COMPLETED\n", 0, "", JobStatus.SUCCEEDED),
        ("NODE_FAIL\n", 0, "", JobStatus.FAILED),
        ("CANCELLED\n", 0, "", JobStatus.CANCELLED),
        ("", 1, "slurm_load_jobs error: Invalid job id specified", JobStatus.FAILED),
        ("", 1, "Unable to contact slurm controller", None),
    ],
)
def test_states_without_accounting(tmp_path, answer, code, error, expected):
    def squeue(words, **_):
        assert words[:4] == ["squeue", "-h", "-j", "3"]
        return SimpleNamespace(stdout=answer, returncode=code, stderr=error)

    assert job_status("3", tmp_path, squeue) is expected
    assert held_by(tmp_path) is None


def test_a_forgotten_job_that_ended_well(tmp_path):
    (tmp_path / "node-0.json").write_text('{"exit_code": 0}')
    forgotten = SimpleNamespace(stdout="", returncode=1, stderr="Invalid job id specified")
    assert job_status("3", tmp_path, lambda *_, **__: forgotten) is JobStatus.SUCCEEDED


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (["RUNNING", "COMPLETING", "PENDING"], "3"),
        (["RUNNING", "PREEMPTED", "PENDING"], "3"),
        (["COMPLETING", "CANCELLED"], None),
        (["FAILED"], None),
    ],
)
def test_a_job_that_slurm_still_ends_is_waited_for(tmp_path, monkeypatch, states, expected):
    """C30: after a preemption the job is COMPLETING before it is back in the queue."""
    (tmp_path / "job.json").write_text('{"slurm": "3"}')
    told = iter([state for state in states for _ in range(2)][1:])
    seen = [states[0]]

    def squeue(*_, **__):
        seen[0] = next(told, states[-1])
        return SimpleNamespace(stdout=f"{seen[0]}\n", returncode=0, stderr="")

    monkeypatch.setattr(queue, "job_status", lambda number, folder: job_status(number, folder, squeue))
    monkeypatch.setattr(queue.time, "sleep", lambda _: None)
    assert queue.requeued(tmp_path, gone_s=0.05) == expected


def test_a_taken_port():
    """The next one that is free; a store on a port that another job has would take part in that job in silence."""
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        assert free_port(port) > port
    assert free_port(port) == port
