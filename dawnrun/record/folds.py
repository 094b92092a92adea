"""What is gathered of one attempt, one epoch, one phase while the events go by."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dawnrun.record.rows import PARTS, Spent

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
    top1_correct: int | None = 0
    last: Data = field(default_factory=dict)
    ended: Spent | None = None
    evaluation: Data | None = None
    validated_by: int = 1
    frozen: Spent | None = None
    known: Spent | None = None
    known_step: int | None = None

    def add(self, data: Data) -> None:
        """Take a window of steps."""
        self.steps += data["step"] - data["first_step"]
        self.images += data["images"]
        self.window_s += data["window_s"]
        if self.loss_sum is not None:
            self.loss_sum = None if data["loss"] is None else self.loss_sum + data["loss"] * data["images"]
        if self.top1_correct is not None:
            correct = data.get("top1_correct")
            self.top1_correct = None if correct is None else self.top1_correct + correct
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
    forward_s: float = 0.0
    backward_s: float = 0.0
    exchange_s: float = 0.0
    update_s: float = 0.0
    timed_steps: int = 0
    spread: "SpreadFold | None" = None

    def add(self, data: Data) -> None:
        """Take a window of steps."""
        steps = data["step"] - data["first_step"]
        self.epochs.add(data["epoch"])
        self.steps += steps
        self.images += data["images"]
        self.window_s += data["window_s"]
        self.input_wait_s += data["input_wait_s"]
        if self.first_step_s is None:
            self.first_step_s = data.get("first_step_s")
        forward_s = data.get("forward_s")
        if forward_s is not None:
            self._divide(data, steps, forward_s)
        ranks = data.get("ranks")
        if ranks is not None:
            self.spread = self.spread or SpreadFold()
            self.spread.add(ranks, steps)

    def _divide(self, data: Data, steps: int, forward_s: float) -> None:
        """The window's seconds beyond the input, in the proportions of the step that was timed."""
        backward_s, exchange_s, update_s = data["backward_s"], data["exchange_s"], data["update_s"]
        whole_s, busy_s = forward_s + backward_s + exchange_s + update_s, data["window_s"] - data["input_wait_s"]
        if whole_s <= 0 or busy_s <= 0:
            return
        self.timed_steps += steps
        scale = busy_s / whole_s
        self.forward_s += forward_s * scale
        self.backward_s += backward_s * scale
        self.exchange_s += exchange_s * scale
        self.update_s += update_s * scale

    def parts_s(self) -> dict[str, float]:
        """Seconds by name of PARTS; empty if no step was timed."""
        return {name: getattr(self, f"{name}_s") for name in PARTS} if self.timed_steps else {}


@dataclass(kw_only=True, slots=True)
class SpreadFold:
    """How far apart the processes of a phase were."""

    steps: int = 0
    own_steps: int = 0
    input_wait_s: list[float] = field(default_factory=lambda: [0.0, 0.0])
    own_s: list[float] = field(default_factory=lambda: [0.0, 0.0])
    slowest: dict[int, int] = field(default_factory=dict)

    def add(self, ranks: Data, steps: int) -> None:
        """Take a window: the input's seconds are those of all its steps, a process's own those of one."""
        self.steps += steps
        for place, end in enumerate(("least", "most")):
            self.input_wait_s[place] += ranks["input_wait_s"][end]
        own = ranks["own_s"]
        if own is None:
            return
        self.own_steps += steps
        for place, end in enumerate(("least", "most")):
            self.own_s[place] += own[end] * steps
        self.slowest[own["rank"]] = self.slowest.get(own["rank"], 0) + steps

    def per_step(self) -> dict[str, Any]:
        """As PhaseRow has it."""
        found: dict[str, Any] = {"input_wait_s": _ends(self.input_wait_s, self.steps)}
        if self.own_steps:
            slowest = max(self.slowest, key=lambda rank: (self.slowest[rank], -rank))
            found |= {"own_s": _ends(self.own_s, self.own_steps), "slowest": slowest}
            found["slowest_share"] = self.slowest[slowest] / self.own_steps
        return found


def _ends(sums: Sequence[float], steps: int) -> dict[str, float]:
    return {"least": sums[0] / steps, "most": sums[1] / steps}
