"""Steps that are skipped, weights that are left out, clipping."""

import pytest
import torch

from dawnrun.recipe.method import Optimizer
from dawnrun.train.optim import build_optimizer, clip_gradients_, shrink_weights_

RULES = {
    "lars": Optimizer(name="lars", trust_coefficient=0.01),
    "lars inside": Optimizer(name="lars", trust_coefficient=0.01, lr_in_momentum=True, nesterov=True),
    "lamb": Optimizer(name="lamb", epsilon=1e-6),
    "sgd inside": Optimizer(lr_in_momentum=True),
    "torch's sgd": Optimizer(),
    "decoupled": Optimizer(decoupled_weight_decay=True),
}


def one_step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, value: float, skip: float) -> None:
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, value)
    optimizer.found_inf = torch.tensor(skip)
    shrink_weights_(optimizer, 0.5, optimizer.found_inf)
    optimizer.step()


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_a_skipped_step_changes_nothing(name: str, bad: float) -> None:
    """C24: weights, momenta and the count of updates stay bit for bit, at the first step and later."""
    torch.manual_seed(0)
    model, plain = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    plain.load_state_dict(model.state_dict())
    optimizer, reference = build_optimizer(model, RULES[name]), build_optimizer(plain, RULES[name])
    for value, skip in [(bad, 1.0), (0.5, 0.0), (bad, 1.0), (-0.25, 0.0)]:
        one_step(model, optimizer, value, skip)
        if not skip:
            one_step(plain, reference, value, skip)
        for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True):
            assert torch.equal(ours, theirs)
            for key, slot in reference.state[theirs].items():
                assert torch.equal(optimizer.state[ours][key], slot), key


def test_without_a_flag_the_result_is_the_same() -> None:
    """With and without a loss scale the arithmetic is the same."""
    for rule in RULES.values():
        torch.manual_seed(0)
        flagged, plain = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
        plain.load_state_dict(flagged.state_dict())
        one_step(flagged, build_optimizer(flagged, rule), 0.5, 0.0)
        optimizer = build_optimizer(plain, rule)
        for parameter in plain.parameters():
            parameter.grad = torch.full_like(parameter, 0.5)
        shrink_weights_(optimizer, 0.5, None)
        optimizer.step()
        for ours, theirs in zip(flagged.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=0)


def test_only_weights_adapt() -> None:
    """Norm scales and biases are in the group without trust ratio and decay."""
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.BatchNorm2d(4))
    adaptive, others = build_optimizer(model, RULES["lars"]).param_groups
    assert [p.ndim for p in adaptive["params"]] == [4] and adaptive["is_adaptive"] and adaptive["weight_decay"] == 1e-4
    assert [p.ndim for p in others["params"]] == [1, 1, 1] and not others["is_adaptive"] and not others["weight_decay"]


def test_clipping() -> None:
    """Values first, then the norm of all together; small gradients stay."""
    gradients = [torch.tensor([3.0, -9.0]), torch.tensor([4.0])]
    clip_gradients_(gradients, Optimizer(clip_gradient_value=5.0))
    assert [g.tolist() for g in gradients] == [[3.0, -5.0], [4.0]]
    clip_gradients_(gradients, Optimizer(clip_gradient_norm=50**0.5 / 10))
    torch.testing.assert_close(gradients[0], torch.tensor([0.3, -0.5]))
    torch.testing.assert_close(gradients[1], torch.tensor([0.4]))
    before = [g.clone() for g in gradients]
    clip_gradients_(gradients, Optimizer(clip_gradient_norm=100.0, clip_gradient_value=100.0))
    assert all(torch.equal(a, b) for a, b in zip(before, gradients, strict=True))
