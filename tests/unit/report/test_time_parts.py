"""Where the time went: the parts add up, whatever happened in the run."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_factory import make_script
from report_samples import sample

from dawnrun.clock import RULES, elapsed_s
from dawnrun.record.summary import summarize
from dawnrun.report.document import run_document
from dawnrun.report.rows import facts, time_cells
from dawnrun.report.steps import spread_text, step_rows, time_parts


def test_parts_of_start_up_and_training():
    summary = sample()
    parts = dict(time_parts(summary))
    assert parts["  imports"] == 4.5
    assert parts["  the rest"] == pytest.approx(3.0 - 0.5 - 1.0)  # data_setup's, the later of the two
    assert parts["  waiting for input"] == 14.4
    assert parts["  forward, backward, exchange, update"] == pytest.approx(4 * 360 - 14.4)
    timed = {"forward": 100.0, "backward": 200.0, "exchange": 5.0, "update": 15.0}
    phase = replace(summary.phases[0], parts_s=timed, timed_steps=100)
    parts = dict(time_parts(replace(summary, phases=(phase, phase))))
    assert parts["  forward"] == 200.0 and parts["  exchange"] == 10.0
    assert parts["  between steps, lost or not timed"] == pytest.approx(4 * 360 - 14.4 - 640)
    assert time_cells(summary)[-1][0] == "whole run"
    assert time_cells(summary)[-1][2] == "100.0 %"


def test_parts_that_exceed_their_whole_are_left_out():
    """A first attempt killed before its own report of start-up, or clocks that disagree: no negative rest."""
    names = [name for name, _ in time_parts(sample(startup_s={"imports_s": 1e6}, input_wait_s=1e9))]
    assert "  imports" not in names and "  waiting for input" not in names


def test_a_step_of_each_phase_and_the_spread_over_processes():
    """Milliseconds a step; how much was timed where it was not all; a phase that was not timed has no row."""
    spread = {
        "input_wait_s": {"least": 0.001, "most": 0.0205},
        "own_s": {"least": 1.5, "most": 1.75},
        "slowest": 12,
        "slowest_share": 0.31,
    }
    parts = {"forward": 100.0, "backward": 200.0, "exchange": 1.0, "update": 10.0}
    first, second = sample().phases
    summary = sample(phases=(replace(first, parts_s=parts, timed_steps=100, ranks=spread), second))
    assert step_rows(summary) == [("1 (50 % timed)", "3,600", "36.0", "1,000", "2,000", "10.0", "100")]
    assert list(spread_text(summary)) == [
        "phase 1: a step waits 1.00 to 20.5 ms for input, own work 1,500 to 1,750 ms; most often slowest: rank 12, in 31 %"
    ]
    assert ("processes", next(spread_text(summary))) in facts(summary)


seconds = st.floats(0.01, 50)


timings = st.one_of(
    st.just(dict.fromkeys(("forward_s", "backward_s", "exchange_s", "update_s"))),
    st.fixed_dictionaries({f"{name}_s": st.floats(0, 9) for name in ("forward", "backward", "exchange", "update")}),
)
"""Parts of the timed steps, which need not fit the windows they stand for."""


@st.composite
def histories(draw):
    """What happens in a run: attempts that train some epochs and end in order, by a kill, or by a crash nobody saw."""
    return draw(
        st.lists(
            st.tuples(
                st.integers(0, 2), seconds, seconds, st.sampled_from(["kill", "unseen", "stop"]), seconds, timings
            ),
            min_size=1,
            max_size=4,
        )
    )


@given(histories())
def test_any_history_adds_up(tmp_path_factory, attempts):
    """Parts to kinds, kinds to each rule's clock, in the table and in report.json."""
    script = make_script(tmp_path_factory.mktemp("runs"))
    for number_of_epochs, imports_s, data_s, end, pause_s, timed in attempts:
        if script.step >= script.ends(len(script.plan) - 1):
            break
        script.launch()
        script.start(first_step=script.step, imports_s=imports_s, data_s=data_s)
        for _ in range(number_of_epochs):
            if script.step < script.ends(len(script.plan) - 1):
                script.window(3, **timed)
                script.train_epoch()
                script.validate(500, 930)
                script.save()
        if end == "stop":
            script.finish("preempted")
        else:
            script.kill(pause_s, seen=end == "kill")
        script.time.pass_s(pause_s)
    summary = summarize(script.run)
    parts = time_parts(summary)
    kinds = [value for name, value in parts if not name.startswith("  ")]
    assert sum(kinds) == pytest.approx(sum(summary.spent.values()))
    for place, (name, value) in enumerate(parts):
        inner = []
        for below, seconds_ in parts[place + 1 :]:
            if not below.startswith("  "):
                break
            inner.append(seconds_)
        if not name.startswith("  ") and inner:
            assert sum(inner) == pytest.approx(value, abs=2e-3)
    document = run_document(summary)
    for rule in RULES:
        clocks = [document["time_spent"][rule]]
        clocks += [document["time_to_accuracy"][rule]] if document["time_to_accuracy"] else []
        for clock in clocks:
            assert sum(clock["parts_s"].values()) == pytest.approx(clock["seconds"])
        assert document["time_spent"][rule]["seconds"] == pytest.approx(elapsed_s(summary.spent, rule))
        left_out = sum(document["time_spent"][rule]["left_out_s"].values())
        assert clocks[0]["seconds"] + left_out == pytest.approx(sum(summary.spent.values()))
