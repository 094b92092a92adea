"""The clock and the rules that say which of its seconds count."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_factory import FakeTime

from dawnrun.clock import RULES, SPAN_KINDS, Clock, SpanKind, elapsed_s

SECONDS = {"initialise": 1.0, "data_setup": 2.0, "training": 4.0, "validation": 8.0, "checkpoint": 16.0, "idle": 32.0}


@pytest.mark.parametrize(
    ("rule", "expected"), [("dawnbench", 7.0), ("mlperf", 30.0), ("training", 4.0), ("everything", 63.0)]
)
def test_each_rule_counts_its_kinds(rule, expected):
    """C36: the unpaused clock and DAWNBench's are both kept, each with its own parts."""
    assert elapsed_s(SECONDS, rule) == expected


def test_mlperf_counts_initialisation_beyond_thirty_minutes():
    assert elapsed_s({"initialise": 1799.0, "training": 5.0}, "mlperf") == 5.0
    assert elapsed_s({"initialise": 1860.0, "training": 5.0}, "mlperf") == 65.0


@pytest.mark.parametrize("rule", RULES)
def test_nothing_spent_is_zero_seconds(rule):
    assert elapsed_s({}, rule) == 0.0


def test_spans_follow_one_another_without_gap():
    time = FakeTime()
    clock = Clock(lambda: time.seconds)
    time.pass_s(2)
    clock.change("training")
    time.pass_s(3)
    with clock.span("validation"):
        time.pass_s(5)
        assert clock.kind == "validation"
    time.pass_s(7)
    assert clock.kind == "training"
    assert clock.spent() == {**dict.fromkeys(SPAN_KINDS, 0.0), "initialise": 2, "training": 10, "validation": 5}
    assert clock.t_s() == 17


def test_a_span_that_fails_ends_all_the_same():
    time = FakeTime()
    clock = Clock(lambda: time.seconds, kind="training")
    with pytest.raises(OSError, match="disk"), clock.span("checkpoint"):
        time.pass_s(4)
        raise OSError("disk")
    time.pass_s(1)
    assert (clock.kind, clock.spent()["checkpoint"], clock.spent()["training"]) == ("training", 4, 1)


def test_devices_are_waited_for_before_the_clock_is_read():
    """Work that a device still does belongs to the span that asked for it."""
    time = FakeTime()
    clock = Clock(lambda: time.seconds, lambda: time.pass_s(3), kind="training")
    time.pass_s(1)
    clock.change("validation")
    assert clock.spent()["training"] == 4


def test_a_clock_can_start_before_it_is_made():
    """Imports are done before the clock can be made; they are initialisation."""
    time = FakeTime(seconds=10)
    told = []
    clock = Clock(lambda: time.seconds, started=4.0, on_change=lambda kind, t_s: told.append((kind, t_s)))
    assert clock.spent()["initialise"] == 6
    time.pass_s(1)
    clock.change("training")
    assert told == [("initialise", 0.0), ("training", 7.0)]


@given(st.lists(st.tuples(st.sampled_from(SPAN_KINDS), st.integers(0, 1000)), max_size=30))
def test_parts_sum_to_everything(changes: list[tuple[SpanKind, int]]):
    """C36: the parts sum to the total, and no part is negative."""
    time = FakeTime()
    clock = Clock(lambda: time.seconds)
    for kind, seconds in changes:
        clock.change(kind)
        time.pass_s(seconds)
    assert elapsed_s(clock.spent(), "everything") == time.seconds
    assert min(clock.spent().values()) >= 0
