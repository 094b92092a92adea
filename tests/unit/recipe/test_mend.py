"""One wrong value hides no other problem, and makes none up."""

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dawnrun.recipe.check import check_recipe
from dawnrun.recipe.mend import mended
from dawnrun.recipe.tree import parse

WRONG = """\
name: wrong
seed: many
phases:
  - {epochs: 2, image_size: 64, global_batch_size: 33, per_device_batch_size: 16}
  - {epochs: 1, image_size: 96, global_batch_size: 16, per_device_batch_size: 16, dataset: fll}
lr:
  - {epochs: [0, 1.5], start: 0.1, end: 0.2}
  - {epochs: [1, 2], start: 0.2, end: 0.01}
momentum: [{epochs: [2, 0], start: 0.9, end: 0.9}]
validation: {from_epoch: 9}
optimizer: {name: sgd, beta2: 0.9}
"""


def keys(found):
    return [re.search(r": ([a-z][^:]*): ", problem)[1] for problem in found]


def test_wrong_values_hide_no_problem_of_the_whole(problems):
    """A seed that is no number and a piece that runs backwards, beside six faults that only the whole shows."""
    assert keys(problems(WRONG)) == [
        "seed",
        "phases[0].global_batch_size",
        "phases[1].dataset",
        "lr[1].epochs",
        "lr[1].epochs",
        "momentum[0]",
        "validation.from_epoch",
        "optimizer.beta2",
    ]


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        # What an unknown length decides is left open: the curve's end, and the epochs there are to validate.
        ("epochs: 1\n", "epochs: one\n", ["phases[1].epochs"]),
        ("epochs: 1\n    ", "", ["phases[1].epochs"]),
        ("epochs: 1\n", "epoch: 1\n", ["phases[1].epochs", "phases[1].epoch"]),
        ("global_batch_size: 16", "global_batch_size: x", ["phases[1].global_batch_size"]),
        ("per_device_batch_size: 16}\n  -", "per_device_batch_size: x}\n  -", ["phases[0].per_device_batch_size"]),
        ("[1.5, 3]", "[1.5, x]", ["lr[1].epochs[1]"]),
        ("[0, 1.5]", "[1.5, 0]", ["lr[0]"]),
        ("start: 0.2", "start: x", ["lr[1].start"]),
        ("start: 0.1", "start: x, shape: exponential", ["lr[0].start"]),
        ("name: plain", "name: plain\ninput: {datasets: [small]}", ["input.datasets"]),
        ("name: plain", "name: plain\ndatasets: {small: s}\ninput: {datasets: {}}", ["datasets"]),
        ("name: plain", "name: plain\ninput: {data_sets: {full: s}}", ["input.data_sets"]),
        ("name: plain", "name: plain\noptimizer: {name: larz, trust_coefficient: 1}", ["optimizer.name"]),
        ("name: plain", "name: plain\nmomentum: {mirror: {low: 0.8, high: x}}", ["momentum.mirror.high"]),
        ("name: plain", "name: plain\nmodel: {num_classes: x}\ntarget: {top5: 93}", ["model.num_classes"]),
    ],
)  # fmt: skip
def test_a_wrong_value_makes_up_no_other_problem(problems, plain, old, new, found):
    assert old in plain
    assert keys(problems(plain.replace(old, new, 1))) == found


def test_phases_that_are_no_list(problems, plain):
    text = "name: plain\nphases: 3\n" + plain[plain.index("lr:") :].replace("[1.5, 3]", "[1, 3]")
    assert keys(problems(text)) == ["phases", "lr[1].epochs"]


def test_a_key_given_twice_hides_nothing_either(problems, plain):
    text = plain.replace("[1.5, 3]", "[1, 3]") + "seed: 1\nseed: 2\n"
    assert keys(problems(text)) == ["lr[1].epochs", "seed"]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_values_can_be_mended(plain, data):
    """Whatever is put in place of a few values, the rest is checked, and nothing is wrong with it."""
    values = parse(plain + "average: {half_life_steps: 9}\nmodel: {name: resnet50}\n", "r.yaml").value
    for _ in range(data.draw(st.integers(1, 4))):
        container = values
        while True:
            key = data.draw(st.sampled_from(list(container) if isinstance(container, dict) else range(len(container))))
            if not isinstance(container[key], dict | list) or not container[key] or data.draw(st.booleans()):
                break
            container = container[key]
        container[key] = data.draw(
            st.sampled_from(["x", None, [], {}, ["x"], {"x": "1", "y": "2"}, "-1", [{}], [["1"]]])
        )
    found = mended(values)
    assert found is not None
    assert check_recipe(*found) == []
