"""A local run inside an allocation of Slurm's: its variables start nothing else."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
RECIPE = """\
name: toy
phases:
  - {epochs: 2, image_size: 64, global_batch_size: 32, per_device_batch_size: 16}
  - {epochs: 2, image_size: 96, global_batch_size: 16, per_device_batch_size: 8}
lr: 0.1
target: {top5: 93}
"""
VARIABLES = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-4]", "SLURM_NNODES": "4", "SLURM_NODEID": "2"}


def test_two_processes_with_only_the_job_s_variables(tmp_path):
    """C29."""
    (tmp_path / "toy.yaml").write_text(RECIPE)
    (tmp_path / "site.yaml").write_text("processes_per_node: 2\ndevice: cpu\nenv: {FAKE: finish}\n")
    for folder in (tmp_path / "data" / split / name for split in ("train", "val") for name in "abcdef"):
        folder.mkdir(parents=True)
        for number in range(8):
            shutil.copyfile(TESTS / "data/one_pixel.png", folder / f"{number}.png")
    env = {**os.environ, "PYTHONPATH": f"{TESTS.parent}{os.pathsep}{TESTS}", **VARIABLES}
    command = [sys.executable, str(TESTS / "fake_cli.py"), "train", "--config", "toy.yaml", "--site", "site.yaml"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "starting 2 processes" in done.stdout
