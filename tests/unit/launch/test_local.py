"""The commands that a job on this machine becomes."""

import sys
from pathlib import Path

import pytest

from dawnrun.launch.base import Job, JobStatus, LaunchPlan
from dawnrun.launch.local import LocalLauncher, clean_environment
from dawnrun.recipe.schema import Site


def plan(processes: int, **site: object) -> LaunchPlan:
    values = {"processes_per_node": processes, "threads_per_process": 3, **site}
    job = Job(
        folder=Path("/runs/toy-1/attempts/2"),
        logs=Path("/runs/toy-1/logs/2"),
        site=Site(**values),
        command=("-m", "dawnrun.train", "/runs/toy-1", "--attempt", "2"),
    )
    return LocalLauncher().plan(job)


def test_one_process_is_started_directly_under_the_guard():
    (command,) = plan(1).commands
    assert command[:3] == (sys.executable, "-m", "dawnrun.launch.guard")
    own = command[command.index("--") + 1 :]
    assert own == (sys.executable, "-u", "-m", "dawnrun.train", "/runs/toy-1", "--attempt", "2")
    assert command[command.index("--output") + 1] == "/runs/toy-1/logs/2/rank-000.log"
    assert command[command.index("--record") + 1] == "/runs/toy-1/attempts/2/node-0.json"


def test_more_processes_go_through_torchrun_at_an_address_that_needs_no_name():
    """C28: nothing looks a name up; C34: the run directory is in the command, made once by the launcher."""
    (command,) = plan(4).commands
    own = command[command.index("--") + 1 :]
    assert own[:4] == (sys.executable, "-u", "-m", "torch.distributed.run")
    assert own[-5:] == ("-m", "dawnrun.train", "/runs/toy-1", "--attempt", "2")
    for flag in (
        "--nnodes=1",
        "--nproc-per-node=4",
        "--max-restarts=0",
        "--rdzv-endpoint=127.0.0.1:0",
        "--local-addr=127.0.0.1",
        "--rdzv-id=toy-1-2",
        "--log-dir=/runs/toy-1/logs/2/torchrun",
    ):
        assert flag in own
    assert "is_host=true" in next(word for word in own if word.startswith("--rdzv-conf="))
    assert plan(4).env["GLOO_SOCKET_IFNAME"] == "lo"


def test_the_sites_variables_win():
    made = plan(1, env={"OMP_NUM_THREADS": "9", "MINE": "a b"})
    assert made.env["OMP_NUM_THREADS"] == "9"
    assert made.env["PYTHONUNBUFFERED"] == "1"
    assert "export MINE='a b'\n" in str(made)
    assert plan(1).env["OMP_NUM_THREADS"] == "3"
    # The worker chooses how its threads wait, unless the site or the user's own environment says it.
    assert "OMP_WAIT_POLICY" not in plan(1).env
    assert plan(1, env={"OMP_WAIT_POLICY": "ACTIVE"}).env["OMP_WAIT_POLICY"] == "ACTIVE"


def test_variables_of_an_outer_job_are_left_out():
    outer = {"RANK": "3", "WORLD_SIZE": "8", "PET_NNODES": "2", "TORCHELASTIC_RUN_ID": "x", "MASTER_ADDR": "h"}
    kept = {"PATH": "/bin", "RANKING": "1", "SLURM_JOB_ID": "7"}
    assert clean_environment({**outer, **kept}) == kept


def test_a_plan_reads_as_a_shell_script():
    made = LaunchPlan(
        commands=(("echo", "a b"), ("true",)), files={"f": "text\n"}, env={"A": "$x"}, notes=("on this machine",)
    )
    assert str(made) == "# on this machine\n# file f:\ntext\n# end of f\nexport A='$x'\necho 'a b'\ntrue\n"


def test_a_launcher_that_started_nothing_knows_nothing():
    launcher = LocalLauncher()
    assert launcher.status() is JobStatus.UNKNOWN
    launcher.cancel()
    launcher.close()


@pytest.mark.parametrize("processes", [1, 2])
def test_planning_is_pure(processes, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert str(plan(processes)) == str(plan(processes))
    assert list(tmp_path.iterdir()) == []
