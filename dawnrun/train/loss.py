"""The loss of a micro-batch: the recipe's, or the user's own."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from dawnrun.recipe.imported import a, called, refused, told
from dawnrun.recipe.method import Loss

LossFunction = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Logits N,C in fp32 (fp64 in an fp64 run) and labels int64 N to a scalar: the mean over the images."""


def mean_loss(logits: torch.Tensor, labels: torch.Tensor, loss: Loss) -> torch.Tensor:
    """Mean over images of cross-entropy, or of binary cross-entropy summed over the classes; `logits`: N,C.

    Labels are smoothed to (1 - s) + s / C for the true class and s / C for the others.
    """
    if loss.name == "cross_entropy":
        return F.cross_entropy(logits, labels, label_smoothing=loss.label_smoothing)
    num_images, num_classes = logits.shape
    targets = torch.full_like(logits, loss.label_smoothing / num_classes)
    targets.scatter_(1, labels[:, None], 1 - loss.label_smoothing + loss.label_smoothing / num_classes)
    return F.binary_cross_entropy_with_logits(logits, targets, reduction="sum") / num_images


def build_loss(loss: Loss, *, num_classes: int, device: torch.device, dtype: torch.dtype) -> LossFunction:
    """The recipe's loss on `device`; `num_classes`: outputs of the network. RecipeError if an import gives none."""
    if loss.import_ is None:
        return partial(mean_loss, loss=loss)
    own = called("loss.import", loss.import_, num_classes=num_classes)
    if isinstance(own, nn.Module):
        own = own.to(device=device, dtype=dtype)
    if not callable(own):
        raise refused("loss.import", f"{loss.import_} returned {a(own)}, not a function of logits and labels")
    logits = torch.zeros(2, num_classes, device=device, dtype=dtype, requires_grad=True)
    try:
        value = own(logits, torch.zeros(2, dtype=torch.int64, device=device))
    except Exception as error:
        raise refused("loss.import", f"the loss of {loss.import_} failed on two images: {told(error)}") from error
    if not isinstance(value, torch.Tensor) or value.ndim or not value.requires_grad:
        what = f"a tensor of shape {list(value.shape)}" if isinstance(value, torch.Tensor) and value.ndim else a(value)
        message = f"the loss of {loss.import_} returned {what}, not the mean over the images with a gradient"
        raise refused("loss.import", message)
    made: LossFunction = own
    return made
