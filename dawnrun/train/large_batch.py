"""LARS and LAMB, and SGD with the rate inside the momentum: whole lists of weights at once, no read-back.

Both skip a step where `found_inf` is 1.0, on the device, as torch's fused optimizers do. Norms are taken in the
precision of the weights (fp32 in every run but fp64 ones), of gradients that are unscaled and summed over processes.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import torch

from dawnrun.recipe.method import Optimizer

Number = float | torch.Tensor
"""A rate, a momentum or a share: a number, or where a graph reads it from, a tensor of one element on the device."""
Tensors = list[torch.Tensor]


def trust_ratios(ratios: torch.Tensor, defined: torch.Tensor, clip: tuple[float, float] | None) -> Tensors:
    """One for each weight: 1 where a norm is zero, else cut to `clip`."""
    cut = ratios if clip is None else ratios.clamp(*clip)
    return list(torch.where(defined, cut, 1.0).unbind())


def norms(tensors: Tensors) -> torch.Tensor:
    """L2 norm of each tensor, one-dimensional."""
    return torch.stack(torch._foreach_norm(tensors))


class Skippable(torch.optim.Optimizer, ABC):
    """What LARS and LAMB share: the loop over groups, and a step that leaves everything as it was.

    `slots`: names of the tensors that are kept for each weight, zero at first.
    """

    slots: tuple[str, ...]

    def __init__(self, groups: Iterable[dict[str, Any]], rule: Optimizer) -> None:
        """`groups` as parameter_groups makes them; rate and momentum are set at every step."""
        super().__init__(groups, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.0, "is_adaptive": False})
        self._rule = rule
        self.found_inf: torch.Tensor | None = None
        # Made here, so that the first step does what the others do.
        for weight in (weight for group in self.param_groups for weight in group["params"]):
            self.state[weight] = {name: torch.zeros_like(weight) for name in self.slots}

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One update of every weight that has a gradient."""
        assert closure is None
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            if weights:
                self._update(weights, self._gradients(weights), group)

    @abstractmethod
    def _update(self, weights: Tensors, gradients: Tensors, group: dict[str, Any]) -> None:
        """Update the weights of one group in place; `gradients` may be changed too."""

    def _gradients(self, weights: Tensors) -> Tensors:
        """The gradients, zero in a skipped step so that no product in it is NaN."""
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        if self.found_inf is not None:
            for gradient in gradients:
                gradient.masked_fill_(self.found_inf > 0, 0)
        return gradients

    def _unless_skipped(self, value: Number, skipped: float) -> Number:
        """`value`, or `skipped` in a step that is skipped."""
        return value if self.found_inf is None else torch.where(self.found_inf > 0, skipped, value)

    def _slots(self, weights: Tensors, name: str) -> Tensors:
        """The optimizer's own tensors of this name."""
        return [self.state[weight][name] for weight in weights]


class Lars(Skippable):
    """SGD with momentum m and, in adaptive groups, LARS (You, Gitman and Ginsburg, 2017).

    g = gradient + decay w; r = trust_coefficient |w| / (|gradient| + decay |w| + epsilon), 1 if |w| or |gradient| is 0;
    v = m v + r g and w -= lr v, or with lr_in_momentum v = m v + lr r g and w -= v; Nesterov's form uses m v + (last
    term) in place of v. r is 1 in the groups of norms and biases.
    """

    slots = ("momentum_buffer",)

    def _update(self, weights: Tensors, gradients: Tensors, group: dict[str, Any]) -> None:
        rule, decay = self._rule, group["weight_decay"]
        lr, keep = self._unless_skipped(group["lr"], 0.0), self._unless_skipped(1.0, 0.0)
        momentum, buffers = self._unless_skipped(group["momentum"], 1.0), self._slots(weights, "momentum_buffer")
        ratios = self._ratios(weights, gradients, decay) if group["is_adaptive"] else None
        if decay:
            torch._foreach_add_(gradients, weights, alpha=decay)
        if ratios is not None:
            torch._foreach_mul_(gradients, ratios)
        inner, outer = (lr, keep) if rule.lr_in_momentum else (keep, lr)
        torch._foreach_mul_(gradients, inner)
        torch._foreach_mul_(buffers, momentum)
        torch._foreach_add_(buffers, gradients)
        update = torch._foreach_mul(buffers, momentum) if rule.nesterov else list(buffers)
        if rule.nesterov:
            torch._foreach_add_(update, gradients)
        torch._foreach_sub_(weights, torch._foreach_mul(update, outer))

    def _ratios(self, weights: Tensors, gradients: Tensors, decay: float) -> Tensors:
        """Trust ratio of each weight, from the gradient without decay."""
        rule, weight_norms, gradient_norms = self._rule, norms(weights), norms(gradients)
        assert rule.trust_coefficient is not None
        ratios = rule.trust_coefficient * weight_norms / (gradient_norms + decay * weight_norms + rule.epsilon)
        return trust_ratios(ratios, (weight_norms > 0) & (gradient_norms > 0), rule.trust_clip)


class Lamb(Skippable):
    """LAMB (You et al., ICLR 2020), with momentum as beta1 and Adam's correction of both moments.

    m = beta1 m + (1 - beta1) g; s = beta2 s + (1 - beta2) g^2; u = m' / (sqrt(s') + epsilon) + decay w, with
    m' = m / (1 - beta1^t), s' = s / (1 - beta2^t) after t updates; w -= lr r u, with r = |w| / |u|, 1 if either is 0 and
    in the groups of norms and biases.
    """

    slots = ("first_moment", "second_moment")

    def __init__(self, groups: Iterable[dict[str, Any]], rule: Optimizer) -> None:
        """Updates made so far are counted on the device, with each group's first weight."""
        super().__init__(groups, rule)
        for first in (group["params"][0] for group in self.param_groups if group["params"]):
            self.state[first]["num_updates"] = torch.zeros((), dtype=first.dtype, device=first.device)

    def _update(self, weights: Tensors, gradients: Tensors, group: dict[str, Any]) -> None:
        rule, first, second = self._rule, self._slots(weights, "first_moment"), self._slots(weights, "second_moment")
        count: torch.Tensor = self.state[group["params"][0]]["num_updates"]
        count += self._unless_skipped(1.0, 0.0)
        beta1, beta2 = group["momentum"], rule.beta2
        self._blend(first, gradients, beta1)
        self._blend(second, torch._foreach_mul(gradients, gradients), beta2)
        # A first step that is skipped has no update to correct yet.
        updates = count.clamp(min=1.0)
        roots = torch._foreach_div(second, 1 - beta2**updates)
        torch._foreach_sqrt_(roots)
        torch._foreach_add_(roots, rule.epsilon)
        update = list(torch._foreach_div(first, 1 - beta1**updates))
        torch._foreach_div_(update, roots)
        if group["weight_decay"]:
            torch._foreach_add_(update, weights, alpha=group["weight_decay"])
        if group["is_adaptive"]:
            weight_norms, update_norms = norms(weights), norms(update)
            ratios = trust_ratios(weight_norms / update_norms, (weight_norms > 0) & (update_norms > 0), rule.trust_clip)
            torch._foreach_mul_(update, ratios)
        torch._foreach_mul_(update, self._unless_skipped(group["lr"], 0.0))
        torch._foreach_sub_(weights, update)

    def _blend(self, moments: Tensors, values: Iterable[torch.Tensor], beta: Number) -> None:
        """Moment = beta moment + (1 - beta) value, or as it was."""
        torch._foreach_mul_(moments, self._unless_skipped(beta, 1.0))
        torch._foreach_add_(moments, torch._foreach_mul(list(values), self._unless_skipped(1 - beta, 0.0)))
