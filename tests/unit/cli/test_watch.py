"""Following a job: the growing log, the plain screen, signals, and silence."""

import io
import os
import signal
from pathlib import Path

import pytest
from record_factory import FakeTime

from dawnrun.cli import watch as module
from dawnrun.cli.narrate import Narrator
from dawnrun.cli.watch import LiveScreen, PlainScreen, Signals, Tail, Watch, missing_ranks, waiting_text
from dawnrun.launch.base import Job, JobStatus
from dawnrun.recipe.reader import read_text
from dawnrun.recipe.schema import Recipe, Site
from dawnrun.record.events import EventLog

RECIPE = "{name: toy, phases: [{epochs: 1, image_size: 64, global_batch_size: 8, per_device_batch_size: 8}], lr: 0.1}"


class FakeLauncher:
    """A job that runs for a number of looks; notes how it was ended."""

    def __init__(self, looks: int) -> None:
        self.looks, self.cancelled = looks, []

    def status(self):
        self.looks -= 1
        return JobStatus.RUNNING if self.looks >= 0 else JobStatus.FAILED

    def cancel(self, how="save"):
        self.cancelled.append(how)


class FakeSignals:
    """Signals by the number of the look at which they come."""

    def __init__(self, at: dict[int, int]) -> None:
        self._at, self._look, self.first = at, 0, None

    def take(self):
        self._look += 1
        return [self._at[self._look]] if self._look in self._at else []


@pytest.fixture
def follow(tmp_path, monkeypatch):
    """Watch a fake job for `looks` looks of 1 s each; (watch, launcher, lines, seconds at each line)."""

    def run(
        looks, *, signals=None, started=2, processes=2, span="initialise", stepped=False, status="", hang_timeout_s=300
    ):
        time = FakeTime()
        monkeypatch.setattr(module.time, "sleep", lambda _: time.pass_s(1))
        narrator = Narrator(read_text(RECIPE, Recipe, source="toy").value, now=lambda: time.seconds)
        narrator.span, narrator.stepped, narrator.status = span, stepped, status
        for rank in range(started):
            (tmp_path / f"rank-{rank:03d}.started").touch()
        site = Site(processes_per_node=processes, hang_timeout_s=hang_timeout_s)
        job = Job(folder=tmp_path, logs=tmp_path, site=site, command=())
        launcher, lines = FakeLauncher(looks), []
        screen = PlainScreen(now=lambda: time.seconds, write=lines.append)
        watch = Watch(job, launcher, narrator, screen, FakeSignals(signals or {}))
        watch.follow(Tail(tmp_path / "none.jsonl"))
        return watch, launcher, lines

    return run


def test_a_log_is_read_as_it_grows(tmp_path):
    path = tmp_path / "events" / "trainer.jsonl"
    tail = Tail(path)
    assert list(tail.read()) == []
    with EventLog(path, writer="trainer", attempt=1, t_s=lambda: 1.0) as log:
        log.write("span", span="initialise")
        log.write("beat")
        assert [event.kind for event in tail.read()] == ["span", "beat"]
        assert list(tail.read()) == []
        log.write("span", span="training")
        whole = path.read_bytes()
        path.write_bytes(whole[:-5])  # caught in the middle of a line
        assert list(tail.read()) == []
        path.write_bytes(whole)
        assert [event.data["span"] for event in tail.read()] == ["training"]


def test_plain_progress_has_at_most_one_line_an_interval(follow):
    """C44."""
    time, lines = FakeTime(), []
    narrator = Narrator(read_text(RECIPE, Recipe, source="toy").value, now=lambda: time.seconds)
    screen = PlainScreen(now=lambda: time.seconds, write=lines.append)
    for step in range(100):
        narrator.status = f"step {step}"
        screen.show(narrator)
        time.pass_s(0.3)
    assert len(lines) == 6
    time.pass_s(100)
    screen.show(narrator)
    assert len(lines) == 7
    time.pass_s(100)
    screen.show(narrator)
    assert len(lines) == 7  # nothing new, nothing said


def test_a_missing_rank_is_named(follow):
    """C45: within 30 s, and again."""
    _, _, lines = follow(31, started=1)
    assert lines == [
        "0:00:10: waiting for rank 1 of 2 to start, nothing new for 10 s",
        "0:00:20: waiting for rank 1 of 2 to start, nothing new for 20 s",
        "0:00:30: waiting for rank 1 of 2 to start, nothing new for 30 s",
    ]


def test_a_slow_stage_is_named(follow):
    _, _, lines = follow(11, span="data_setup")
    assert lines == ["0:00:10: reading the data set's index and the first batch, nothing new for 10 s"]


def test_slow_steps_are_not_nagged_about(follow):
    _, launcher, lines = follow(59, span="training", stepped=True)
    assert lines == []
    assert launcher.cancelled == []


def test_no_step_for_too_long_ends_the_job(follow):
    watch, launcher, lines = follow(40, span="training", stepped=True, hang_timeout_s=20)
    assert watch.hung
    assert launcher.cancelled == ["stacks"]
    assert lines == ["no step for 21 s (hang_timeout_s is 20): ending the run"]


def test_a_validation_may_be_silent_for_longer(follow):
    watch, launcher, _ = follow(199, span="validation", stepped=True, hang_timeout_s=20)
    assert not watch.hung
    assert launcher.cancelled == []


def test_the_first_signal_saves_and_the_second_kills(follow):
    """C31."""
    _, launcher, lines = follow(10, signals={2: signal.SIGINT, 5: signal.SIGINT})
    assert launcher.cancelled == ["save", "now"]
    assert lines == ["SIGINT: stopping after a checkpoint; once more kills at once"]


def test_signals_are_collected_and_handlers_restored():
    before = signal.getsignal(signal.SIGTERM)
    with Signals() as signals:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        assert signals.take() == [signal.SIGTERM, signal.SIGINT]
        assert signals.take() == []
        assert signals.first == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before


def test_names_of_missing_ranks(tmp_path):
    job = Job(folder=tmp_path, logs=Path(), site=Site(processes_per_node=3), command=())
    (tmp_path / "rank-001.started").touch()
    assert missing_ranks(job) == [0, 2]
    assert waiting_text([1], 2) == "waiting for rank 1 of 2 to start"
    assert waiting_text(list(range(20)), 32) == "waiting for ranks 0, 1, 2, 3, 4, 5, 6, 7, ... of 32 to start"


def test_the_live_screen_shows_lines_and_a_bar(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr("sys.stdout", Terminal())
    narrator = Narrator(read_text(RECIPE, Recipe, source="toy").value)
    with LiveScreen() as screen:
        screen.say("[odd] line")
        screen.show(narrator)
        narrator.status, narrator.stepped = "epoch 1/1", True
        screen.show(narrator)
    import sys

    assert "[odd] line" in sys.stdout.getvalue()
    assert "so far" in sys.stdout.getvalue() and "epoch 1/1" in sys.stdout.getvalue()


def test_no_progress_is_shown_after_a_line_that_tells_something_newer():
    """C44: in the order in which it happened."""
    time, lines = FakeTime(), []
    narrator = Narrator(read_text(RECIPE, Recipe, source="toy").value, now=lambda: time.seconds)
    screen = PlainScreen(now=lambda: time.seconds, write=lines.append)
    narrator.status = "step 1"
    screen.show(narrator)
    time.pass_s(1)
    narrator.status = "step 2"
    screen.show(narrator)  # too soon after the last one
    screen.say("validation after epoch 1")
    screen.pass_over(narrator)
    time.pass_s(10)
    screen.show(narrator)
    assert [line[:10] for line in lines] == ["step 1, 0:", "validation"]
    narrator.status = "step 3"
    screen.show(narrator)
    assert lines[-1].startswith("step 3")


def test_progress_older_than_a_signal_is_not_shown_after_it(follow):
    _, _, lines = follow(10, signals={1: signal.SIGINT}, span="training", stepped=True, status="old progress")
    assert lines == ["SIGINT: stopping after a checkpoint; once more kills at once"]


def test_lines_hold_no_control_characters():
    """C44."""
    lines = []
    PlainScreen(write=lines.append).say("saved \x1b[31mfolder")
    assert lines == [r"saved \x1b[31mfolder"]
