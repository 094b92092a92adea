"""Mixup: shares that depend on no process, images and losses by hand."""

import numpy as np
import pytest
import torch

from dawnrun.recipe.method import Loss
from dawnrun.train.loss import mean_loss
from dawnrun.train.mixup import mixed_images, mixed_loss, mixup_share


def test_shares_are_drawn_from_beta_and_repeat() -> None:
    """Mean 1/2 and variance 1 / (4 (2 alpha + 1)); another seed, step or micro-batch gives another share."""
    shares = [mixup_share(0.2, seed=3, step=step, micro_batch=part) for step in range(500) for part in range(4)]
    assert len(set(shares)) > 1980 and all(0 <= share <= 1 for share in shares)
    assert np.mean(shares) == pytest.approx(0.5, abs=0.04)
    assert np.var(shares) == pytest.approx(1 / (4 * 1.4), rel=0.05)
    assert mixup_share(0.2, seed=3, step=7, micro_batch=1) == shares[7 * 4 + 1]
    assert mixup_share(0.2, seed=4, step=7, micro_batch=1) != shares[7 * 4 + 1]


def test_images_and_losses_by_hand() -> None:
    """Partners are counted from the ends; the loss equals that of the mixed labels, as it is linear in them."""
    images = torch.arange(3.0).view(3, 1, 1, 1)
    assert mixed_images(images, 0.75).flatten().tolist() == [0.5, 1.0, 1.5]
    logits, labels = torch.randn(3, 4, dtype=torch.float64), torch.tensor([2, 0, 1])
    targets = 0.75 * torch.eye(4)[labels] + 0.25 * torch.eye(4)[labels.flip(0)]
    by_hand = -(targets * logits.log_softmax(1)).sum(1).mean()
    ours = mixed_loss(lambda some: mean_loss(logits, some, Loss()), labels, 0.75)
    torch.testing.assert_close(ours, by_hand, rtol=1e-12, atol=0)
