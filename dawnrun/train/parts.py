"""How long the parts of one step took: moments noted while it is made, read when its window is over.

On an accelerator the moments are events in the device's own queue, so nothing waits for them until they are read;
on a CPU, which has done what it returned from, they are readings of the clock.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Literal

import torch
from torch import nn

Part = Literal["input", "forward", "backward", "exchange", "update"]
OWN: tuple[Part, ...] = ("forward", "backward", "update")
"""What a process does on its own: waiting for the others is not in them."""
MEASURED: tuple[Part, ...] = ("forward", "backward", "exchange", "update")
"""What is recorded; the input's part is what `Stepper.input_wait_s` counts in every step."""

_WITH_EVENTS = ("cuda", "xpu")
"""Accelerators whose events are known to measure time; on others nothing is measured."""


class StepParts:
    """Moments of the step that is timed. `mark` costs next to nothing in the others."""

    def __init__(self, device: torch.device) -> None:
        """`device`: where the step is computed."""
        self._device = device
        self._can = device.type == "cpu" or device.type in _WITH_EVENTS
        self._moments: list[tuple[Part, float | torch.Event]] = []
        self.is_on = False

    def begin(self, *, timed: bool) -> None:
        """A step begins; its moments are kept if it is timed."""
        self.is_on = timed and self._can
        if self.is_on:
            self._moments = [("input", self._now())]

    def mark(self, part: Part) -> None:
        """What was asked of the device since the mark before belongs to `part`."""
        if self.is_on:
            self._moments.append((part, self._now()))

    def _now(self) -> float | torch.Event:
        if self._device.type == "cpu":
            return time.perf_counter()
        event = torch.Event(self._device, enable_timing=True)
        event.record()
        return event

    def read(self) -> dict[Part, float]:
        """Seconds by part of the step that was timed last, each once; empty if none was. Waits until it is done."""
        moments, self._moments, self.is_on = self._moments, [], False
        if not moments:
            return {}
        seconds: dict[Part, float] = dict.fromkeys(("input", *MEASURED), 0.0)
        for (_, before), (part, after) in pairwise(moments):
            seconds[part] += _seconds_between(before, after)
        return seconds


def _seconds_between(before: float | torch.Event, after: float | torch.Event) -> float:
    if isinstance(before, torch.Event):
        assert isinstance(after, torch.Event)
        after.synchronize()
        return float(before.elapsed_time(after)) / 1000
    assert not isinstance(after, torch.Event)
    return after - before


@contextmanager
def at_last_gradient(parameters: Iterable[nn.Parameter], then: Callable[[], None]) -> Iterator[None]:
    """Calls `then` as soon as a backward pass inside has computed the gradient of each of `parameters` that is trained."""
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    left = len(trained)

    def count(_parameter: torch.Tensor) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            then()

    handles = [
        parameter.register_post_accumulate_grad_hook(count)  # type: ignore[no-untyped-call]
        for parameter in trained
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
