"""Parameter groups, torch's SGD against NumPy, and the loss scale against torch's own."""

import numpy as np
import pytest
import torch

from dawnrun.recipe.method import Optimizer
from dawnrun.train.optim import LossScale, build_optimizer, parameter_groups


def small() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))


def test_norm_and_bias_are_left_out_of_the_decay() -> None:
    groups = parameter_groups(small(), Optimizer(weight_decay=0.5))
    assert [(len(group["params"]), group["weight_decay"]) for group in groups] == [(2, 0.5), (4, 0.0)]
    assert all(parameter.ndim > 1 for parameter in groups[0]["params"])


def test_decay_of_everything_when_asked() -> None:
    groups = parameter_groups(small(), Optimizer(weight_decay=0.5, decay_batch_norm=True))
    assert [len(group["params"]) for group in groups] == [6]


@pytest.mark.parametrize("nesterov", [False, True])
def test_update_equals_the_written_formula(nesterov: bool) -> None:
    """g = grad + decay * w; v = momentum * v + g; w -= lr * (g + momentum * v if nesterov else v), in float64."""
    model = torch.nn.Linear(3, 2, bias=False).double()
    optimizer = build_optimizer(model, Optimizer(weight_decay=0.01, nesterov=nesterov))
    rng = np.random.default_rng(0)
    weight, velocity = model.weight.detach().numpy().copy(), np.zeros((2, 3))
    for lr, momentum in [(0.1, 0.9), (0.3, 0.5), (0.05, 0.95)]:
        gradient = rng.normal(size=(2, 3))
        for group in optimizer.param_groups:
            group["lr"], group["momentum"] = lr, momentum
        model.weight.grad = torch.from_numpy(gradient)
        optimizer.step()
        total = gradient + 0.01 * weight
        velocity = momentum * velocity + total
        weight -= lr * (total + momentum * velocity if nesterov else velocity)
        np.testing.assert_allclose(model.weight.detach().numpy(), weight, rtol=1e-12)


def test_a_step_with_overflow_changes_nothing_and_halves_the_scale() -> None:
    """C24: the step is skipped on the device, without a read-back, and counted."""
    model = torch.nn.Linear(2, 2, bias=False)
    optimizer, scale = build_optimizer(model, Optimizer()), LossScale(torch.device("cpu"), "dynamic")
    before = model.weight.detach().clone()
    model.weight.grad = torch.tensor([[1.0, float("inf")], [1.0, 1.0]])
    overflow = scale.unscale_([model.weight.grad], 1)
    optimizer.found_inf = overflow
    optimizer.step()
    scale.update(overflow)
    assert torch.equal(model.weight, before)
    assert (float(scale.scale), float(scale.skipped)) == (32768.0, 1.0)


def test_dynamic_scale_follows_torchs_grad_scaler() -> None:
    ours = LossScale(torch.device("cpu"), "dynamic")
    theirs = torch.amp.GradScaler("cpu", init_scale=65536.0, growth_interval=100)
    model = torch.nn.Linear(1, 1, bias=False)
    reference = torch.optim.SGD(model.parameters(), lr=0.0)
    for step in range(330):
        bad = step in (5, 6, 150)
        gradient = torch.tensor([[float("nan") if bad else 1.0]])
        theirs.scale(torch.zeros(()))  # creates its state on the first call
        model.weight.grad = gradient.clone()
        theirs.step(reference)
        theirs.update()
        ours.update(ours.unscale_([gradient.clone()], 1))
        assert float(ours.scale) == theirs.get_scale(), step
    assert float(ours.skipped) == 3


def test_fixed_scale_stays_and_unscaling_divides_by_the_accumulation_too() -> None:
    scale = LossScale(torch.device("cpu"), 1024.0)
    gradient = torch.full((2,), 4096.0)
    overflow = scale.unscale_([gradient], 2)
    scale.update(overflow)
    assert gradient.tolist() == [2.0, 2.0]
    assert float(scale.scale) == 1024.0


def test_state_goes_through_a_checkpoint() -> None:
    """C23: scale and growth counter come back."""
    scale = LossScale(torch.device("cpu"), "dynamic")
    for overflow in (0.0, 1.0, 0.0, 0.0):
        scale.update(torch.tensor(overflow))
    other = LossScale(torch.device("cpu"), "dynamic")
    other.load(scale.state())
    assert [float(other.scale), float(other.growth_counter), float(other.skipped)] == [32768.0, 2.0, 1.0]
