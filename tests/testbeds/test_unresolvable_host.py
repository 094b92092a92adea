"""Two processes on a machine whose own name resolves to nothing."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKER = """
import datetime, os, sys, torch
import torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=30))
total = torch.tensor([dist.get_rank() + 1])
dist.all_reduce(total)
open(f"{sys.argv[1]}/sum-{dist.get_rank()}", "w").write(str(total.item()))
dist.destroy_process_group()
"""
LAUNCH = """
import socket, sys, time
from pathlib import Path
from dawnrun.launch.base import Job, JobStatus
from dawnrun.launch.local import LocalLauncher
from dawnrun.recipe.schema import Site
try:
    socket.getaddrinfo(socket.gethostname(), 1)
    sys.exit("the host's name resolves after all")
except OSError:
    pass
folder = Path(sys.argv[1])
site = Site(processes_per_node=2, threads_per_process=1, device="cpu")
launcher = LocalLauncher()
launcher.submit(launcher.plan(Job(folder=folder, logs=folder, site=site, command=(f"{folder}/worker.py", str(folder)))))
while launcher.status() is JobStatus.RUNNING:
    time.sleep(0.1)
sys.exit(0 if launcher.status() is JobStatus.SUCCEEDED else 1)
"""


def test_two_processes_meet_at_an_address(tmp_path):
    """C28: torchrun and gloo are given 127.0.0.1 and the interface; no name is looked up."""
    if subprocess.run(["unshare", "--uts", "true"], capture_output=True, check=False).returncode:
        pytest.skip("unshare --uts is not allowed here")
    (tmp_path / "worker.py").write_text(WORKER)
    (tmp_path / "launch.py").write_text(LAUNCH)
    launch = [sys.executable, str(tmp_path / "launch.py"), str(tmp_path)]
    began = time.monotonic()
    done = subprocess.run(
        ["unshare", "--uts", "sh", "-c", 'hostname no-such-host-of-ours && exec "$0" "$@"', *launch],
        cwd=ROOT, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False,
        timeout=100,
    )  # fmt: skip
    log = tmp_path / "node-0.log"
    assert done.returncode == 0, done.stderr + (log.read_text() if log.exists() else "")
    assert [(tmp_path / f"sum-{rank}").read_text() for rank in range(2)] == ["3", "3"]
    assert time.monotonic() - began < 90
