"""The rows that a summary is made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from dawnrun.clock import Rule, SpanKind, elapsed_s

Spent = Mapping[SpanKind, float]
PARTS = ("forward", "backward", "exchange", "update")
"""What a step is made of beside waiting for input, as `train.progress` has it (with `_s`)."""
Status = Literal["running", "finished", "failed", "preempted", "interrupted", "unknown"]


@dataclass(frozen=True, kw_only=True, slots=True)
class EpochRow:
    """One epoch trained. `epoch` counts from 1; accuracies in percent; None: not validated, or not valid.

    `attempt`: the one that validated it; 1 where none did. `train_top1`: on the training images, as they were cropped
    and while the weights changed; None where it was not counted. `known_step`: steps done when the result was known, more
    than `step` where the training had not waited for it.
    """

    epoch: int
    step: int
    phase_index: int
    image_size: int
    global_batch_size: int
    lr_last: float
    momentum_last: float
    train_loss: float | None
    images: int
    images_per_second: float | None
    spent: Spent
    known_spent: Spent | None
    top1: float | None
    top5: float | None
    top1_correct: int | None
    top5_correct: int | None
    num_val_images: int | None
    validation_loss: float | None
    validation: Mapping[str, Any] = field(default_factory=dict)
    attempt: int = 1
    train_top1: float | None = None
    known_step: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseRow:
    """One phase as it was run; `images_per_second` over its training time.

    `parts_s`: by name of PARTS, the seconds of its windows beyond waiting for input, divided in the proportions of each
    window's timed step; they cover `timed_steps`. `ranks`: how far apart processes were, empty for one process:
    `input_wait_s` and `own_s` (forward, backward, update) with the `least` and the `most` of any process, in seconds a
    step, and `slowest`, the rank with the most of `own_s` most often, in `slowest_share` of the steps.
    """

    phase_index: int
    first_epoch: int
    last_epoch: int
    image_size: int
    global_batch_size: int
    per_device_batch_size: int
    accumulate_steps: int
    steps: int
    images: int
    training_s: float
    images_per_second: float | None
    input_wait_s: float
    first_step_s: float | None
    parts_s: Mapping[str, float] = field(default_factory=dict)
    timed_steps: int = 0
    ranks: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgressPoint:
    """One window of steps: values at its last step, loss and speed over the window."""

    step: int
    epoch: float
    training_s: float
    loss: float | None
    lr: float
    momentum: float
    image_size: int
    images_per_second: float
    loss_scale: float | None
    train_top1: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Crossing:
    """The first validation that reached a threshold. `spent`: when its weights were frozen; `known_spent`: when seen."""

    name: Literal["target", "top5", "top1"]
    threshold: Mapping[str, float]
    epoch: int
    step: int
    top1: float
    top5: float
    spent: Spent
    known_spent: Spent

    def time_to_accuracy_s(self, rule: Rule) -> float:
        """Seconds to accuracy under a rule; mlperf and everything count until the result was known."""
        return elapsed_s(self.known_spent if rule in ("mlperf", "everything") else self.spent, rule)


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One start of the run. `lost_steps`: of the steps it made itself, those that a later attempt went back behind.

    `target`: accuracies in percent that its recipe asked for; None: its trainer never got so far as to say.
    """

    number: int
    first_step: int
    last_step: int
    started_utc: str
    ended: str
    world_size: int
    lost_steps: int
    gap_s: float
    idle_s: float
    changes: Mapping[str, tuple[Any, Any]]
    target: Mapping[str, float] | None = None
