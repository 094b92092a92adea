"""Images that grow inside a phase, and curves that a recipe cannot have."""

import pytest

from dawnrun.recipe.schedule import Schedule

GROWING = """\
name: growing
input: {last_batch: drop, num_train_images: 70}
phases:
  - {epochs: 16, image_size: 160, growth: {between: [11, 13], end: 192, step_px: 32}, global_batch_size: 32, per_device_batch_size: 16}
lr: 0.1
"""


def test_sizes_of_every_epoch(recipe):
    """ffcv's 16 epochs: 160 until epoch 11, half-way (176, a tie: the even multiple) in epoch 12, 192 from 13 on."""
    value = recipe(GROWING)
    schedule = Schedule.compile(value, 70, 2)
    assert [epoch.image_size for epoch in schedule.epochs()] == [160] * 12 + [192] * 4
    assert value.image_sizes == ((160, 192),)
    assert {shape.image_size for shape in schedule.shapes()} == {160, 192}
    assert schedule.at(schedule.total_steps - 1).image_size == 192


def test_small_steps(recipe):
    """Nearest multiples of 4 px on a straight line from 88 to 176 over epochs 4 to 8; later phases count on."""
    text = GROWING.replace("160", "88").replace("[11, 13], end: 192, step_px: 32", "[4, 8], end: 176, step_px: 4")
    assert recipe(text).image_sizes == ((88, 112, 132, 152, 176),)  # 110 and 154 are ties


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("end: 192", "end: 180"), "end must be a multiple of step_px: 180 is not one of 32"),
        (("image_size: 160", "image_size: 150"), "r.yaml:4:30: phases[0].image_size: 150 is not a multiple of"),
        (("[11, 13]", "[13, 11]"), "between must be [first, last]"),
        (("lr: 0.1", "lr: {mirror: {low: 0.1, high: 0.2}}"), "lr.mirror: lr cannot follow itself"),
        (("lr: 0.1", "lr: 0.1\nmomentum: {mirror: {low: 0.9, high: 0.98}}"), "6:20: momentum.mirror: lr is the same"),
        (("lr: 0.1", "lr: 0.1\nmomentum: {mirror: {low: 0.9, high: 0.8}}"), "low must be below high"),
        (("lr: 0.1", "lr: 0.1\nmomentum: {mirror: {low: 0.9, high: 1}}"), "momentum.mirror.high: must be below 1"),
        (("lr: 0.1", "lr: [{epochs: [0, 16], start: -1, end: 0}]"), "5:31: lr[0].start: must be a number of 0 or more"),
        (("lr: 0.1", "lr: [{epochs: [0, 16], start: 1, end: 0, shape: cosin}]"), "did you mean cosine?"),
        (("lr: 0.1", "lr: [{epochs: [0, 15], start: 1, end: 0}]"), "no piece covers epochs 15 to 16"),
    ],
)
def test_problems_at_their_lines(problems, change, words):
    """Each names what is wrong."""
    assert any(words in problem for problem in problems(GROWING.replace(*change))), problems(GROWING.replace(*change))
