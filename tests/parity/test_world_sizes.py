"""The number of processes never changes the mathematics: accumulation on one process against 2 and 4 without."""

from pathlib import Path

import pytest
import torch
from worker_runs import events, log_text, make_run, newest_weights, start, tiny_data

BATCHES = ("phases[0].global_batch_size=28", "phases[0].per_device_batch_size=7", "input.last_batch=drop")
"""30 training images: one step an epoch."""
FP64 = ("precision=fp64", "phases[0].epochs=5", *BATCHES)


def trained(root: Path, processes: int, *overrides: str) -> tuple[dict[str, torch.Tensor], list[dict], list[dict]]:
    run = make_run(root, overrides, processes=processes)
    attempt, code = start(run, processes)
    assert code == 0, "\n".join(log_text(run, attempt, rank) for rank in range(processes))
    return newest_weights(run), events(run, attempt, "eval.finished"), events(run, attempt, "train.progress")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_data(tmp_path_factory.mktemp("worlds"), train_per_class=1)


@pytest.fixture(scope="module")
def single(root: Path) -> tuple[dict[str, torch.Tensor], list[dict]]:
    return trained(root, 1, *FP64)


@pytest.mark.parametrize("processes", [2, 4])
def test_fp64_weights_and_statistics_after_five_steps(root: Path, single: tuple, processes: int) -> None:
    """Relative L2 of every tensor at most 1e-9; BatchNorm over 7 images, as over 3 it amplifies rounding to 1e-9."""
    one, counts, windows = single
    other, other_counts, other_windows = trained(root, processes, *FP64)
    assert [w["top1_correct"] for w in other_windows] == [w["top1_correct"] for w in windows]
    assert all(w["exchange_s"] > 0 and 0 < w["ranks"]["own_s"]["least"] < w["window_s"] for w in other_windows)
    assert all(w["exchange_s"] == 0 and w["ranks"] is None for w in windows)
    assert other_counts[-1]["num_images"] == 30
    assert [e["top5_correct"] for e in other_counts] == [e["top5_correct"] for e in counts]
    for name, value in one.items():
        if value.is_floating_point():
            error = (other[name] - value).norm() / value.norm().clamp_min(1e-300)
            assert error <= 1e-9, (name, float(error))
        else:
            assert torch.equal(other[name], value), name
    assert int(one["bn1.num_batches_tracked"]) == 5


def test_fp32_weights_after_one_step(root: Path) -> None:
    """All weights together, relative L2 1e-6; the step must have moved them by more than that."""
    settings = ("phases[0].epochs=1", *BATCHES)
    one, *_ = trained(root, 1, *settings)
    four, *_ = trained(root, 4, *settings)
    names = [name for name in one if name.endswith((".weight", ".bias"))]
    a, b = (torch.cat([weights[name].double().reshape(-1) for name in names]) for weights in (one, four))
    assert (a - b).norm() / a.norm() <= 1e-6
    frozen, *_ = trained(root, 1, *settings, "lr=0")
    start_weights = torch.cat([frozen[name].double().reshape(-1) for name in names])
    assert (a - start_weights).norm() / a.norm() > 1e-4
