"""A moving average of the weights (EMA), beside those that are trained."""

import copy

import torch
from torch import nn

from dawnrun.recipe.method import Average


class MovingAverage:
    """average += w (weights - average) after an update, w = 1 - 2^(-every_steps / half_life_steps).

    BatchNorm's running statistics are averaged alike. A skipped update leaves the average alone.
    """

    def __init__(self, model: nn.Module, settings: Average) -> None:
        """Starts as a copy of `model`, which must be on its device and without a wrapper."""
        self.model = copy.deepcopy(model).requires_grad_(False)
        self._trained, self._averaged = _values(model), _values(self.model)
        self._every_steps = settings.every_steps
        self._share = 1 - 2 ** (-settings.every_steps / settings.half_life_steps)

    @torch.no_grad()
    def update(self, step: int, skipped: torch.Tensor | None) -> None:
        """Take in update number `step`, from 1; `skipped`: 1.0 on the device where it was not made."""
        if step % self._every_steps:
            return
        share = self._share if skipped is None else torch.where(skipped > 0, 0.0, self._share)
        towards = torch._foreach_sub(self._trained, self._averaged)
        torch._foreach_mul_(towards, share)
        torch._foreach_add_(self._averaged, towards)


def _values(model: nn.Module) -> list[torch.Tensor]:
    """Everything that is averaged: weights, biases and statistics, but no counters."""
    tensors = [*model.parameters(), *(buffer for buffer in model.buffers() if buffer.is_floating_point())]
    return [tensor.detach() for tensor in tensors]
