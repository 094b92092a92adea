"""Follows a running job: shows its events, passes on signals, ends it when it hangs."""

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType
from typing import Any, Protocol, Self

from dawnrun.cli.console import console, is_terminal
from dawnrun.cli.narrate import Narrator
from dawnrun.launch.base import Job, JobStatus, Launcher
from dawnrun.record.events import Event, parse_event
from dawnrun.text import duration, escaped

POLL_S = 0.2
LINE_INTERVAL_S = 5.0
"""At least so far apart are two lines of progress where there is no terminal."""
SILENCE_S, SLOW_STEPS_S = 10.0, 60.0
"""After so long without news a stage is named, and again after each such time; the second once steps are done."""
OUTSIDE_TRAINING = 10
"""A validation or the set-up may be silent this many times longer than a step before it counts as hung."""


class Tail:
    """The complete lines of an event file that is being written; it may not exist yet."""

    def __init__(self, path: Path) -> None:
        """Nothing is opened yet."""
        self._path, self._offset = path, 0

    def read(self) -> Iterator[Event]:
        """The events since the last call; a line that is still being written waits for the next."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                new = file.read()
        except FileNotFoundError:
            return
        whole = new[: new.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.splitlines():
            event = parse_event(line)
            if event is not None:
                yield event


class Screen(Protocol):
    """Where lines and the state of progress are shown."""

    def say(self, line: str) -> None:
        """A line that stays."""
        ...

    def show(self, narrator: Narrator) -> None:
        """How far it is now."""
        ...

    def pass_over(self, narrator: Narrator) -> None:
        """The state of progress is older than the line said last: it is not shown any more."""
        ...


class PlainScreen:
    """Lines of text, for pipes and files: no control characters."""

    def __init__(
        self, *, now: Callable[[], float] = time.monotonic, write: Callable[[str], None] | None = None
    ) -> None:
        """`now` in seconds; `write` takes a line."""
        self._now, self._write = now, write or _print_line
        self._last, self._shown = -LINE_INTERVAL_S, ""

    def say(self, line: str) -> None:
        """Print it."""
        self._write(escaped(line))

    def show(self, narrator: Narrator) -> None:
        """Print progress if it is new and the last is long enough ago."""
        if narrator.status == self._shown or self._now() - self._last < LINE_INTERVAL_S:
            return
        self._shown, self._last = narrator.status, self._now()
        self._write(escaped(narrator.progress_line()))

    def pass_over(self, narrator: Narrator) -> None:
        """Lines stay in the order of what they tell."""
        self._shown = narrator.status

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


def _print_line(line: str) -> None:
    print(line, flush=True)


class LiveScreen:
    """Two rows at the foot of a terminal, a bar with its times and the state below it; lines go above."""

    def __init__(self) -> None:
        """The rows appear on entering."""
        from rich.live import Live
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

        self._console = console()
        self._bar = Progress(
            BarColumn(bar_width=24), TaskProgressColumn(), TextColumn("{task.description}", markup=False)
        )
        self._task = self._bar.add_task("starting", total=1.0)
        self._live = Live(self._bar, console=self._console, refresh_per_second=4)

    def say(self, line: str) -> None:
        """Print it above the rows, unfolded."""
        self._console.print(escaped(line), soft_wrap=True)

    def show(self, narrator: Narrator) -> None:
        """Redraw both rows; 80 characters hold them."""
        from rich.console import Group
        from rich.text import Text

        self._bar.update(self._task, completed=narrator.fraction(), description=narrator.times())
        state = narrator.status if narrator.stepped else narrator.stage()
        self._live.update(Group(self._bar, Text(state, no_wrap=True, overflow="ellipsis")))

    def pass_over(self, narrator: Narrator) -> None:
        """The rows below the lines always show the newest state."""

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()


def open_screen() -> AbstractContextManager[PlainScreen | LiveScreen]:
    """The screen that suits standard output."""
    return LiveScreen() if is_terminal(sys.stdout) else PlainScreen()


class Signals:
    """Collects SIGINT, SIGTERM and SIGHUP while it is entered; the former handlers come back afterwards."""

    NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        """None yet."""
        self.first: int | None = None
        self._new: list[int] = []
        self._former: dict[int, Any] = {}

    def take(self) -> list[int]:
        """Those since the last call."""
        new, self._new = self._new, []
        return new

    def _note(self, number: int, _: FrameType | None) -> None:
        self.first = self.first or number
        self._new.append(number)

    def __enter__(self) -> Self:
        self._former = {number: signal.signal(number, self._note) for number in self.NUMBERS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)


class Watch:
    """Watches one job until its last process is gone."""

    def __init__(self, job: Job, launcher: Launcher, narrator: Narrator, screen: Screen, signals: Signals) -> None:
        """The job was submitted."""
        self._job, self._launcher, self._narrator = job, launcher, narrator
        self._screen, self._signals = screen, signals
        self._named_at = 0.0
        self._stopping = self._queued = False
        self.hung = self.killed = False

    def follow(self, tail: Tail) -> JobStatus:
        """Show events and obey signals until the job has ended."""
        while (status := self._launcher.status()) in (JobStatus.QUEUED, JobStatus.RUNNING):
            self._note_queue(status)
            self._read(tail)
            self._obey()
            self._look_for_silence()
            self._screen.show(self._narrator)
            time.sleep(POLL_S)
        self._read(tail)
        return self._launcher.status()

    def _note_queue(self, status: JobStatus) -> None:
        """Say once that the job waits; waiting is no hang."""
        if status is JobStatus.QUEUED:
            self._narrator.moved = time.monotonic()
            if not self._queued:
                self._say("in the queue")
        elif self._queued:
            self._say("the job has started")
        self._queued = status is JobStatus.QUEUED

    def _say(self, line: str) -> None:
        self._screen.say(line)
        self._screen.pass_over(self._narrator)

    def _read(self, tail: Tail) -> None:
        for event in tail.read():
            for line in self._narrator.tell(event):
                self._say(line)
            if event.kind == "train.progress":
                self._screen.show(self._narrator)

    def _obey(self) -> None:
        for number in self._signals.take():
            if not self._stopping:
                self._stopping = True
                self._say(f"{signal.Signals(number).name}: stopping after a checkpoint; once more kills at once")
                self._launcher.cancel("save")
            else:
                self.killed = True
                self._launcher.cancel("now")

    def _look_for_silence(self) -> None:
        """Name the stage when it takes long; end the job when nothing has moved for the site's limit."""
        if self.hung or self._stopping:
            return
        site, quiet_s = self._job.site, self._narrator.quiet_s()
        training = self._narrator.span == "training" and self._narrator.stepped
        if quiet_s > site.hang_timeout_s * (1 if training else OUTSIDE_TRAINING):
            self.hung = True
            self._say(f"no step for {quiet_s:.0f} s (hang_timeout_s is {site.hang_timeout_s:g}): ending the run")
            self._launcher.cancel("stacks")
            return
        interval_s = SLOW_STEPS_S if training else SILENCE_S
        if quiet_s < interval_s:
            self._named_at = 0.0
        elif quiet_s - self._named_at >= interval_s:
            self._named_at, missing = quiet_s, missing_ranks(self._job)
            what = waiting_text(missing, site.world_size) if missing else self._narrator.stage()
            self._say(f"{duration(self._narrator.so_far_s())}: {what}, nothing new for {quiet_s:.0f} s")


def missing_ranks(job: Job) -> list[int]:
    """Ranks that have not yet reported their start."""
    return [rank for rank in range(job.site.world_size) if not (job.folder / f"rank-{rank:03d}.started").exists()]


def waiting_text(missing: list[int], world_size: int) -> str:
    """`waiting for rank 1 of 2 to start`; ranks count from 0."""
    shown = ", ".join(map(str, missing[:8])) + (", ..." if len(missing) > 8 else "")
    return f"waiting for rank{'s' if len(missing) > 1 else ''} {shown} of {world_size} to start"
