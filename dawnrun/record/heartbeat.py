"""Keeps a log alive while nothing else is written, so that a crash can be placed in time."""

import threading
from typing import Self

from dawnrun.record.events import QUIET_LIMIT_S, EventLog


class Heartbeat:
    """A thread that writes `beat` wherever a log was silent for `quiet_limit_s`."""

    def __init__(self, log: EventLog, quiet_limit_s: float = QUIET_LIMIT_S) -> None:
        """Start the thread."""
        self._log, self._quiet_limit_s = log, quiet_limit_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        # A look every fifth of the limit, and a beat after four: the silence ends before the fifth is over.
        while not self._stop.wait(self._quiet_limit_s / 5):
            self._log.beat(self._quiet_limit_s * 4 / 5)

    def close(self) -> None:
        """Stop and join the thread; call before the log is closed."""
        self._stop.set()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
