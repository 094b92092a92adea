"""What is gathered of one attempt, one epoch, one phase while the events go by."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dawnrun.record.rows import Spent

Data = Mapping[str, Any]


@dataclass(kw_only=True, slots=True)
class AttemptFold:
    """One attempt: what it started with, how far it came, how it ended."""

    number: int
    started: Data = field(default_factory=dict)
    ends: Sequence[int] = ()
    steps_done: int = 0
    validated: set[int] = field(default_factory=set)
    finished: Data | None = None
    failure: Data | None = None
    launch_ended: Data | None = None
    first_utc: str = ""

    @property
    def first_step(self) -> int:
        """Steps done before it started."""
        return int(self.started.get("first_step", 0))

    @property
    def is_deferred(self) -> bool:
        """Whether the training did not stop to validate: results came later, some in a later attempt."""
        validation = self.started.get("recipe", {}).get("validation", {})
        return bool(self.started.get("site", {}).get("evaluators")) or validation.get("when") == "after"


@dataclass(kw_only=True, slots=True)
class EpochFold:
    """One epoch, over all attempts that trained a part of it."""

    planned_steps: int
    steps: int = 0
    images: int = 0
    window_s: float = 0.0
    loss_sum: float | None = 0.0
    last: Data = field(default_factory=dict)
    ended: Spent | None = None
    evaluation: Data | None = None
    validated_by: int = 1
    frozen: Spent | None = None
    known: Spent | None = None

    def add(self, data: Data) -> None:
        """Take a window of steps."""
        self.steps += data["step"] - data["first_step"]
        self.images += data["images"]
        self.window_s += data["window_s"]
        if self.loss_sum is not None:
            self.loss_sum = None if data["loss"] is None else self.loss_sum + data["loss"] * data["images"]
        self.last = data


@dataclass(kw_only=True, slots=True)
class PhaseFold:
    """One phase, over all attempts."""

    started: Data
    epochs: set[int] = field(default_factory=set)
    steps: int = 0
    images: int = 0
    window_s: float = 0.0
    input_wait_s: float = 0.0
    first_step_s: float | None = None

    def add(self, data: Data) -> None:
        """Take a window of steps."""
        self.epochs.add(data["epoch"])
        self.steps += data["step"] - data["first_step"]
        self.images += data["images"]
        self.window_s += data["window_s"]
        self.input_wait_s += data["input_wait_s"]
        if self.first_step_s is None:
            self.first_step_s = data.get("first_step_s")
