"""LARS, LAMB and decoupled decay against the written formulas, worked out in NumPy in float64."""

import numpy as np
import pytest
import torch

from dawnrun.recipe.method import Optimizer
from dawnrun.train.optim import build_optimizer, shrink_weights_

RATES = [(0.0, 0.9), (0.4, 0.9), (2.0, 0.95), (0.7, 0.85), (0.1, 0.0)]
"""Rate and momentum of five steps; the rate changes, so that where it enters matters."""


class Net(torch.nn.Module):
    """A weight with an ordinary norm, one of zeros, one that gets no gradient to speak of, and a bias."""

    def __init__(self) -> None:
        super().__init__()
        rng = np.random.default_rng(3)
        shapes = {"plain": (4, 3), "zeros": (3, 2), "still": (2, 2), "bias": (5,)}
        for name, shape in shapes.items():
            value = np.zeros(shape) if name == "zeros" else rng.normal(size=shape)
            self.register_parameter(name, torch.nn.Parameter(torch.from_numpy(value)))


def gradients(step: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(100 + step)
    values = {name: rng.normal(size=tuple(p.shape)) for name, p in Net().named_parameters()}
    return {**values, "still": np.zeros((2, 2))}


def trained(rule: Optimizer) -> dict[str, np.ndarray]:
    """Weights after the five steps by dawnrun."""
    net = Net()
    optimizer = build_optimizer(net, rule)
    for step, (lr, momentum) in enumerate(RATES):
        for name, value in gradients(step).items():
            net.get_parameter(name).grad = torch.from_numpy(value.copy())
        for group in optimizer.param_groups:
            group["lr"], group["momentum"] = lr, momentum
        shrink_weights_(optimizer, lr / 2.0, None)
        optimizer.step()
    return {name: p.detach().numpy() for name, p in net.named_parameters()}


def norm(x: np.ndarray) -> float:
    return float(np.sqrt((x**2).sum()))


def compare(ours: dict[str, np.ndarray], formula: dict[str, np.ndarray]) -> None:
    assert ours.keys() == formula.keys()
    for name, value in formula.items():
        np.testing.assert_allclose(ours[name], value, rtol=1e-10, atol=1e-14, err_msg=name)


@pytest.mark.parametrize("clip", [None, (1e-5, 0.004)])
@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("inside", [False, True])
def test_lars(inside: bool, nesterov: bool, clip: tuple[float, float] | None) -> None:
    """The trust ratio from the bare gradient, 1 for zero norms; biases have neither ratio nor decay."""
    eta, decay, epsilon = 0.01, 0.05, 1e-3
    weights = {name: p.detach().numpy().copy() for name, p in Net().named_parameters()}
    momenta = {name: np.zeros_like(w) for name, w in weights.items()}
    clipped = 0
    for step, (lr, m) in enumerate(RATES):
        for name, g in gradients(step).items():
            w = weights[name]
            ratio = 1.0
            if name != "bias":
                if norm(w) > 0 and norm(g) > 0:
                    ratio = eta * norm(w) / (norm(g) + decay * norm(w) + epsilon)
                    clipped += bool(clip) and ratio > clip[1]
                    ratio = min(max(ratio, clip[0]), clip[1]) if clip else ratio
                g = g + decay * w
            term = (lr if inside else 1.0) * ratio * g
            momenta[name] = m * momenta[name] + term
            update = m * momenta[name] + term if nesterov else momenta[name]
            weights[name] = w - (1.0 if inside else lr) * update
    assert clipped or not clip, "the clip must have been met"
    rule = Optimizer(
        name="lars", trust_coefficient=eta, weight_decay=decay, epsilon=epsilon, nesterov=nesterov,
        lr_in_momentum=inside, trust_clip=clip,
    )  # fmt: skip
    compare(trained(rule), weights)


@pytest.mark.parametrize("clip", [None, (0.0, 0.5)])
def test_lamb(clip: tuple[float, float] | None) -> None:
    """Adam's moments with both corrections; decay inside the update whose norm is taken; ratio 1 for zero norms."""
    decay, epsilon, beta2 = 0.05, 1e-6, 0.98
    weights = {name: p.detach().numpy().copy() for name, p in Net().named_parameters()}
    first = {name: np.zeros_like(w) for name, w in weights.items()}
    second = {name: np.zeros_like(w) for name, w in weights.items()}
    for step, (lr, beta1) in enumerate(RATES):
        for name, g in gradients(step).items():
            w = weights[name]
            first[name] = beta1 * first[name] + (1 - beta1) * g
            second[name] = beta2 * second[name] + (1 - beta2) * g * g
            corrected = second[name] / (1 - beta2 ** (step + 1))
            update = first[name] / (1 - beta1 ** (step + 1)) / (np.sqrt(corrected) + epsilon)
            ratio = 1.0
            if name != "bias":
                update = update + decay * w
                if norm(w) > 0 and norm(update) > 0:
                    ratio = norm(w) / norm(update)
                    ratio = min(max(ratio, clip[0]), clip[1]) if clip else ratio
            weights[name] = w - lr * ratio * update
    rule = Optimizer(name="lamb", weight_decay=decay, epsilon=epsilon, beta2=beta2, trust_clip=clip)
    compare(trained(rule), weights)


@pytest.mark.parametrize("nesterov", [False, True])
def test_sgd_with_the_rate_in_the_momentum(nesterov: bool) -> None:
    """v = m v + lr g; w -= v: differs from torch's where the rate changes."""
    weights = {name: p.detach().numpy().copy() for name, p in Net().named_parameters()}
    momenta = {name: np.zeros_like(w) for name, w in weights.items()}
    for step, (lr, m) in enumerate(RATES):
        for name, g in gradients(step).items():
            term = lr * (g + (0.05 * weights[name] if name != "bias" else 0))
            momenta[name] = m * momenta[name] + term
            weights[name] = weights[name] - (m * momenta[name] + term if nesterov else momenta[name])
    ours = trained(Optimizer(weight_decay=0.05, nesterov=nesterov, lr_in_momentum=True))
    compare(ours, weights)
    outside = trained(Optimizer(weight_decay=0.05, nesterov=nesterov))
    assert not np.allclose(ours["plain"], outside["plain"])


def test_decoupled_decay() -> None:
    """w *= 1 - decay * lr / highest lr, then SGD without decay; norms and biases do not shrink."""
    weights = {name: p.detach().numpy().copy() for name, p in Net().named_parameters()}
    momenta = {name: np.zeros_like(w) for name, w in weights.items()}
    for step, (lr, m) in enumerate(RATES):
        for name, g in gradients(step).items():
            w = weights[name] * (1 - 0.05 * lr / 2.0 if name != "bias" else 1)
            momenta[name] = m * momenta[name] + g
            weights[name] = w - lr * momenta[name]
    compare(trained(Optimizer(weight_decay=0.05, decoupled_weight_decay=True)), weights)


def test_lars_against_timm() -> None:
    """The same weights as timm's, where timm is installed; its trust ratio needs decay and has no clip."""
    timm = pytest.importorskip("timm.optim.lars")
    net, reference = Net(), Net()
    ours = build_optimizer(net, Optimizer(name="lars", trust_coefficient=0.01, weight_decay=0.05, epsilon=1e-8))
    matrices = [p for p in reference.parameters() if p.ndim > 1]
    theirs = timm.Lars(
        [{"params": matrices, "weight_decay": 0.05}, {"params": [reference.bias], "weight_decay": 0.0}],
        lr=0.1, momentum=0.9, trust_coeff=0.01, eps=1e-8,
    )  # fmt: skip
    for step in range(4):
        for name, value in gradients(step).items():
            net.get_parameter(name).grad = torch.from_numpy(value.copy())
            reference.get_parameter(name).grad = torch.from_numpy(value.copy())
        ours.step()
        theirs.step()
    for name, value in reference.named_parameters():
        torch.testing.assert_close(net.get_parameter(name), value, rtol=1e-10, atol=1e-14)


def test_lamb_against_timm() -> None:
    """The same weights as timm's without its clip of the whole gradient, where timm is installed."""
    timm = pytest.importorskip("timm.optim.lamb")
    net, reference = Net(), Net()
    ours = build_optimizer(net, Optimizer(name="lamb", weight_decay=0.05, epsilon=1e-6, beta2=0.98))
    matrices = [p for p in reference.parameters() if p.ndim > 1]
    theirs = timm.Lamb(
        [{"params": matrices, "weight_decay": 0.05}, {"params": [reference.bias], "weight_decay": 0.0}],
        lr=0.1, betas=(0.9, 0.98), eps=1e-6, max_grad_norm=None,
    )  # fmt: skip
    for step in range(4):
        for name, value in gradients(step).items():
            net.get_parameter(name).grad = torch.from_numpy(value.copy())
            reference.get_parameter(name).grad = torch.from_numpy(value.copy())
        ours.step()
        theirs.step()
    for name, value in reference.named_parameters():
        torch.testing.assert_close(net.get_parameter(name), value, rtol=1e-10, atol=1e-14)
