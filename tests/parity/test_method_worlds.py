"""LARS, averaged weights, v1, blur, mixup and growing images: two processes and a resume change nothing."""

from pathlib import Path

import pytest
import torch
from worker_runs import make_run, start, tiny_data

from dawnrun.train.checkpoint import read_manifest

METHOD = """
name: method
input: {datasets: {full: tiny}, mean: [118, 118, 118], std: [58, 58, 58], last_batch: drop, mixup_alpha: 0.3}
phases:
  - {epochs: 4, image_size: 32, growth: {between: [1, 3], end: 48, step_px: 8}, global_batch_size: 28, per_device_batch_size: 14}
lr: [{epochs: [0, 1], start: 0.01, end: 0.2}, {epochs: [1, 4], start: 0.2, end: 0.02, shape: linear_cosine}]
momentum: {mirror: {low: 0.8, high: 0.95}}
model: {name: resnet50_v1, blur_pool: true, initialization: small_classifier}
loss: {name: binary_cross_entropy, label_smoothing: 0.1}
optimizer: {name: lars, trust_coefficient: 0.01, lr_in_momentum: true, nesterov: true, clip_gradient_norm: 5}
average: {half_life_steps: 3}
checkpoint: {keep: 9}
log_every_steps: 1
precision: fp64
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_data(tmp_path_factory.mktemp("method"), train_per_class=1)


def saved(run: Path) -> dict[str, torch.Tensor]:
    """Weights, averages and momenta of the newest checkpoint."""
    newest = max((run / "checkpoints").glob("step-*"))
    assert read_manifest(newest) is not None
    rest = torch.load(newest / "state.pt", weights_only=True)
    model = torch.load(newest / "model.pt", weights_only=True)
    momenta = {f"momentum {name}": slot["momentum_buffer"] for name, slot in rest["optimizer"].items()}
    averages = {f"average {name}": value for name, value in rest["average"].items()}
    return {**model, **averages, **momenta}


def trained(root: Path, processes: int) -> Path:
    run = make_run(root, text=METHOD, processes=processes)
    assert start(run, processes)[1] == 0
    return run.path


def compare(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor], within: float) -> None:
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        if value.is_floating_point():
            error = (ours[name] - value).norm() / value.norm().clamp_min(1e-9)
            assert error <= within, (name, float(error))


@pytest.mark.timeout(300)
@pytest.mark.slow
def test_two_processes_and_a_resume(root: Path) -> None:
    """Weights, momenta and averages after four steps; the average is not the weights."""
    run = trained(root, 1)
    one = saved(run)
    assert any(not torch.equal(one[name], one[f"average {name}"]) for name in one if f"average {name}" in one)
    compare(saved(trained(root, 2)), one, 1e-7)
    again = make_run(root, text=METHOD)
    (again.path / "checkpoints").mkdir(exist_ok=True)
    second = sorted((run / "checkpoints").glob("step-*"))[1]
    second.rename(again.path / "checkpoints" / second.name)
    assert start(again)[1] == 0
    compare(saved(again.path), one, 0.0)
