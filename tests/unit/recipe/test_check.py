"""Checks that need the whole recipe."""

import pytest

from dawnrun.recipe.check import check_recipe


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("momentum: 1", "r.yaml:11:11: momentum: must be below 1, not 1"),
        (
            "momentum: [{epochs: [0, 3], start: 0.9, end: 1.5}]",
            "r.yaml:11:46: momentum[0].end: must be below 1, not 1.5",
        ),
        (
            "momentum: [{epochs: [0, 2], start: 0, end: 0}]",
            "r.yaml:11:21: momentum[0].epochs: no piece covers epochs 2",
        ),
        ("input: {aspect_ratio: [2, 0.5]}", "r.yaml:11:23: input.aspect_ratio: [2, 0.5] is not a range"),
        ("input: {aspect_ratio: [0, 1]}", "r.yaml:11:23: input.aspect_ratio: [0, 1] is not a range"),
        ("input: {std: [1, 0, 1]}", "r.yaml:11:18: input.std[1]: must be above 0, not 0"),
        ("validation: {from_epoch: 4}", "r.yaml:11:26: validation.from_epoch: 4 is beyond the last epoch, 3"),
        (
            "{model: {num_classes: 5}, target: {top5: 93}}",
            "r.yaml:11:33: target.top5: with five classes or fewer every answer is among the top 5; ask for top1",
        ),
        ("input: {datasets: {}}", "phases[0].dataset: full is not in input.datasets\n    known: none"),
    ],
)
def test_what_is_wrong_with_the_whole(problems, plain, line, problem):
    """Each check, at its line."""
    text = plain + (line[1:-1].replace(", target", "\ntarget") if line.startswith("{") else line) + "\n"
    expected = problem.replace(":11:33: target", ":12:16: target")
    assert any(expected in found for found in problems(text)), problems(text)


def test_phases(problems, plain):
    """An unknown data set, a resize smaller than the crop, a batch that nothing can split."""
    text = plain.replace(
        "    image_size: 96\n", "    image_size: 96\n    dataset: fll\n    validation: {resize_px: 90}\n"
    )
    text = text.replace("global_batch_size: 16", "global_batch_size: 40")
    assert problems(text) == [
        "r.yaml:6:14: phases[1].dataset: fll is not in input.datasets\n    known: full\n    did you mean full?",
        "r.yaml:7:29: phases[1].validation.resize_px: 90 is smaller than the crop of 96 px that is taken from it",
        "r.yaml:8:24: phases[1].global_batch_size: 40 is not a multiple of per_device_batch_size, 16\n"
        "    nearest that is: 32 or 48",
    ]


def test_batch_smaller_than_one_device_takes(problems, plain):
    """The nearest batch is one device's."""
    assert problems(plain, ["phases[0].global_batch_size=8"])[0].endswith("nearest that is: 16")


def test_good_recipes_have_no_problems(recipe, plain):
    """Constant curves, no target, a target of top-1 with two classes, validation in the last epoch only."""
    assert check_recipe(recipe(plain)) == []
    assert check_recipe(recipe(plain, "lr=0.1", "momentum=0", "model.num_classes=2", "target.top1=75")) == []
    assert check_recipe(recipe(plain, "validation.from_epoch=3", "model.num_classes=6", "target.top5=93")) == []


def test_view_of_a_phase(recipe, plain):
    """Left out, the crop is the phase's and the resize floor(1.14 times it), without float error at 100."""
    views = [recipe(plain).phases[0].validation.resolved(size) for size in (64, 100, 224, 288)]
    assert [(view.image_size, view.resize_px) for view in views] == [(64, 72), (100, 114), (224, 255), (288, 328)]
    given = recipe(plain, "phases[0].validation={image_size: 80, resize_px: 81}").phases[0].validation
    assert given.resolved(64) == given


def test_one_small_image_is_too_little_for_batch_norm(problems, recipe, plain):
    """ResNet-50 fails in training there; a network of the user's own may not."""
    settings = ["phases[0].image_size=32", "phases[0].per_device_batch_size=1"]
    assert problems(plain, settings) == [
        "--set phases[0].per_device_batch_size=1: phases[0].per_device_batch_size: one image of 32 px leaves BatchNorm one"
        " value a channel, which has no variance\n    2 or more, or images of more than 32 px"
    ]
    assert check_recipe(recipe(plain, *settings, "phases[0].image_size=33")) == []
    assert check_recipe(recipe(plain, *settings, "model={import: 'a:b'}")) == []


@pytest.mark.parametrize("count", ["1e9", "99999999999999999999"])
def test_more_epochs_than_can_be_planned(problems, plain, count):
    """A plan has a row for each: it would fill the memory; and above 2^53 a constant curve had another end."""
    told = problems(plain, [f"phases[0].epochs={count}"])
    assert len(told) == 1
    assert "100,000 can be planned" in told[0]
