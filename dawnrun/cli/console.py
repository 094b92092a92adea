"""What commands print through: rich consoles that stay plain when piped, and the progress of long work."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import Console

PIPED_WIDTH = 160
"""Columns of tables where there is no terminal; lines of text are never folded there."""

PLAIN_INTERVAL_S = 10.0


class Advance(Protocol):
    """Tells a progress display that more is done."""

    def __call__(self, number: int = 1, /) -> None:
        """`number` more are done."""


def is_terminal(stream: IO[str]) -> bool:
    """Whether someone is looking; a closed stream is none."""
    try:
        return stream.isatty()
    except ValueError:
        return False


def _console(stream: IO[str]) -> "Console":
    from rich.console import Console

    terminal = is_terminal(stream)
    return Console(
        file=stream,
        force_terminal=terminal,
        no_color=None if terminal else True,
        width=None if terminal else PIPED_WIDTH,
        # What is printed holds names and paths of the user's: never read them as markup.
        markup=False,
        highlight=False,
        emoji=False,
    )


def console() -> "Console":
    """A rich console on standard output: no colour, no control characters and a fixed width when it is piped."""
    return _console(sys.stdout)


def error_console() -> "Console":
    """The same on standard error."""
    return _console(sys.stderr)


@contextmanager
def progress(description: str, total: int) -> Iterator[Advance]:
    """Show on standard error how far long work has come: a bar on a terminal, else a line now and every 10 s.

    Yields a function that is called with the number of things done since the last call; any thread may call it.
    """
    if is_terminal(sys.stderr):
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        text = TextColumn("{task.description}", markup=False)
        with Progress(text, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=error_console()) as bar:
            task = bar.add_task(description, total=total)
            yield lambda number=1, /: bar.advance(task, number)
        return
    lines = PlainProgress(description, total, _print_plain)
    yield lines.advance
    lines.finish()


def _print_plain(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class PlainProgress:
    """Progress as lines of text: the first at once, then one every 10 s, then the last."""

    def __init__(
        self, description: str, total: int, write: Callable[[str], None], now: Callable[[], float] = time.monotonic
    ) -> None:
        """`now` in seconds."""
        self._description, self._total, self._write, self._now = description, total, write, now
        self._done, self._started = 0, now()
        self._last_line = self._started
        self._write(f"{description}: {total:,} to do")

    def advance(self, number: int = 1, /) -> None:
        """`number` more are done."""
        self._done += number
        now = self._now()
        if now - self._last_line >= PLAIN_INTERVAL_S:
            self._last_line = now
            percent = 100 * self._done / max(1, self._total)
            self._write(f"{self._description}: {self._done:,} of {self._total:,} ({percent:.0f} %)")

    def finish(self) -> None:
        """Say that it is over."""
        self._write(f"{self._description}: {self._done:,} done in {self._now() - self._started:.1f} s")
