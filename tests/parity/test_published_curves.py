"""Rates of every step of ffcv's cyclic curve and of MLPerf's LARS schedule, and step counts of Google's pods.

The formulas are written here in whole numbers and fractions, apart from the curves of dawnrun.
"""

from fractions import Fraction

import pytest

from dawnrun.recipe.reader import read, read_text
from dawnrun.recipe.schedule import Schedule
from dawnrun.recipe.schema import Recipe

IMAGES = 1_281_167
RAMPS = {16: (11, 13), 24: (17, 20), 32: (23, 27), 40: (29, 34), 56: (41, 48), 88: (65, 76)}


@pytest.mark.parametrize("epochs", RAMPS)
def test_ffcv(epochs: int) -> None:
    """312 steps an epoch; 1e-4 of 1.7 to 1.7 at epoch 2, straight to 0; sizes: multiples of 32, ties to the even."""
    schedule = Schedule.compile(read(f"ffcv-rn50-{epochs}", Recipe).value, IMAGES, 8)
    assert schedule.total_steps == 312 * epochs
    peak, (first, last) = Fraction("1.7"), RAMPS[epochs]
    for plan in schedule.steps():
        at = Fraction(plan.step, 312)
        rate = peak / 10000 + (peak - peak / 10000) * at / 2 if at < 2 else peak * (epochs - at) / (epochs - 2)
        assert abs(plan.lr - rate) <= 1e-12 * peak
        assert plan.epoch == plan.step // 312 and plan.accumulate_steps == 1
        along = Fraction(min(max(plan.epoch, first), last) - first, last - first)
        assert plan.image_size == round(Fraction(160 + 32 * along, 32)) * 32


POINTS = {
    3264: ("10.5", 2, 37, "0.9", 14523),
    8192: ("17", 5, 44, "0.9", 6881),
    32768: ("21.2", 16, 58, "0.94", 2268),
    65536: ("24.699", 31, 89, "0.951807", 1740),
}


@pytest.mark.parametrize("batch", POINTS)
def test_mlperf_lars(batch: int) -> None:
    """Straight from 0 to the peak over w epochs, then peak - (peak - 1e-4) (1 - (1 - f)^2) to the last epoch."""
    peak_text, warm_up, epochs, momentum, steps = POINTS[batch]
    recipe = read(f"mlperf-lars-{batch}", Recipe).value
    schedule = Schedule.compile(recipe, IMAGES, 1)
    assert schedule.total_steps == steps == round(Fraction(epochs * IMAGES, batch))
    peak, end = Fraction(peak_text), Fraction("0.0001")
    for plan in schedule.steps():
        at = plan.epoch + Fraction(plan.step_in_epoch, plan.steps_in_epoch)
        left = (epochs - at) / (epochs - warm_up)
        rate = peak * at / warm_up if at < warm_up else end + (peak - end) * left * left
        assert abs(plan.lr - rate) <= 1e-12 * peak
        assert plan.momentum == float(momentum)
    assert recipe.optimizer.name == "lars" and recipe.optimizer.lr_in_momentum and recipe.optimizer.epsilon == 0


@pytest.mark.parametrize(("batch", "steps"), [(16384, 7116), (32768, 3558)])
def test_google_pods(batch: int, steps: int) -> None:
    """91 epochs in which batches cross from one epoch to the next (tensorflow/tpu, configs/cloud)."""
    text = (
        f"name: pod\nphases: [{{epochs: 91, image_size: 224, global_batch_size: {batch}, per_device_batch_size: 32}}]\n"
    )
    recipe = read_text(f"{text}lr: 0.1\ninput: {{last_batch: continue}}\n", Recipe, source="pod").value
    assert Schedule.compile(recipe, IMAGES, batch // 32).total_steps == steps


def test_huawei_momentum_mirrors_the_rate() -> None:
    """0.98 where the rate is 0.05, 0.90 where it is 8.5, straight in between, in all 2,048 steps."""
    schedule = Schedule.compile(read("huawei-10m28", Recipe).value, IMAGES, 128)
    plans = list(schedule.steps())
    assert len(plans) == 2048
    for plan in plans:
        assert plan.momentum == pytest.approx(0.98 - 0.08 * (plan.lr - 0.05) / 8.45, abs=1e-12)
    assert min(plans, key=lambda plan: plan.momentum).step == 204 and plans[-1].momentum == 0.98
