"""Mixup (Zhang et al., ICLR 2018): every image and its label mixed with another of its micro-batch."""

from collections.abc import Callable

import numpy as np
import torch

from dawnrun.train.large_batch import Number


def mixup_share(alpha: float, *, seed: int, step: int, micro_batch: int) -> float:
    """Share of an image itself, from Beta(alpha, alpha); one for a micro-batch, whatever process computes it."""
    generator = np.random.Generator(np.random.Philox(key=[seed, step], counter=micro_batch))
    return float(generator.beta(alpha, alpha))


def mixed_images(images: torch.Tensor, share: Number) -> torch.Tensor:
    """`share` of each image and the rest of its partner, the image as far from the batch's other end; N,C,H,W."""
    return images * share + images.flip(0) * (1 - share)


def mixed_loss(loss_of: Callable[[torch.Tensor], torch.Tensor], labels: torch.Tensor, share: Number) -> torch.Tensor:
    """The losses of both labels in the same shares."""
    return loss_of(labels) * share + loss_of(labels.flip(0)) * (1 - share)
