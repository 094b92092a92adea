"""Thinning keeps the curve's extremes and its ends, in bounded memory."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dawnrun.record.progress import MAX_POINTS, Thinned


def thinned(losses, *, steps_per_epoch=1000, speeds=None):
    windows = Thinned()
    for step, loss in enumerate(losses):
        data = {
            "step": step + 1,
            "epoch": step // steps_per_epoch,
            "images": (speeds or {}).get(step, 100),
            "window_s": 1.0,
            "loss": loss,
            "lr": 0.1,
            "momentum": 0.9,
            "image_size": 64,
        }
        windows.add(float(step + 1), (step + 1) / steps_per_epoch, data)
    return windows


def test_a_short_curve_is_kept_whole():
    points = thinned([1.0, None, 3.0]).points()
    assert [(p.step, p.loss, p.training_s, p.images_per_second) for p in points] == [
        (1, 1.0, 1.0, 100),
        (2, None, 2.0, 100),
        (3, 3.0, 3.0, 100),
    ]
    assert points[0].loss_scale is None


@pytest.mark.parametrize("num_windows", [1999, 20_000])
def test_spikes_and_ends_survive(num_windows):
    losses = [2.0] * num_windows
    losses[1234], losses[777] = 50.0, 0.1
    points = thinned(losses, speeds={333: 1, 444: 999}).points()
    assert len(points) <= MAX_POINTS
    steps = [point.step for point in points]
    assert steps == sorted(set(steps))
    assert {778, 1235, 334, 445, 1000, num_windows} <= set(steps)


def test_many_epochs_are_bounded_too():
    points = thinned([1.0] * 30_000, steps_per_epoch=10).points()
    assert len(points) <= MAX_POINTS
    assert points[-1].step == 30_000


def test_memory_is_bounded():
    windows = thinned([1.0] * 46_070)  # 359 stretches of 128 windows, and 118 of the next
    assert sum(map(len, windows._buckets)) <= MAX_POINTS
    assert len(windows._buckets[-1]) <= 65


def test_windows_that_took_no_time_have_no_speed():
    windows = Thinned()
    windows.add(
        0.0,
        0.5,
        {**dict.fromkeys(("step", "epoch", "images", "lr", "momentum", "image_size"), 1), "window_s": 0, "loss": 1.0},
    )
    assert windows.points()[0].images_per_second == 0.0


@settings(max_examples=25, deadline=None)
@given(st.lists(st.none() | st.floats(-5, 5), max_size=40).map(lambda part: part * 100), st.integers(1, 500))
def test_the_extremes_are_those_of_the_whole_curve(losses, steps_per_epoch):
    points = thinned(losses, steps_per_epoch=steps_per_epoch).points()
    assert len(points) <= MAX_POINTS
    known = [loss for loss in losses if loss is not None]
    kept = [point.loss for point in points if point.loss is not None]
    assert (min(known, default=0), max(known, default=0)) == (min(kept, default=0), max(kept, default=0))
    assert [point.step for point in points[-1:]] == [len(losses)] * bool(losses)
