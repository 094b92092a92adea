"""How long each part of the start took."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Startup:
    """Seconds by part, from the moment the worker was entered."""

    def __init__(self, imports_s: float) -> None:
        """`imports_s`: from the entry of the worker until torch and the trainer were imported."""
        self.seconds: dict[str, float] = {"imports_s": imports_s}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Add the block's seconds to part `name`."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began
