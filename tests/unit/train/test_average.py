"""The moving average of the weights, and the losses."""

import pytest
import torch
import torch.nn.functional as F

from dawnrun.recipe.method import Average, Loss
from dawnrun.train.average import MovingAverage
from dawnrun.train.loss import mean_loss


def net() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.BatchNorm2d(4)).double()


@pytest.mark.parametrize("every", [1, 3])
def test_closed_form(every: int) -> None:
    """average_n = d^n start + (1 - d) sum d^(n - i) x_i, d = 2^(-every / half-life), of weights and statistics alike."""
    model = net()
    average = MovingAverage(model, Average(half_life_steps=5, every_steps=every))
    decay = 2 ** (-every / 5)
    taken = [model[0].weight.detach().clone(), model[1].running_var.clone()]
    expected = [value.clone() for value in taken]
    for step in range(1, 10):
        with torch.no_grad():
            model[0].weight += step
            model[1].running_var += 0.5 * step
        average.update(step, torch.tensor(0.0) if step % 2 else None)
        if step % every == 0:
            now = (model[0].weight.detach(), model[1].running_var)
            expected = [decay * old + (1 - decay) * new for old, new in zip(expected, now, strict=True)]
    torch.testing.assert_close(average.model[0].weight, expected[0], rtol=1e-6, atol=0)
    torch.testing.assert_close(average.model[1].running_var, expected[1], rtol=1e-6, atol=0)
    assert not average.model[0].weight.requires_grad and model[0].weight.requires_grad


def test_a_skipped_update_is_not_taken_in() -> None:
    """Half-life 1: each update taken in halves the distance."""
    model = net()
    average = MovingAverage(model, Average(half_life_steps=1))
    with torch.no_grad():
        model[0].bias.fill_(8.0)
        average.model[0].bias.fill_(0.0)
    average.update(1, torch.tensor(1.0))
    assert average.model[0].bias.tolist() == [0.0] * 4
    average.update(2, torch.tensor(0.0))
    assert average.model[0].bias.tolist() == [4.0] * 4


def test_binary_cross_entropy() -> None:
    """By hand: -sum over classes of t log p + (1 - t) log(1 - p), mean over images, labels smoothed."""
    logits = torch.tensor([[0.3, -1.2, 2.0], [0.0, 0.5, -0.5]], dtype=torch.float64)
    labels = torch.tensor([2, 0])
    targets = torch.tensor([[0.03, 0.03, 0.94], [0.94, 0.03, 0.03]], dtype=torch.float64)
    p = 1 / (1 + (-logits).exp())
    by_hand = -(targets * p.log() + (1 - targets) * (1 - p).log()).sum(1).mean()
    ours = mean_loss(logits, labels, Loss(name="binary_cross_entropy", label_smoothing=0.09))
    torch.testing.assert_close(ours, by_hand, rtol=1e-12, atol=0)
    assert torch.equal(mean_loss(logits, labels, Loss()), F.cross_entropy(logits, labels))
