"""The clock of a run, and the rules that say which of its seconds count. Nothing else decides that."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Literal, get_args

SpanKind = Literal["initialise", "data_setup", "training", "validation", "checkpoint", "idle"]
Rule = Literal["dawnbench", "mlperf", "training", "everything"]
SPAN_KINDS: tuple[SpanKind, ...] = get_args(SpanKind)
RULES: tuple[Rule, ...] = get_args(Rule)

MLPERF_INITIALISE_LIMIT_S = 30 * 60.0
"""Initialisation beyond this counts under MLPerf's rule (mlcommons/training_policies, training_rules.adoc)."""


def elapsed_s(spent: Mapping[SpanKind, float], rule: Rule) -> float:
    """Seconds that count under `rule`, of seconds spent per kind; kinds left out were not spent.

    dawnbench: initialise + data_setup + training (README and issue 21 of stanford-futuredata/dawn-bench-entries);
    mlperf: all but idle and up to 30 minutes of initialise; training: training alone; everything: all.
    """
    part = {kind: spent.get(kind, 0.0) for kind in SPAN_KINDS}
    if rule == "dawnbench":
        return part["initialise"] + part["data_setup"] + part["training"]
    if rule == "mlperf":
        late = max(0.0, part["initialise"] - MLPERF_INITIALISE_LIMIT_S)
        return late + part["data_setup"] + part["training"] + part["validation"] + part["checkpoint"]
    if rule == "training":
        return part["training"]
    return sum(part.values())


def _nothing() -> None:
    """Stand-in where no device needs to be waited for."""


class Clock:
    """A monotonic clock cut into spans without gaps; one process of a run keeps it.

    `started` is a reading of `now`, `kind` what the clock runs in from there. `on_change(kind, t_s)` is told of
    every change, with `t_s` in seconds since `started`. `synchronize` waits for the devices before a reading.
    """

    def __init__(
        self,
        now: Callable[[], float] = time.perf_counter,
        synchronize: Callable[[], None] = _nothing,
        *,
        kind: SpanKind = "initialise",
        started: float | None = None,
        on_change: Callable[[SpanKind, float], None] | None = None,
    ) -> None:
        """Start running in `kind`."""
        self._now, self.synchronize, self._on_change = now, synchronize, on_change
        self._started = now() if started is None else started
        self._kind: SpanKind = kind
        self._since = self._started
        self._spent: dict[SpanKind, float] = dict.fromkeys(SPAN_KINDS, 0.0)
        if on_change:
            on_change(kind, 0.0)

    @property
    def kind(self) -> SpanKind:
        """The kind of span that runs now."""
        return self._kind

    def t_s(self) -> float:
        """Seconds since the clock started, without waiting for devices."""
        return self._now() - self._started

    def change(self, kind: SpanKind) -> None:
        """End the running span and go on in `kind`."""
        self.synchronize()
        now = self._now()
        self._spent[self._kind] += now - self._since
        self._kind, self._since = kind, now
        if self._on_change:
            self._on_change(kind, now - self._started)

    @contextmanager
    def span(self, kind: SpanKind) -> Iterator[None]:
        """Run in `kind` inside the block, then go on in the kind that ran before."""
        before = self._kind
        self.change(kind)
        try:
            yield
        finally:
            self.change(before)

    def spent(self) -> Mapping[SpanKind, float]:
        """Seconds per kind so far, the running span included."""
        spent = dict(self._spent)
        spent[self._kind] += self._now() - self._since
        return spent
