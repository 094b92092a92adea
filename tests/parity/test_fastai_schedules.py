"""Rates and step counts of fast.ai's four published schedules (September 2018), against a table of their code.

The table below is from diux-dev/imagenet18 (train.py, commit a61ced3): epochs, image size, images per GPU, rate at
the first and last epoch. Their rate after step k of n of epoch e in a piece that starts at epoch a and ends at
epoch b is start + (end - start) * ((e - a) * n + k + 1) / ((b - a) * n). It is worked out here in whole numbers.
"""

from fractions import Fraction

import pytest

from dawnrun.recipe.reader import read
from dawnrun.recipe.schedule import Schedule
from dawnrun.recipe.schema import Recipe

IMAGES = 1_281_167
STEPS = {8192: 157, 16384: 79, 24576: 53, 14336: 90, 7168: 179, 4096: 313, 1792: 715, 1024: 1252}
"""Steps of an epoch by global batch size: images over batch, rounded up."""

PIECES = {
    1: """
        0-7 128 512 1 2            7-13 128 512 2 0.25             13-22 224 224 0.4375 0.04375
        22-25 224 224 0.04375 0.004375  25-28 288 128 0.0025 0.00025""",
    4: """
        0-6 128 256 2 4            6-11 128 512 4 4                11-13 128 512 4 2
        13-16 224 224 1.75 1.75    16-24 224 224 1.75 0.175        24-28 224 224 0.175 0.0175
        28-30 288 128 0.01 0.001""",
    8: """
        0-6 128 128 1.92 3.84      6-11 128 256 3.84 3.84          11-14 128 256 3.84 1.92
        14-17 224 128 1.92 1.92    17-23 224 224 1.92 0.336        23-29 224 224 0.336 0.0336
        29-36 288 128 0.0192 0.00192""",
    16: """
        0-6 128 64 1.88 3.76       6-16 128 128 3.76 3.76          16-19 224 64 1.88 1.88
        19-31 224 192 0.564 0.564  31-37 224 192 0.0564 0.0564     37-38 288 128 0.0376 0.0376""",
}


def published_steps(machines: int):
    """(epoch, image size, global batch size, rate) of every step, from the table."""
    words = PIECES[machines].split()
    for epochs, px, per_gpu, start, end in zip(*(words[i::5] for i in range(5)), strict=True):
        first, last = map(int, epochs.split("-"))
        batch = int(per_gpu) * machines * 8
        steps = STEPS[batch]
        low, high = Fraction(start), Fraction(end)
        for epoch in range(first, last):
            for k in range(steps):
                along = Fraction((epoch - first) * steps + k + 1, (last - first) * steps)
                yield epoch, int(px), batch, low + (high - low) * along


@pytest.mark.parametrize("machines", sorted(PIECES))
def test_every_step(machines):
    """Every step's rate to 1e-12 relative, its epoch, image size and batch, and the number of steps."""
    document = read(f"fastai-{machines}x8", Recipe)
    schedule = Schedule.compile(document.value, IMAGES, machines * 8, document=document)
    published = list(published_steps(machines))
    planned = list(schedule.steps())
    assert len(planned) == len(published) == schedule.total_steps
    for plan, (epoch, image_size, batch, rate) in zip(planned, published, strict=True):
        assert (plan.epoch, plan.image_size, plan.global_batch_size) == (epoch, image_size, batch)
        assert abs(plan.lr - rate) <= 1e-12 * rate
        assert plan.momentum == 0.9 and plan.accumulate_steps == 1


@pytest.mark.parametrize(
    ("machines", "epochs", "steps"), [(1, 28, 16405), (4, 30, 4806), (8, 36, 4224), (16, 38, 3236)]
)
def test_totals(machines, epochs, steps):
    """Totals, added up by hand from the table."""
    recipe = read(f"fastai-{machines}x8", Recipe).value
    schedule = Schedule.compile(recipe, IMAGES, machines * 8)
    assert (schedule.total_epochs, schedule.total_steps) == (epochs, steps)
