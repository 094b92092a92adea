"""Parameter groups, the optimizer, and the loss scale of fp16."""

import torch
from torch import nn

from dawnrun.recipe.schema import Optimizer


def parameter_groups(model: nn.Module, optimizer: Optimizer) -> list[dict[str, object]]:
    """Weights with decay first; then, unless `decay_batch_norm`, norm scales and all biases without."""
    decayed: list[nn.Parameter] = []
    bare: list[nn.Parameter] = []
    for parameter in model.parameters():
        (decayed if optimizer.decay_batch_norm or parameter.ndim > 1 else bare).append(parameter)
    groups: list[dict[str, object]] = [{"params": decayed, "weight_decay": optimizer.weight_decay}]
    if bare:
        groups.append({"params": bare, "weight_decay": 0.0})
    return groups


def build_optimizer(model: nn.Module, optimizer: Optimizer) -> torch.optim.Optimizer:
    """SGD in torch's fused form: one pass over the weights, and it skips a step by a flag on the device.

    Rate and momentum come from the StepPlan at every step; the values here only let torch build the optimizer.
    """
    return torch.optim.SGD(
        parameter_groups(model, optimizer), lr=0.1, momentum=0.9, nesterov=optimizer.nesterov, fused=True
    )


class LossScale:
    """The factor on the loss in fp16, kept on the device: doubled after 100 clean steps, halved on overflow, or fixed.

    `scale`, `growth_counter` and `skipped` are tensors of one element; reading them is left to the progress window.
    """

    growth_interval = 100
    initial = 65536.0

    def __init__(self, device: torch.device, value: float | str) -> None:
        """`value`: a fixed factor, or "dynamic"."""
        self.is_dynamic = isinstance(value, str)
        self.scale = torch.full((), self.initial if isinstance(value, str) else value, device=device)
        self.growth_counter = torch.zeros((), device=device)
        self.skipped = torch.zeros((), device=device)

    def unscale_(self, gradients: list[torch.Tensor], accumulate_steps: int) -> torch.Tensor:
        """Divide by scale and accumulation; returns 1.0 where any gradient is not finite, else 0.0 (on the device)."""
        torch._foreach_mul_(gradients, (self.scale * accumulate_steps).reciprocal())
        largest = torch.nn.utils.get_total_norm(gradients, norm_type=float("inf"))
        return (~largest.isfinite()).to(self.scale.dtype)

    def update(self, overflow: torch.Tensor) -> None:
        """Take note of a step that was made (0.0) or skipped (1.0)."""
        self.skipped += overflow
        if not self.is_dynamic:
            return
        self.growth_counter.add_(1).mul_(1 - overflow)
        grows = (self.growth_counter >= self.growth_interval).to(self.scale.dtype)
        self.scale.mul_(1 - 0.5 * overflow).mul_(1 + grows)
        self.growth_counter.mul_(1 - grows)

    def state(self) -> dict[str, torch.Tensor]:
        """What a checkpoint keeps."""
        return {"scale": self.scale.cpu(), "growth_counter": self.growth_counter.cpu(), "skipped": self.skipped.cpu()}

    def load(self, state: dict[str, torch.Tensor]) -> None:
        """Go on from a checkpoint's `state`."""
        for name, value in state.items():
            getattr(self, name).copy_(value)
