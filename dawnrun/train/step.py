"""One update: normalise, forward, backward, accumulate, update. No host-device synchronisation in here."""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from dawnrun.recipe.curve import bounds
from dawnrun.recipe.method import Optimizer
from dawnrun.recipe.schedule import StepPlan
from dawnrun.recipe.schema import Recipe
from dawnrun.train.aggregate import Aggregated
from dawnrun.train.average import MovingAverage
from dawnrun.train.execution import EAGER, Eager
from dawnrun.train.input import Batch
from dawnrun.train.large_batch import Number
from dawnrun.train.loss import LossFunction, mean_loss
from dawnrun.train.mixup import mixed_images, mixed_loss, mixup_share
from dawnrun.train.model import RunningStatistics
from dawnrun.train.optim import LossScale, clip_gradients_, shrink_weights_
from dawnrun.train.parts import StepParts, at_last_gradient
from dawnrun.train.precision import DTYPES


class Normalizer:
    """uint8 pixels to `(pixel - mean) / std`, N,3,H,W in channels-last memory, written into one buffer per shape."""

    def __init__(self, recipe: Recipe, precision: str, device: torch.device) -> None:
        """The only place that holds the mean and standard deviation of pixels."""
        self._dtype = DTYPES[precision]
        constants = torch.float64 if precision == "fp64" else torch.float32
        self._mean = torch.tensor(recipe.input.mean, dtype=constants, device=device).view(1, 3, 1, 1)
        self._scale = torch.tensor(recipe.input.std, dtype=constants, device=device).view(1, 3, 1, 1).reciprocal()
        self._buffers: dict[torch.Size, torch.Tensor] = {}

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        """Valid until the next call with the same shape."""
        out = self._buffers.get(images.shape)
        if out is None:
            out = torch.empty_like(images, dtype=self._dtype, memory_format=torch.channels_last)
            self._buffers[images.shape] = out
        torch.sub(images, self._mean, out=out)
        return out.mul_(self._scale)


def count_right(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """How many rows have the label's logit above all others: int64, of one element. Ties and NaN count against."""
    own = logits.gather(1, labels[:, None])
    return ((logits >= own).sum(1) == 1).sum()


@dataclass(kw_only=True, slots=True)
class TrainState:
    """Everything an update changes. `step` counts updates done."""

    model: Aggregated
    optimizer: torch.optim.Optimizer
    statistics: RunningStatistics
    loss_scale: LossScale | None
    average: MovingAverage | None = None
    step: int = 0

    @property
    def bare(self) -> nn.Module:
        """The model without any wrapper."""
        return self.model.bare


class Stepper:
    """Makes updates; `loss` is the mean loss over this process's images of the last update (on the device).

    Since the last window: `input_wait_s`, `top1_correct` (of this process's training images as they were seen, by the
    weights of the moment; on the device; None with mixup, whose images have two labels), and `parts` of a timed step.
    """

    def __init__(
        self,
        recipe: Recipe,
        precision: str,
        device: torch.device,
        *,
        rank: int = 0,
        world_size: int = 1,
        execution: Eager = EAGER,
        loss: LossFunction | None = None,
    ) -> None:
        """`precision`: resolved, not auto; `rank` and `world_size` number the micro-batches of a step.

        `loss`: as build_loss makes it; needed where the recipe imports one and steps are made.
        """
        self._seed, self._mixup_alpha = recipe.seed, recipe.input.mixup_alpha
        self._rank, self._world_size = rank, world_size
        self.normalize = Normalizer(recipe, precision, device)
        self._loss_of = loss or partial(mean_loss, loss=recipe.loss)
        self._divide_by, self._rule, self._highest_lr = recipe.loss.divide_by, recipe.optimizer, bounds(recipe.lr)[1]
        self._device_type, self._autocast = device.type, DTYPES[precision] if precision in ("bf16", "fp16") else None
        self._execution, self._apply = execution, execution.compiled(apply_gradients)
        self.loss = torch.zeros((), device=device)
        self.top1_correct = None if self._mixup_alpha is not None else torch.zeros((), dtype=torch.long, device=device)
        self.parts = StepParts(device)
        self.input_wait_s = 0.0

    @property
    def compiles(self) -> bool:
        """Whether the first pass with a shape compiles."""
        return self._execution.compiles

    def pass_alone(self, state: TrainState, batch: Batch, plan: StepPlan) -> None:
        """One forward and backward pass with no part in any step; gradients stay on this process."""
        with state.model.without_exchange():
            self._micro_batch(state, batch, plan, 0)

    def reset(self, state: TrainState) -> None:
        """As if no step had been made: gradients and counts are gone; what was compiled or captured stays."""
        self._execution.clear_gradients(state.optimizer)
        self.loss.zero_()
        if self.top1_correct is not None:
            self.top1_correct.zero_()
        self.input_wait_s = 0.0

    def autocast(self) -> torch.autocast | nullcontext[None]:
        """Half precision where the run uses it."""
        return torch.autocast(self._device_type, dtype=self._autocast) if self._autocast else nullcontext()

    def step(self, state: TrainState, batches: Iterator[Batch], plan: StepPlan, *, timed: bool = False) -> None:
        """Take `plan.accumulate_steps` batches and make one update with the plan's rate and momentum.

        `timed`: note how long its parts take.
        """
        self.parts.begin(timed=timed and self._execution.shows_parts)
        self.loss.zero_()
        self._execution.clear_gradients(state.optimizer)
        state.statistics.before_step(plan.accumulate_steps)
        for index in range(plan.accumulate_steps):
            batch = next(batches)
            self.input_wait_s += batch.wait_s
            self.parts.mark("input")
            with state.model.without_exchange() if index + 1 < plan.accumulate_steps else nullcontext():
                self._micro_batch(state, batch, plan, index * self._world_size + self._rank)
            state.statistics.after_micro_batch()
        state.statistics.after_step(plan.accumulate_steps)
        self.loss /= plan.accumulate_steps
        skipped = self._update(state, plan)
        state.step += 1
        if state.average is not None:
            state.average.update(state.step, skipped)
        self.parts.mark("update")

    def _micro_batch(self, state: TrainState, batch: Batch, plan: StepPlan, number: int) -> None:
        """Add the gradients of one; `number` counts them in the step, over all processes."""
        images, labels = self.normalize(batch.images), self._execution.labels(batch.labels)
        share = factor = None
        if self._mixup_alpha is not None:
            drawn = mixup_share(self._mixup_alpha, seed=self._seed, step=plan.step, micro_batch=number)
            share = self._execution.number("mixup_share", drawn)
        if self._divide_by is not None:
            factor = self._execution.number("loss_factor", plan.global_batch_size / self._divide_by)
        # BatchNorm has another momentum where a step is several micro-batches.
        key = ("micro-batch", images.shape, plan.accumulate_steps > 1)
        self._execution.run(key, lambda: self._forward_backward(state, images, labels, share, factor))

    def _forward_backward(
        self, state: TrainState, images: torch.Tensor, labels: torch.Tensor, share: Number | None, factor: Number | None
    ) -> None:
        """`images`: normalised; `share`: of each image itself in mixup; `factor`: on the loss."""
        if share is not None:
            images = mixed_images(images, share)
        with self.autocast():
            logits = state.model.forward(images)
        # fp16 and bf16 logits are widened: the softmax of 1,000 classes loses too much there.
        logits = logits if logits.dtype == torch.float64 else logits.float()
        if share is None:
            loss = self._loss_of(logits, labels)
        else:
            loss = mixed_loss(lambda labels: self._loss_of(logits, labels), labels, share)
        self.loss += loss.detach()
        if self.top1_correct is not None:
            self.top1_correct += count_right(logits.detach(), labels)
        if factor is not None:
            loss = loss * factor
        scaled = loss if state.loss_scale is None else loss * state.loss_scale.scale
        self.parts.mark("forward")
        self._backward(state, scaled)

    def _backward(self, state: TrainState, loss: torch.Tensor) -> None:
        """Gradients are sent while others are being computed; only what is left of that at the end counts as exchange."""
        if not (self.parts.is_on and state.model.exchanges):
            torch.autograd.backward(loss)
            self.parts.mark("backward")
            return
        with at_last_gradient(state.bare.parameters(), lambda: self.parts.mark("backward")):
            torch.autograd.backward(loss)
        self.parts.mark("exchange")

    def _update(self, state: TrainState, plan: StepPlan) -> torch.Tensor | None:
        """Gradients hold the sum over micro-batches of the mean over processes; a step with overflow is skipped.

        Returns 1.0 on the device for a step that was skipped, None where none ever is.
        """
        number = self._execution.number
        lr, momentum = number("lr", plan.lr), number("momentum", plan.momentum)
        for group in state.optimizer.param_groups:
            group["lr"], group["momentum"] = lr, momentum
        decay_share = None
        if self._rule.decoupled_weight_decay and self._highest_lr:
            decay_share = number("decay_share", plan.lr / self._highest_lr)
        key = ("update", plan.accumulate_steps)
        return self._execution.run(key, lambda: self._make_update(state, plan.accumulate_steps, decay_share))

    def _make_update(self, state: TrainState, accumulate_steps: int, decay_share: Number | None) -> torch.Tensor | None:
        """The same for every update with so many micro-batches."""
        gradients = [
            parameter.grad
            for group in state.optimizer.param_groups
            for parameter in group["params"]
            if parameter.grad is not None
        ]
        if state.loss_scale is None:
            if accumulate_steps > 1:
                torch._foreach_div_(gradients, accumulate_steps)
            self._apply(state.optimizer, gradients, self._rule, decay_share, None)
            return None
        overflow = state.loss_scale.unscale_(gradients, accumulate_steps)
        # The optimizers leave weights and momentum alone where this flag is 1: no read-back is needed.
        state.optimizer.found_inf = overflow  # type: ignore[attr-defined]
        self._apply(state.optimizer, gradients, self._rule, decay_share, overflow)
        state.loss_scale.update(overflow)
        return overflow


def apply_gradients(
    optimizer: torch.optim.Optimizer,
    gradients: list[torch.Tensor],
    rule: Optimizer,
    decay_share: Number | None,
    skipped: torch.Tensor | None,
) -> None:
    """Clip, decay apart from the gradient where the recipe does, and update."""
    clip_gradients_(gradients, rule)
    if decay_share is not None:
        shrink_weights_(optimizer, decay_share, skipped)
    optimizer.step()
