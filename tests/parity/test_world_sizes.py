"""The number of processes never changes the mathematics: accumulation on one process against 2 and 4 without."""

from pathlib import Path

import pytest
import torch
from worker_runs import events, log_text, make_run, newest_weights, start, tiny_data


def trained(root: Path, processes: int, *overrides: str) -> tuple[dict[str, torch.Tensor], list[dict]]:
    run = make_run(root, overrides, processes=processes)
    attempt, code = start(run, processes)
    assert code == 0, "\n".join(log_text(run, attempt, rank) for rank in range(processes))
    return newest_weights(run), events(run, attempt, "eval.finished")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_data(tmp_path_factory.mktemp("worlds"))


def test_fp64_weights_and_statistics_after_five_steps(root: Path) -> None:
    """60 images in batches of 16: four steps an epoch, so five steps cross an epoch's end; 1e-9 per tensor."""
    settings = ("precision=fp64", "phases[0].epochs=1", "phases[0].global_batch_size=12", "input.last_batch=drop")
    settings = (*settings, "phases[0].per_device_batch_size=3")
    one, counts = trained(root, 1, *settings)
    for processes in (2, 4):
        other, other_counts = trained(root, processes, *settings)
        assert other_counts[-1]["num_images"] == 30
        assert [e["top5_correct"] for e in other_counts] == [e["top5_correct"] for e in counts]
        for name, value in one.items():
            if value.is_floating_point():
                error = (other[name] - value).norm() / value.norm().clamp_min(1e-300)
                assert error <= 1e-9, (processes, name, float(error))
            else:
                assert torch.equal(other[name], value), name
    assert int(one["bn1.num_batches_tracked"]) == 5


def test_fp32_weights_after_one_step(root: Path) -> None:
    """All weights together, relative L2 1e-6; the step must have moved them by more than that."""
    settings = ("phases[0].epochs=1", "phases[0].global_batch_size=60", "phases[0].per_device_batch_size=15")
    one, _ = trained(root, 1, *settings)
    four, _ = trained(root, 4, *settings)
    names = [name for name in one if name.endswith((".weight", ".bias"))]
    a, b = (torch.cat([weights[name].double().reshape(-1) for name in names]) for weights in (one, four))
    assert (a - b).norm() / a.norm() <= 1e-6
    frozen, _ = trained(root, 1, *settings, "lr=0")
    start_weights = torch.cat([frozen[name].double().reshape(-1) for name in names])
    assert (a - start_weights).norm() / a.norm() > 1e-4
