"""Real trainer processes for tests: small data, a run directory, workers started as a launcher starts them."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from dawnrun.dataset.demo import write_demo
from dawnrun.recipe.dump import resolved_text
from dawnrun.recipe.reader import read_text
from dawnrun.recipe.schema import Recipe, Site
from dawnrun.record.rundir import RunDir

TINY = """
name: tiny
input:
  datasets: {full: tiny}
  decoder: vision
  mean: [118, 118, 118]
  std: [58, 58, 58]
phases:
  - {epochs: 2, image_size: 32, global_batch_size: 16, per_device_batch_size: 4, min_area_fraction: 0.3}
lr: 0.01
optimizer: {nesterov: true, weight_decay: 5e-4}
log_every_steps: 1
precision: fp32
"""


def tiny_data(root: Path, *, train_per_class: int = 2, val_per_class: int = 1) -> Path:
    """`root`/tiny: 30 classes; 60 training and 30 validation images by default."""
    write_demo(root / "tiny", train_per_class=train_per_class, val_per_class=val_per_class)
    return root


def make_run(
    root: Path,
    overrides: Sequence[str] = (),
    *,
    text: str = TINY,
    processes: int = 1,
    threads: int = 1,
    evaluators: int = 0,
) -> RunDir:
    """A run directory under `root`/runs for the data under `root`."""
    recipe = read_text(text, Recipe, list(overrides), source="tiny.yaml").value
    site = Site(
        processes_per_node=processes,
        device="cpu",
        threads_per_process=threads,
        evaluators=evaluators,
        data_root=root,
        run_root=root / "runs",
    )
    site.run_root.mkdir(exist_ok=True)
    return RunDir.create(
        site.run_root,
        name=recipe.name,
        recipe_text=text,
        resolved_text=resolved_text(recipe),
        site_text=resolved_text(site),
    )


def worker_command(run: RunDir, attempt: int, processes: int = 1) -> list[str]:
    """What a local launcher runs."""
    worker = ["-m", "dawnrun.train", str(run.path), "--attempt", str(attempt)]
    if processes == 1:
        return [sys.executable, *worker]
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", *worker]


def worker_environment() -> dict[str, str]:
    """This environment, with the package under test and one OpenMP thread."""
    path = str(Path(__file__).parent.parent)
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


def start(run: RunDir, processes: int = 1) -> tuple[int, int]:
    """Run one attempt to its end; its number and exit code."""
    attempt = run.new_attempt()
    done = subprocess.run(worker_command(run, attempt, processes), env=worker_environment(), timeout=110, check=False)
    return attempt, done.returncode


def log_text(run: RunDir, attempt: int, rank: int = 0) -> str:
    """What a worker printed."""
    return (run.logs / str(attempt) / f"rank-{rank:03d}.log").read_text()


def newest_weights(run: RunDir) -> dict[str, torch.Tensor]:
    """The model of the newest checkpoint."""
    path = sorted(run.checkpoints.glob("step-*"))[-1] / "model.pt"
    weights: dict[str, torch.Tensor] = torch.load(path, weights_only=True)
    return weights


def events(run: RunDir, attempt: int, kind: str) -> list[dict[str, Any]]:
    """`data` of one attempt's trainer events of a kind."""
    lines = (run.events_dir(attempt) / "trainer.jsonl").read_text().splitlines()
    return [line["data"] for line in map(json.loads, lines) if line["kind"] == kind]
