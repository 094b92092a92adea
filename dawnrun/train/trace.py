"""A trace of some steps, by torch's profiler, for a trace viewer; what was asked for lies in the attempt's folder."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.profiler import profile

from dawnrun.errors import TrainError


def read_steps(path: Path) -> tuple[int, int] | None:
    """The first and the last step to be traced, from 1; None where none was asked for."""
    if not path.exists():
        return None
    asked = json.loads(path.read_text(encoding="utf-8"))
    return int(asked["first_step"]), int(asked["last_step"])


class Trace:
    """Traces steps `first` to `last`, from 1, into one file of Chrome's format, and says so."""

    def __init__(self, steps: tuple[int, int], folder: Path, tell: Callable[[str], None]) -> None:
        """`tell` is given the sentence for the report when the file is there."""
        self._first, self._last, self._folder, self._tell = *steps, folder, tell
        self._profile: profile | None = None
        self._began_at = self._reached = 0
        self._is_closed = False

    @contextmanager
    def around(self, step: int) -> Iterator[None]:
        """Make step number `step`, from 1, inside the block."""
        if self._profile is None and self._first <= step <= self._last:
            self._profile, self._began_at = profile(), step
            self._profile.start()
        yield
        self._reached = step
        if step == self._last:
            self.close()

    def close(self) -> None:
        """Write what was traced, also where the run ends before the last step that was asked for. TrainError: it cannot be."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._profile is None:
            self._tell(f"no step of --profile {self._first}:{self._last} was trained, so there is no trace")
            return
        if torch.accelerator.is_available():
            torch.accelerator.synchronize()
        traced, self._profile = self._profile, None
        traced.stop()
        name = f"trace-steps-{self._began_at}-{self._reached}.json.gz"
        try:
            traced.export_chrome_trace(str(self._folder / f".{name}"))
            (self._folder / f".{name}").replace(self._folder / name)
        except (OSError, RuntimeError) as error:
            raise TrainError(f"{self._folder / name}: the trace cannot be written: {error}") from error
        self._tell(
            f"profiled: steps {self._began_at} to {self._reached} were traced, which made them slower"
            f" (logs/{self._folder.name}/{name})"
        )
