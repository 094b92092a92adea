"""What a run amounts to, computed from its events: the one thing every report and table reads."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from dawnrun.clock import Rule, SpanKind, elapsed_s

Spent = Mapping[SpanKind, float]
Status = Literal["running", "finished", "failed", "preempted", "interrupted", "unknown"]


@dataclass(frozen=True, kw_only=True, slots=True)
class EpochRow:
    """One epoch trained. `epoch` counts from 1; accuracies in percent; None: not validated, or not valid."""

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


@dataclass(frozen=True, kw_only=True, slots=True)
class PhaseRow:
    """One phase as it was run; `images_per_second` over its training time."""

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
    """One start of the run."""

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


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSummary:
    """Everything reports say about a run."""

    path: str
    run_id: str
    name: str
    status: Status
    reason: str
    recipe: Mapping[str, Any]
    site: Mapping[str, Any]
    started: Mapping[str, Any]
    startup_s: Mapping[str, float]
    total_epochs: int
    total_steps: int
    steps_done: int
    epochs: tuple[EpochRow, ...]
    phases: tuple[PhaseRow, ...]
    progress: tuple[ProgressPoint, ...]
    crossings: tuple[Crossing, ...]
    attempts: tuple[Attempt, ...]
    spent: Spent
    images_per_second: float | None
    input_wait_s: float
    skipped_steps: int
    bad_images: tuple[Mapping[str, Any], ...]
    checkpoints: tuple[Mapping[str, Any], ...]
    failures: tuple[Mapping[str, Any], ...]
    remarks: tuple[str, ...]

    def crossing(self, name: str = "target") -> Crossing | None:
        """The crossing of that name, or None."""
        return next((crossing for crossing in self.crossings if crossing.name == name), None)

    @property
    def nodes(self) -> int:
        """Machines of the run."""
        return int(self.site.get("nodes", 1))

    @property
    def usd_per_hour(self) -> float | None:
        """Price of all machines together in USD per hour; None if the site states none."""
        price = self.site.get("usd_per_node_hour")
        return None if price is None else float(price) * self.nodes

    def cost_to_accuracy_usd(self, rule: Rule = "dawnbench") -> float | None:
        """Time to the target under a rule times the price of all machines; None without crossing or price."""
        crossing, price = self.crossing(), self.usd_per_hour
        return None if crossing is None or price is None else crossing.time_to_accuracy_s(rule) / 3600 * price
