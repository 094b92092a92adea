"""Several attempts fold into one run; damaged ends do no harm."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from record_factory import make_run, make_script
from record_values import one_phase

from dawnrun.clock import SPAN_KINDS
from dawnrun.errors import ReportError
from dawnrun.record.rundir import RunDir
from dawnrun.record.summary import summarize


@pytest.fixture
def resumed(tmp_path):
    """Killed in epoch 3 at step 30 (of 20 + 20 + 20), resumed from the end of epoch 2."""
    script = make_script(tmp_path)
    script.launch()
    script.start()
    for correct in ((300, 800), (500, 925)):
        script.train_epoch()
        script.validate(*correct)
        script.save()
    script.train(10)
    script.kill(after_s=3)
    script.time.pass_s(100)
    script.launch()
    script.start(first_step=20, changes={"target.top5": [95.0, 93.0]}, world_size=2)
    for correct in ((600, 940), (700, 960)):
        script.train_epoch()
        script.validate(*correct)
        script.save()
    script.finish("all_epochs")
    return script.run


def test_a_resumed_run_is_one_run(resumed):
    """C38, C07: one row an epoch, the rates of an undisturbed run, lost work in the clock."""
    summary = summarize(resumed)
    assert [row.epoch for row in summary.epochs] == [1, 2, 3, 4]
    assert [row.images for row in summary.epochs] == [320] * 4
    first, second = summary.attempts
    assert (first.first_step, first.last_step, first.lost_steps, first.gap_s, first.idle_s) == (0, 30, 10, 3, 0)
    assert (second.first_step, second.last_step, second.lost_steps, second.idle_s) == (20, 60, 0, 100)
    assert (first.ended, second.ended, second.world_size) == ("ended by signal 9", "all_epochs", 2)
    assert second.changes == {"target.top5": (95.0, 93.0)}
    # 60 steps and the 10 lost ones at 0.5 s, and the 3 s to the known death
    assert summary.spent == {
        "initialise": 4,
        "data_setup": 2,
        "training": 38,
        "validation": 16,
        "checkpoint": 4,
        "idle": 100,
    }
    assert [point.step for point in summary.progress] == list(range(5, 61, 5))
    assert summary.progress[-1].training_s == 38
    assert summary.steps_done == 60
    crossing = summary.crossing()
    assert crossing is not None
    assert crossing.time_to_accuracy_s("training") == 28
    assert "resumed: 2 attempts, 10 steps done again; their seconds count" in summary.remarks
    assert "attempt 2 changed target.top5 from 95.0 to 93.0" in summary.remarks


def test_rates_of_a_resumed_run_are_those_of_a_straight_one(resumed, tmp_path):
    """C07: every logged rate, the first and last of each epoch included."""
    straight, folded = summarize(make_run(tmp_path)), summarize(resumed)
    assert [(row.lr_last, row.momentum_last) for row in folded.epochs] == [
        (row.lr_last, row.momentum_last) for row in straight.epochs
    ]
    assert [(point.step, point.lr) for point in folded.progress] == [
        (point.step, point.lr) for point in straight.progress
    ]


def test_weights_validated_again_after_a_resume_keep_their_first_result(tmp_path):
    script = make_script(tmp_path, recipe=one_phase(2))
    script.launch()
    script.start()
    script.train_epoch()
    script.validate(500, 950)
    script.kill()
    script.launch()
    script.start(first_step=10)
    script.validate(510, 955)
    script.train_epoch()
    script.validate(600, 960)
    script.finish("all_epochs")
    summary = summarize(script.run)
    assert [(row.epoch, row.top5_correct) for row in summary.epochs] == [(1, 950), (2, 960)]
    crossing = summary.crossing()
    assert crossing is not None
    assert crossing.time_to_accuracy_s("training") == 5


def test_weights_validated_after_a_resume_are_frozen_in_that_attempt(tmp_path):
    script = make_script(tmp_path, recipe=one_phase(1))
    script.launch()
    script.start()
    script.train_epoch()
    script.write("snapshot.taken", step=10, epoch=0)
    script.kill()
    script.launch()
    script.start(first_step=10)
    script.validate(500, 950)
    script.finish("all_epochs")
    crossing = summarize(script.run).crossing()
    assert crossing is not None
    assert crossing.spent["initialise"] == 4
    path = script.run.events_dir(2) / "trainer.jsonl"
    path.write_text("".join(line for line in path.read_text().splitlines(True) if "snapshot.taken" not in line))
    with pytest.raises(ReportError, match=r"no snapshot\.taken says when"):
        summarize(script.run)


def test_a_run_is_described_by_its_first_start(tmp_path):
    """Initial weights and start-up are those of the first attempt; checkpoints that were overtaken are left out."""
    script = make_script(tmp_path, recipe=one_phase(2))
    script.launch()
    script.start(imports_s=2)
    script.train_epoch()
    script.validate(500, 900)
    script.save()
    script.train(5)
    script.save(why=["steps"])
    script.kill()
    script.launch()
    script.start(first_step=10, imports_s=9, initial_weights_sha256=None)
    summary = summarize(script.run)
    script.kill()
    assert summary.started["initial_weights_sha256"] == "5" * 64
    assert summary.startup_s["imports_s"] == 2
    assert [(checkpoint["step"], checkpoint["attempt"]) for checkpoint in summary.checkpoints] == [(10, 1)]


def test_a_crossing_that_was_lost_does_not_count(tmp_path):
    script = make_script(tmp_path, recipe=one_phase(2))
    script.launch()
    script.start()
    script.train_epoch()
    script.validate(500, 900)
    script.train_epoch()
    script.validate(600, 950)
    script.kill()
    script.launch()
    script.start(first_step=10)
    script.train_epoch()
    script.validate(600, 920)
    script.finish("all_epochs")
    summary = summarize(script.run)
    assert summary.crossings == ()
    assert summary.epochs[1].top5 == 92


def test_what_a_cut_log_lost_is_named(resumed):
    path = resumed.events_dir(1) / "trainer.jsonl"
    text = path.read_text()
    path.write_text(text[: text.index('"step":10,"first_step":5') - 100])
    summary = summarize(resumed)
    assert [row.epoch for row in summary.epochs] == [3, 4]
    assert "no row for epochs 1 to 2: the log of the attempt that trained it ends before it does" in summary.remarks


def test_an_epoch_recorded_in_part_is_named(tmp_path):
    script = make_script(tmp_path, recipe=one_phase(1))
    script.launch()
    script.start()
    script.window(5)
    script.kill()
    script.launch()
    script.start(first_step=8)
    script.train_epoch()
    script.validate(500, 900)
    script.finish("all_epochs")
    summary = summarize(script.run)
    assert "some steps of epoch 1 are not recorded: loss and speed are those of the others" in summary.remarks


def test_other_writers_and_unknown_kinds_change_nothing(tmp_path):
    run = make_run(tmp_path)
    before = summarize(run)
    line = {"t_s": 1e6, "utc": "2026-01-31T12:00:05.000Z", "attempt": 1, "data": {"step": 1}}
    text = "".join(json.dumps({"kind": kind, "writer": "evaluator-000", **line}) + "\n" for kind in ("span", "new"))
    (run.events_dir(1) / "evaluator-000.jsonl").write_text(text)
    assert summarize(run) == before


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(["trainer", "launcher"]), st.integers(1, 2), st.floats(0, 1))
def test_a_log_cut_at_any_byte_still_gives_a_summary(attempt_and_cut_logs, writer, attempt, share):
    """No duration is negative, and no more is claimed than before."""
    whole, texts = attempt_and_cut_logs
    with TemporaryDirectory() as folder:
        run = RunDir(Path(folder))
        for (number, name), text in texts.items():
            run.events_dir(number).mkdir(parents=True, exist_ok=True)
            cut = int(share * len(text)) if (number, name) == (attempt, writer) else len(text)
            (run.events_dir(number) / f"{name}.jsonl").write_bytes(text[:cut])
        summary = summarize(run)
    assert min(summary.spent.values()) >= 0
    for row in summary.epochs:
        assert all(0 <= row.spent[kind] <= summary.spent[kind] + 1e-9 for kind in SPAN_KINDS)
    assert {row.epoch for row in summary.epochs} <= {row.epoch for row in whole.epochs}
    assert all(attempt.gap_s >= 0 and attempt.idle_s >= 0 for attempt in summary.attempts)


@pytest.fixture(scope="module")
def attempt_and_cut_logs(tmp_path_factory):
    """A run killed and resumed once, as a summary and as the bytes of its logs."""
    script = make_script(tmp_path_factory.mktemp("cut"))
    script.launch()
    script.start()
    script.train_epoch()
    script.validate(300, 800)
    script.save()
    script.train(5)
    script.kill(after_s=2)
    script.time.pass_s(50)
    script.launch()
    script.start(first_step=10)
    for correct in (925, 940, 960):
        script.train_epoch()
        script.validate(500, correct)
        script.save()
    script.finish("all_epochs")
    logs = {
        (n, writer): (script.run.events_dir(n) / f"{writer}.jsonl").read_bytes()
        for n in (1, 2)
        for writer in ("trainer", "launcher")
    }
    return summarize(script.run), logs


def test_two_runs_in_one_folder_are_refused(tmp_path):
    """Events copied together; a renamed run that goes on from its checkpoint, or that only starts anew, is one run."""
    first, second = make_run(tmp_path, recipe={"seed": 1}), make_run(tmp_path)
    second.events_dir(1).rename(first.path / "events" / "2")
    for log in first.event_files(2):
        log.write_text(log.read_text().replace('"attempt":1', '"attempt":2'))
    with pytest.raises(ReportError, match="two runs in one folder"):
        summarize(first)
    log = first.event_files(2)[1]
    log.write_text(log.read_text().replace(f'"run_id":"{second.path.name}"', f'"run_id":"{first.path.name}"'))
    assert len(summarize(first).attempts) == 2


def test_parts_right_answers_and_spread_of_windows(tmp_path):
    """Each window's seconds beyond the input in the proportions of its timed step; what was not timed is left out."""
    script = make_script(tmp_path, recipe=one_phase(1), step_s=1.0)  # ten steps of 32 images
    script.launch()
    script.start()
    ranks = [
        {"input_wait_s": {"least": 0.5, "most": 1.0, "rank": 1}, "own_s": {"least": 0.5, "most": 0.75, "rank": 3}},
        {"input_wait_s": {"least": 0.0, "most": 1.0, "rank": 0}, "own_s": {"least": 0.25, "most": 1.0, "rank": 0}},
    ]
    parts = {"forward_s": 0.25, "backward_s": 0.5, "exchange_s": 0.125, "update_s": 0.125}
    script.window(1, input_wait_s=1.0, top1_correct=0, ranks=None, **parts)  # nothing but the input
    script.window(4, input_wait_s=0.5, top1_correct=5, ranks=ranks[0], **parts)
    script.window(3, input_wait_s=0.0, top1_correct=11, ranks=ranks[1], **{**parts, "exchange_s": 1.125})
    script.window(2, top1_correct=16, ranks=None, **dict.fromkeys(parts))
    script.validate(500, 900)
    script.finish("all_epochs")
    summary = summarize(script.run)
    (phase,) = summary.phases
    assert phase.timed_steps == 7
    assert phase.parts_s == {
        "forward": 3.5 * 0.25 + 3 * 0.125,
        "backward": 3.5 * 0.5 + 3 * 0.25,
        "exchange": 3.5 * 0.125 + 3 * 0.5625,
        "update": 3.5 * 0.125 + 3 * 0.0625,
    }
    assert phase.ranks["input_wait_s"] == {"least": 0.5 / 7, "most": 2.0 / 7}
    assert phase.ranks["own_s"] == {"least": (4 * 0.5 + 3 * 0.25) / 7, "most": (4 * 0.75 + 3 * 1.0) / 7}
    assert (phase.ranks["slowest"], phase.ranks["slowest_share"]) == (3, 4 / 7)
    assert summary.epochs[0].train_top1 == 10.0
    assert [point.train_top1 for point in summary.progress] == [0.0, 100 * 5 / 128, 100 * 11 / 96, 25.0]


def test_logs_without_parts_have_none(tmp_path):
    """Those of versions that did not record them, or of mixup, whose images have two labels."""
    script = make_script(tmp_path, recipe=one_phase(1))
    script.launch()
    script.start()
    script.window(10, top1_correct=None, forward_s=None)
    script.validate(500, 900)
    script.finish("all_epochs")
    text = (script.run.events_dir(1) / "trainer.jsonl").read_text()
    for key in ("top1_correct", "forward_s", "backward_s", "exchange_s", "update_s", "ranks"):
        assert f'"{key}":' in text.replace(": ", ":")
    summary = summarize(script.run)
    assert summary.phases[0].parts_s == {} and summary.phases[0].ranks == {}
    assert summary.epochs[0].train_top1 is None and summary.progress[0].train_top1 is None


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("top1_correct", 161, "161 right in top-1 of 160 training images is impossible"),
        ("top1_correct", -1, "-1 right in top-1"),
        ("exchange_s", -0.5, "exchange_s is -0.5, below 0"),
    ],
)
def test_impossible_figures_of_a_window_are_refused(tmp_path, field, value, why):
    script = make_script(tmp_path)
    script.launch()
    script.start()
    script.window(5, **{field: value})
    script.kill()
    with pytest.raises(ReportError, match=why):
        summarize(script.run)
