"""Every rule of time on a fake clock: spans, crashes, idle time, wall clocks that jump."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from record_factory import Script, make_script

from dawnrun.clock import SPAN_KINDS, elapsed_s
from dawnrun.errors import ReportError
from dawnrun.record.events import read_events
from dawnrun.record.spans import Timeline

TRAINER_KINDS = [kind for kind in SPAN_KINDS if kind != "idle"]


@pytest.fixture
def script(tmp_path) -> Script:
    return make_script(tmp_path)


def timeline_of(script: Script) -> Timeline:
    timeline = Timeline()
    for event in read_events(script.run, superseded=True):
        timeline.add(event)
    timeline.close()
    return timeline


def spent(script: Script) -> dict[str, float]:
    return {kind: seconds for kind, seconds in timeline_of(script).spent().items() if seconds}


def spans(script: Script, *parts: tuple[str, float]) -> None:
    for kind, seconds in parts:
        script.write("span", span=kind)
        script.time.pass_s(seconds)


def test_every_second_belongs_to_the_span_that_runs(script):
    script.launch()
    spans(
        script,
        ("initialise", 3),
        ("data_setup", 2),
        ("training", 10),
        ("validation", 4),
        ("training", 1),
        ("checkpoint", 5),
    )
    script.finish("all_epochs")
    assert spent(script) == {"initialise": 3, "data_setup": 2, "training": 11, "validation": 4, "checkpoint": 5}


def test_what_lies_before_the_first_span_is_initialisation(script):
    """The log cannot be opened before the imports are done."""
    script.launch()
    script.time.pass_s(7)
    spans(script, ("training", 1))
    script.finish("all_epochs")
    assert spent(script) == {"initialise": 7, "training": 1}


def test_the_way_out_after_the_end_counts_nowhere(script):
    script.launch()
    spans(script, ("training", 10))
    script.write("run.finished", reason="all_epochs", step=0, epoch=0)
    script.kill(after_s=30)
    assert spent(script) == {"training": 10}


def test_after_a_crash_the_clock_goes_on_to_the_known_death_in_training(script):
    script.launch()
    spans(script, ("training", 10), ("validation", 4))
    script.write("beat")
    script.kill(after_s=5)
    assert spent(script) == {"training": 15, "validation": 4}
    assert timeline_of(script).attempts[0].gap_s == 5


def test_from_the_death_to_the_next_start_the_run_was_idle(script):
    script.launch()
    spans(script, ("training", 10))
    script.write("beat")
    script.kill(after_s=5)
    script.time.pass_s(600)
    script.launch()
    script.time.pass_s(2)  # imports, before the first event
    spans(script, ("initialise", 1), ("training", 3))
    script.finish("all_epochs")
    assert spent(script) == {"training": 18, "idle": 600, "initialise": 3}
    assert [attempt.idle_s for attempt in timeline_of(script).attempts] == [0, 600]


def test_a_death_that_nobody_saw_leaves_idle_time_only(script):
    script.launch()
    spans(script, ("training", 10))
    script.write("beat")
    script.kill(after_s=100, seen=False)
    assert spent(script) == {"training": 10}
    script.launch()
    spans(script, ("training", 3))
    script.finish("all_epochs")
    assert spent(script) == {"training": 13, "idle": 100}


def test_a_run_stopped_in_order_is_idle_from_its_last_event(script):
    script.launch()
    spans(script, ("training", 10))
    script.write("run.finished", reason="preempted", step=0, epoch=0)
    script.kill(after_s=20)
    script.time.pass_s(100)
    script.launch()
    spans(script, ("training", 3))
    script.finish("all_epochs")
    assert spent(script) == {"training": 13, "idle": 120}


def test_an_attempt_whose_trainer_never_spoke_is_idle_time(script):
    script.launch()
    script.kill(after_s=9)
    assert spent(script) == {}
    script.launch()
    spans(script, ("training", 10))
    script.write("beat")
    script.kill()
    script.launch()
    script.kill(after_s=40)
    script.launch()
    spans(script, ("training", 1))
    script.finish("all_epochs")
    assert spent(script) == {"training": 11, "idle": 40}


def test_the_system_clock_set_back_an_hour_during_a_span(script):
    """C36: durations come from the monotonic clock, so they do not change."""
    script.launch()
    spans(script, ("training", 10))
    script.time.set_wall_clock(-3600)
    spans(script, ("validation", 4), ("training", 1))
    script.finish("all_epochs")
    assert spent(script) == {"training": 11, "validation": 4}


@pytest.mark.parametrize("when", ["before the death", "between the attempts"])
def test_the_system_clock_set_back_an_hour_around_a_crash(script, when):
    """C36: no duration is negative; what cannot be known is 0."""
    script.launch()
    spans(script, ("training", 10))
    script.write("beat")
    script.time.set_wall_clock(-3600 if when == "before the death" else 0)
    script.kill(after_s=5)
    script.time.set_wall_clock(-3600 if when == "between the attempts" else 0)
    script.time.pass_s(60)
    script.launch()
    spans(script, ("training", 3))
    script.finish("all_epochs")
    expected = {"before the death": {"training": 13, "idle": 60}, "between the attempts": {"training": 18}}
    assert spent(script) == expected[when]


def test_a_trainer_cannot_call_its_time_idle(script):
    script.launch()
    spans(script, ("idle", 10))
    script.finish("all_epochs")
    with pytest.raises(ReportError, match="span 'idle' is none of: initialise, data_setup"):
        timeline_of(script)


def test_a_trainers_clock_never_runs_backwards(script):
    script.launch()
    spans(script, ("training", 10))
    script.write("beat")
    script.time.seconds -= 8
    script.write("beat")
    script.finish("all_epochs")
    assert spent(script) == {"training": 10}


@pytest.mark.parametrize("utc", ["yesterday", "2026-01-31T12:00:00"])
def test_a_wall_clock_that_is_none_is_refused(script, utc):
    script.launch()
    spans(script, ("training", 10))
    script.write("beat")
    script.kill(after_s=1)
    path = script.run.events_dir(1) / "launcher.jsonl"
    path.write_text(path.read_text().replace("2026-01-31T12:00:11.000Z", utc))
    with pytest.raises(ReportError, match="is no time of the form"):
        timeline_of(script)


SPANS = st.lists(st.tuples(st.sampled_from(TRAINER_KINDS), st.integers(1, 99)), max_size=5)
ENDS = st.sampled_from(["finished", "seen", "unseen"])
ATTEMPTS = st.lists(st.tuples(st.integers(0, 50), SPANS, ENDS, st.integers(0, 99)), min_size=1, max_size=5)


def model(attempts: list[tuple[int, list[tuple[str, int]], str, int]]) -> dict[str, float]:
    """Seconds per kind, reasoned without an event log: who knew what, and when."""
    seconds = dict.fromkeys(SPAN_KINDS, 0.0)
    unexplained = None  # seconds since the last thing known of an earlier attempt
    for pause, parts, end, after in attempts:
        unexplained = None if unexplained is None else unexplained + pause
        if not parts:
            unexplained = None if unexplained is None else unexplained + after
            continue
        seconds["idle"] += unexplained or 0
        for kind, length in parts:
            seconds[kind] += length
        seconds["training"] += after if end == "seen" else 0
        unexplained = 0 if end == "seen" else after
    return seconds


@settings(max_examples=60, deadline=None)
@given(ATTEMPTS)
def test_any_history_agrees_with_a_simple_model(attempts):
    with TemporaryDirectory() as folder:
        script = make_script(Path(folder))
        for pause, parts, end, after in attempts:
            script.time.pass_s(pause)
            script.launch()
            spans(script, *parts)
            if parts and end == "finished":
                script.write("run.finished", reason="preempted", step=0, epoch=0)
            elif parts:
                script.write("beat")
            script.kill(after_s=after, seen=end != "unseen")
        found = timeline_of(script).spent()
    assert found == pytest.approx(model(attempts))
    assert elapsed_s(found, "everything") == pytest.approx(sum(found.values()))
