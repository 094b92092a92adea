"""The same run with DALI and with Pillow: the same images through the same windows, and an end that is as good."""

import importlib.util

import pytest
from cli_runs import Cli, sets, trainer_events

try:
    HAS_DALI = importlib.util.find_spec("nvidia.dali") is not None
except ModuleNotFoundError:
    HAS_DALI = False
pytestmark = pytest.mark.skipif(not HAS_DALI, reason="NVIDIA DALI is not installed (extra: dali-cuda12)")

LEARNS = (
    *("phases[0].epochs=4", "phases[0].global_batch_size=20", "phases[0].per_device_batch_size=20"),
    *("phases[0].min_area_fraction=0.9", "lr=0.004", "validation.from_epoch=4", "checkpoint.every_epochs=4"),
)


def losses(cli: Cli, decoder: str) -> list[float]:
    """Training loss of each step."""
    done = cli.train(*LEARNS, f"input.decoder={decoder}")
    assert done.returncode == 0, done.stdout + done.stderr
    started = trainer_events(cli.newest(), 1, "run.started")[0]["data"]
    assert started["decoder"] == decoder
    return [line["data"]["loss"] for line in trainer_events(cli.newest(), 1, "train.progress")]


def apart(one: list[float], other: list[float]) -> float:
    """Mean difference of two curves."""
    return sum(abs(a - b) for a, b in zip(one, other, strict=True)) / len(one)


def test_the_losses_are_alike(cli: Cli) -> None:
    """4 epochs of 60 images in 3 updates each. Two seeds differ by 0.085 in the first epoch, before much is learned."""
    pillow, dali = losses(cli, "vision"), losses(cli, "dali")
    assert len(pillow) == len(dali) == 12
    assert apart(pillow[:3], dali[:3]) < 0.03, (pillow, dali)  # observed: 0.008
    assert min(pillow[-3:]) < pillow[0] - 0.1 and min(dali[-3:]) < dali[0] - 0.1, "both have learned"
    assert abs(sum(pillow[-3:]) - sum(dali[-3:])) / 3 < 0.15, (pillow, dali)


@pytest.mark.slow
def test_the_demo_reaches_its_target_with_either(cli: Cli) -> None:
    """Minutes of training each: the target, and accuracies within 3 points of 300 images (two standard errors at 93 %)."""
    cli.run("data", "demo", "data/demo")
    top5 = {}
    for decoder in ("vision", "dali"):
        words = ("--config", "demo", "--data-root", "data", *sets((f"input.decoder={decoder}", "target.stop=false")))
        done = cli.run("train", *words, timeout=1700)
        assert done.returncode == 0, done.stdout + done.stderr
        last = trainer_events(cli.newest(), 1, "eval.finished")[-1]["data"]
        top5[decoder] = 100 * last["top5_correct"] / last["num_images"]
    print(top5)
    assert abs(top5["vision"] - top5["dali"]) <= 3
