"""Parts of a step that is timed, and which training images were right."""

import time

import pytest
import torch
from torch import nn

from dawnrun.train.parts import MEASURED, StepParts, at_last_gradient
from dawnrun.train.step import count_right


def test_every_moment_of_a_timed_step_belongs_to_one_part() -> None:
    """Marks of the same name add up, over micro-batches."""
    parts = StepParts(torch.device("cpu"))
    parts.begin(timed=True)
    began = time.perf_counter()
    for part, seconds in (("input", 0.01), ("forward", 0.02), ("input", 0.01), ("forward", 0.02), ("update", 0.005)):
        time.sleep(seconds)
        parts.mark(part)
    whole = time.perf_counter() - began
    found = parts.read()
    assert set(found) == {"input", *MEASURED}
    assert sum(found.values()) == pytest.approx(whole, abs=2e-3)
    assert found["input"] >= 0.02 and found["forward"] >= 0.04 and found["backward"] == 0.0


def test_steps_that_are_not_timed_and_other_devices_leave_nothing() -> None:
    """A device whose events are not known to measure time is not measured; what was read is gone."""
    parts = StepParts(torch.device("cpu"))
    parts.begin(timed=False)
    parts.mark("forward")
    assert parts.read() == {}
    parts.begin(timed=True)
    parts.mark("forward")
    assert parts.read() and parts.read() == {}
    elsewhere = StepParts(torch.device("mps"))
    elsewhere.begin(timed=True)
    elsewhere.mark("forward")
    assert elsewhere.read() == {}


def test_the_last_gradient_is_told_once_before_backward_returns() -> None:
    """Weights that are not trained are not waited for; no hook stays."""
    network = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 1))
    network[1].requires_grad_(False)
    there: list[bool] = []

    def then() -> None:
        there.append(all(weight.grad is not None for weight in network.parameters() if weight.requires_grad))

    with at_last_gradient(network.parameters(), then):
        network(torch.ones(2, 3)).sum().backward()
    assert there == [True]
    network(torch.ones(2, 3)).sum().backward()
    assert there == [True]


def test_right_is_a_label_above_all_others() -> None:
    """Ties and outputs that are not finite are wrong."""
    nan = float("nan")
    logits = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [nan, nan], [nan, 1.0], [1.0, nan]])
    assert count_right(logits[:2], torch.tensor([0, 0])).tolist() == 1
    assert count_right(logits[2:4], torch.tensor([0, 1])).tolist() == 0
    assert count_right(logits[4:], torch.tensor([0, 1])).tolist() == 0
