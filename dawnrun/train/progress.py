"""What happened since the last line of progress: sums on the device, read once a window."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from dawnrun.recipe.schedule import StepPlan
from dawnrun.record.events import Json
from dawnrun.train.parts import MEASURED, OWN, Part
from dawnrun.train.peers import Peers
from dawnrun.train.step import Stepper, TrainState


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """One window, the same on all processes but for the times."""

    fields: dict[str, Json]
    stop_asked: bool
    reached: bool
    diverged: bool
    bad_images: int


class Progress:
    """Adds up a window of steps. `flush` is the only place of the step loop where the host waits for the device."""

    def __init__(
        self,
        device: torch.device,
        peers: Peers,
        *,
        log_every_steps: int,
        max_consecutive_nonfinite: int,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`max_consecutive_nonfinite`: from how many on a window is `diverged`."""
        self._peers, self._now, self._every = peers, now, log_every_steps
        self._limit = max_consecutive_nonfinite
        self._loss_sum = torch.zeros((), device=device)
        self._nonfinite = torch.zeros((), device=device)
        self._run_length = torch.zeros((), device=device)
        self._longest = torch.zeros((), device=device)
        self._device = device
        # Counts of a window may go beyond what fp32 holds exactly; mps has nothing wider.
        self._dtype = torch.float32 if device.type == "mps" else torch.float64
        self._skipped_before = 0.0
        self._phase_index: int | None = None
        self.stop_asked = False
        self.reached = False
        self.start(0)

    def start(self, step: int) -> None:
        """Begin a window after `step` updates; time spent since the last flush belongs to none."""
        self._first_step, self._images, self._began = step, 0, self._now()

    def add(self, loss: torch.Tensor, plan: StepPlan) -> None:
        """Take note of one step, on the device."""
        finite = loss.isfinite()
        self._loss_sum += torch.where(finite, loss, 0.0)
        self._nonfinite += ~finite
        self._run_length.add_(1).mul_(~finite)
        torch.maximum(self._longest, self._run_length, out=self._longest)
        self._images += plan.global_batch_size

    def due(self, plan: StepPlan) -> bool:
        """Whether a window ends with this step: every so many, at an epoch's end, and after a phase's first step."""
        return (
            plan.ends_epoch or plan.phase_index != self._phase_index or plan.step + 1 - self._first_step >= self._every
        )

    def flush(self, state: TrainState, stepper: Stepper, plan: StepPlan, bad_images: int) -> Window:
        """Read the sums, exchange them, and begin the next window."""
        scale, parts = state.loss_scale, stepper.parts.read()
        sums, ranks = self._exchanged(stepper, parts, bad_images)
        loss_sum, nonfinite, diverged, top1_correct, stop, bad, reached = sums
        steps, world_size = state.step - self._first_step, self._peers.world_size
        finite = steps * world_size - nonfinite
        window_s = self._now() - self._began
        skipped = 0.0 if scale is None else float(scale.skipped)
        fields: dict[str, Json] = {
            "step": state.step,
            "first_step": self._first_step,
            "epoch": plan.epoch,
            "phase_index": plan.phase_index,
            "images": self._images,
            "window_s": window_s,
            "loss": loss_sum / finite if finite > 0 and math.isfinite(loss_sum) else None,
            "lr": plan.lr,
            "momentum": plan.momentum,
            "image_size": plan.image_size,
            "loss_scale": None if scale is None else float(scale.scale),
            "skipped_steps": round(skipped - self._skipped_before),
            "input_wait_s": stepper.input_wait_s,
            "nonfinite_steps": round(nonfinite),
            "top1_correct": None if stepper.top1_correct is None else round(top1_correct),
            **{f"{part}_s": round(parts[part], 6) if parts else None for part in MEASURED},
            "ranks": ranks,
        }
        if plan.phase_index != self._phase_index:
            fields["first_step_s"] = window_s / steps
        self._phase_index, self._skipped_before, stepper.input_wait_s = plan.phase_index, skipped, 0.0
        self._loss_sum.zero_()
        self._nonfinite.zero_()
        self._longest.zero_()
        if stepper.top1_correct is not None:
            stepper.top1_correct.zero_()
        self.start(state.step)
        return Window(
            fields=fields, stop_asked=stop > 0, reached=reached > 0, diverged=diverged > 0, bad_images=round(bad)
        )

    def _exchanged(
        self, stepper: Stepper, parts: Mapping[Part, float], bad_images: int
    ) -> tuple[list[float], dict[str, Json] | None]:
        """The window's sums over all processes, and how far apart these are, in one exchange.

        For the spread every process has places of its own in the sum, in which the others leave 0.
        """
        correct = self._nonfinite.new_zeros(()) if stepper.top1_correct is None else stepper.top1_correct
        counted = [self._loss_sum, self._nonfinite, self._longest >= self._limit, correct]
        told = [float(self.stop_asked), float(bad_images), float(self.reached)]
        waits, owns = [[0.0] * self._peers.world_size for _ in range(2)]
        waits[self._peers.rank] = stepper.input_wait_s
        owns[self._peers.rank] = sum(parts.get(part, 0.0) for part in OWN)
        on_device = torch.stack([value.to(self._dtype) for value in counted])
        from_host = torch.tensor([*told, *waits, *owns], dtype=self._dtype, device=self._device)
        values = self._peers.sum_(torch.cat([on_device, from_host])).tolist()
        num_sums = len(counted) + len(told)
        if self._peers.world_size == 1:
            return values[:num_sums], None
        waits, owns = values[num_sums : num_sums + len(waits)], values[num_sums + len(waits) :]
        return values[:num_sums], {"input_wait_s": _spread(waits), "own_s": _spread(owns) if parts else None}

    def resume(self, state: TrainState) -> None:
        """Begin counting after a checkpoint was loaded."""
        self._skipped_before = 0.0 if state.loss_scale is None else float(state.loss_scale.skipped)
        self.start(state.step)


def _spread(values: Sequence[float]) -> dict[str, Json]:
    """The least and the most of what processes have, and the first rank that has the most."""
    return {"least": round(min(values), 6), "most": round(max(values), 6), "rank": values.index(max(values))}
