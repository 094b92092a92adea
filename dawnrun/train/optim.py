"""Parameter groups, the optimizer, and the loss scale of fp16."""

import torch
from torch import nn

from dawnrun.recipe.method import Optimizer
from dawnrun.train.large_batch import Lamb, Lars, Number


def parameter_groups(model: nn.Module, optimizer: Optimizer) -> list[dict[str, object]]:
    """Weights with decay first; then, unless `decay_batch_norm`, norm scales and all biases without."""
    decayed: list[nn.Parameter] = []
    bare: list[nn.Parameter] = []
    for parameter in model.parameters():
        (decayed if optimizer.decay_batch_norm or parameter.ndim > 1 else bare).append(parameter)
    groups: list[dict[str, object]] = [
        {
            "params": decayed,
            "weight_decay": 0.0 if optimizer.decoupled_weight_decay else optimizer.weight_decay,
            "decoupled_decay": optimizer.weight_decay if optimizer.decoupled_weight_decay else 0.0,
            "is_adaptive": optimizer.name != "sgd",
        }
    ]
    if bare:
        groups.append({"params": bare, "weight_decay": 0.0, "decoupled_decay": 0.0, "is_adaptive": False})
    return groups


def build_optimizer(
    model: nn.Module, optimizer: Optimizer, *, numbers_on_device: bool = False
) -> torch.optim.Optimizer:
    """The recipe's update rule; each skips a step where its `found_inf` is 1.0, by that flag on the device.

    Plain SGD is torch's in its fused form: one pass over the weights. Rate and momentum come from the StepPlan at every step;
    the values here only let torch build the optimizer. Where they are to be tensors (`numbers_on_device`) it is ours, as
    torch's takes the momentum as a number only; its state has the same names.
    """
    if optimizer.name == "lamb":
        return Lamb(parameter_groups(model, optimizer), optimizer)
    if optimizer.name == "lars" or optimizer.lr_in_momentum or numbers_on_device:
        return Lars(parameter_groups(model, optimizer), optimizer)
    sgd = torch.optim.SGD(
        parameter_groups(model, optimizer), lr=0.1, momentum=0.9, nesterov=optimizer.nesterov, fused=True
    )
    # torch's fused form allocates the momentum in the first step and leaves it as it finds it if that step is skipped.
    for parameter in model.parameters():
        sgd.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return sgd


@torch.no_grad()
def shrink_weights_(optimizer: torch.optim.Optimizer, share: Number, skipped: torch.Tensor | None) -> None:
    """Decoupled weight decay: w *= 1 - decay * `share` (lr / highest lr), unless the step is skipped."""
    for group in optimizer.param_groups:
        if group["decoupled_decay"]:
            factor = 1 - group["decoupled_decay"] * share
            torch._foreach_mul_(group["params"], factor if skipped is None else torch.where(skipped > 0, 1.0, factor))


def clip_gradients_(gradients: list[torch.Tensor], optimizer: Optimizer) -> None:
    """Cut each gradient to +- clip_gradient_value, then scale all down to clip_gradient_norm; no read-back."""
    if optimizer.clip_gradient_value is not None:
        torch._foreach_clamp_max_(gradients, optimizer.clip_gradient_value)
        torch._foreach_clamp_min_(gradients, -optimizer.clip_gradient_value)
    if optimizer.clip_gradient_norm is not None:
        norm = torch.nn.utils.get_total_norm(gradients)
        torch._foreach_mul_(gradients, (optimizer.clip_gradient_norm / norm).clamp(max=1.0))


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
        """What a checkpoint keeps: the tensors themselves."""
        return {"scale": self.scale, "growth_counter": self.growth_counter, "skipped": self.skipped}

    def load(self, state: dict[str, torch.Tensor]) -> None:
        """Go on from a checkpoint's `state`."""
        for name, value in state.items():
            getattr(self, name).copy_(value)
