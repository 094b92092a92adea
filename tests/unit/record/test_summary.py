"""What a run amounts to: rows, crossings, cost, status."""

import math
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from record_factory import START, make_run, make_script
from record_values import one_phase, site_values

from dawnrun.errors import UsageError
from dawnrun.record.events import read_events
from dawnrun.record.summary import summarize, summarize_events


def test_a_whole_run(tmp_path):
    run = make_run(tmp_path)
    summary = summarize(run.path)
    assert (summary.status, summary.reason, summary.path) == ("finished", "all_epochs", str(run.path))
    assert (summary.run_id, summary.name, summary.nodes) == (run.path.name, "toy", 1)
    assert (summary.total_epochs, summary.total_steps, summary.steps_done) == (4, 60, 60)
    assert summary.spent == {
        "initialise": 2,
        "data_setup": 1,
        "training": 30,
        "validation": 16,
        "checkpoint": 4,
        "idle": 0,
    }
    assert summary.startup_s["imports_s"] == 2
    assert summary.images_per_second == pytest.approx(1280 / 30)
    assert summary.input_wait_s == pytest.approx(0.6)
    assert [checkpoint["step"] for checkpoint in summary.checkpoints] == [10, 20, 40, 60]
    assert (summary.skipped_steps, summary.bad_images, summary.failures) == (0, (), ())
    assert [attempt.ended for attempt in summary.attempts] == ["all_epochs"]


def test_an_epoch_row_holds_what_was_trained_and_seen(tmp_path):
    row = summarize(make_run(tmp_path)).epochs[2]
    assert (row.epoch, row.step, row.phase_index, row.image_size, row.global_batch_size) == (3, 40, 1, 96, 16)
    assert (row.images, row.images_per_second, row.momentum_last) == (320, 32, 0.9)
    assert row.lr_last == pytest.approx(0.2 * (1 - 40 / 61))
    assert row.train_loss == pytest.approx(sum(3.4 / (1 + 0.05 * step) for step in (25, 30, 35, 40)) / 4)
    assert (row.top1, row.top5, row.top1_correct, row.top5_correct) == (60, 94, 600, 940)
    assert row.validation_loss == pytest.approx(1.8)
    assert row.spent == {"initialise": 2, "data_setup": 1, "training": 20, "validation": 8, "checkpoint": 2, "idle": 0}
    assert row.known_spent == {**row.spent, "validation": 12}


def test_each_row_says_how_it_was_validated(tmp_path):
    """C22: size, crop and number of images of each epoch."""
    for row in summarize(make_run(tmp_path)).epochs:
        seen = (row.validation["image_size"], row.validation["resize_px"], row.validation["rectangular"])
        assert seen == (row.image_size, int(1.14 * row.image_size), False)
        assert (row.num_val_images, row.validation["num_processes"]) == (1000, 1)


def test_phase_rows(tmp_path):
    phases = summarize(make_run(tmp_path)).phases
    assert [(p.first_epoch, p.last_epoch, p.steps, p.images) for p in phases] == [(1, 2, 20, 640), (3, 4, 40, 640)]
    assert [(p.training_s, p.images_per_second, p.first_step_s) for p in phases] == [(10, 64, 0.5), (20, 32, 0.5)]
    assert [(p.global_batch_size, p.per_device_batch_size, p.accumulate_steps) for p in phases] == [
        (32, 16, 2),
        (16, 8, 2),
    ]


def test_progress_points_place_every_window(tmp_path):
    points = summarize(make_run(tmp_path)).progress
    assert [point.step for point in points] == list(range(5, 61, 5))
    assert [point.epoch for point in points][:5] == [0.5, 1, 1.5, 2, 2.25]
    assert [point.training_s for point in points] == [step / 2 for step in range(5, 61, 5)]


def test_the_time_is_that_of_the_first_crossing(tmp_path):
    """C37: rows 92.5, 93.01, 92.8, 93.4 at 0.1, 0.2, 0.3, 0.4 h give 0.2 h, epoch 2."""
    script = make_script(tmp_path, recipe=one_phase(4), num_val_images=10_000, step_s=36.0, eval_s=0.0)
    script.launch()
    script.start(imports_s=0, data_s=0)
    for correct in (9250, 9301, 9280, 9340):
        script.train_epoch()
        script.validate(5000, correct)
    script.finish("all_epochs")
    crossing = summarize(script.run).crossing()
    assert crossing is not None
    assert (crossing.epoch, crossing.step, crossing.top5) == (2, 20, 93.01)
    assert crossing.time_to_accuracy_s("dawnbench") == pytest.approx(0.2 * 3600)


def test_a_run_that_never_crosses_has_no_time(tmp_path):
    """C37"""
    summary = summarize(make_run(tmp_path, accuracies=[(500, 929)] * 3))
    assert summary.crossings == ()
    assert summary.cost_to_accuracy_usd() is None


@pytest.mark.parametrize(("correct", "reached"), [(929, False), (930, True)])
def test_the_target_is_reached_at_its_very_value(tmp_path, correct, reached):
    summary = summarize(make_run(tmp_path, accuracies=[(500, correct)]))
    assert bool(summary.crossings) == reached


def test_accuracy_is_not_rounded_before_it_is_compared(tmp_path):
    run = make_run(tmp_path, accuracies=[(20_000, 46_499)], num_val_images=50_000)
    assert summarize(run).epochs[0].top5 == 92.998
    assert summarize(run).crossings == ()


def test_a_target_of_both_needs_both_in_one_validation(tmp_path):
    recipe = {"target": {"top5": 93.0, "top1": 60.0, "stop": False}}
    run = make_run(tmp_path, accuracies=[(590, 940), (610, 920), (610, 935)], recipe=recipe)
    crossings = {crossing.name: crossing for crossing in summarize(run).crossings}
    assert {name: crossing.epoch for name, crossing in crossings.items()} == {"target": 3, "top5": 1, "top1": 2}
    assert crossings["target"].threshold == {"top5": 93.0, "top1": 60.0}


def test_a_result_that_is_not_valid_claims_nothing(tmp_path):
    """C40: outputs that are not finite; the summary stays strict JSON material."""
    script = make_script(tmp_path, recipe=one_phase(2))
    script.launch()
    script.start()
    script.train_epoch()
    script.validate(999, 1000, valid=False, loss=math.nan, top1_correct=None)
    script.window(5, loss=math.nan)
    script.train_epoch()
    script.validate(500, 900)
    script.finish("all_epochs")
    summary = summarize(script.run)
    assert summary.crossings == ()
    assert (summary.epochs[0].top1, summary.epochs[0].top5, summary.epochs[0].validation_loss) == (None, None, None)
    assert (summary.epochs[0].train_loss is None, summary.epochs[1].train_loss) == (False, None)
    assert "the validation of epoch 1 is not valid: the network's outputs were not finite" in summary.remarks
    assert [point.loss is None for point in summary.progress] == [False, False, True, False]


def test_cost_is_the_price_of_all_nodes(tmp_path):
    """C39: 16 nodes at 24.48 per hour cost 391.68 per hour, 0.3 h of them 117.50."""
    site = site_values(nodes=16, usd_per_node_hour=24.48)
    script = make_script(tmp_path, recipe=one_phase(1), site=site, step_s=108.0, eval_s=0)
    script.launch()
    script.start(imports_s=0, data_s=0)
    script.train_epoch()
    script.validate(700, 930)
    script.finish("target_reached")
    summary = summarize(script.run)
    assert summary.usd_per_hour == pytest.approx(391.68)
    assert summary.cost_to_accuracy_usd() == pytest.approx(117.504)
    assert summarize(make_run(tmp_path, site={"usd_per_node_hour": None})).cost_to_accuracy_usd() is None


def test_each_rule_has_its_own_moment(tmp_path):
    crossing = summarize(make_run(tmp_path)).crossing()
    assert crossing is not None
    times = {rule: crossing.time_to_accuracy_s(rule) for rule in ("dawnbench", "training", "mlperf", "everything")}
    assert times == {"dawnbench": 23, "training": 20, "mlperf": 35, "everything": 37}


@pytest.mark.parametrize(
    ("finish", "status", "reason"),
    [
        (lambda s: s.finish("preempted"), "preempted", "preempted"),
        (lambda s: s.finish("interrupted"), "interrupted", "interrupted"),
        (lambda s: s.kill(), "failed", "ended by signal 9"),
        (lambda s: s._close(exit_code=5, reason="exited"), "failed", "exit code 5"),
        (lambda s: s._close(exit_code=75, reason="exited"), "preempted", "exit code 75"),
        (lambda s: s._close(signal=2, reason="interrupted"), "interrupted", "interrupted"),
        (lambda s: s._close(reason="lost"), "unknown", "its log ends without a reason"),
        (lambda s: s.kill(seen=False), "unknown", "its log ends without a reason"),
    ],
)
def test_how_a_run_ended(tmp_path, finish, status, reason):
    script = make_script(tmp_path)
    script.launch()
    script.start()
    finish(script)
    summary = summarize(script.run)
    assert (summary.status, summary.reason) == (status, reason)
    why = "" if reason == status else f" ({reason})"
    assert f"the run is not complete: {status}{why}" in summary.remarks


def test_the_first_worker_to_fail_is_the_reason(tmp_path):
    script = make_script(tmp_path)
    script.launch()
    script.start()
    for rank in (1, 0):
        script.write(
            "worker.failed",
            rank=rank,
            host="h",
            pid=1,
            error="RuntimeError",
            message="boom",
            step=0,
            epoch=0,
            exit_code=1,
        )
    script.kill()
    summary = summarize(script.run)
    assert (summary.status, summary.reason) == ("failed", "rank 1: RuntimeError: boom")
    assert [failure["rank"] for failure in summary.failures] == [1, 0]


@pytest.mark.parametrize(("age_s", "status"), [(10, "running"), (61, "unknown")])
def test_a_live_run_is_told_from_a_killed_one_by_the_age_of_its_log(tmp_path, age_s, status):
    script = make_script(tmp_path)
    script.launch()
    script.start()
    script.train(15)
    summary = summarize(script.run, utc_now=lambda: script.time.utc + timedelta(seconds=age_s))
    assert summary.status == status
    assert [row.epoch for row in summary.epochs] == [1]
    script.kill()


def test_a_folder_that_is_no_run(tmp_path):
    with pytest.raises(UsageError, match="not a run directory"):
        summarize(tmp_path)


def test_a_run_without_events(tmp_path):
    summary = summarize(make_script(tmp_path).run)
    assert (summary.status, summary.reason, summary.epochs, summary.recipe) == ("unknown", "it has no events", (), {})


def test_summarize_events_is_pure(tmp_path):
    run = make_run(tmp_path)
    events = list(read_events(run, superseded=True))
    assert summarize_events(events, path=str(run.path), utc_now=lambda: START) == summarize(run)


def _attempts(tmp_path, starts):
    """A run whose attempts start after and end at these steps; None: the trainer never started."""
    script = make_script(tmp_path, recipe=one_phase(6), window_steps=4)
    for covered in starts:
        script.launch()
        if covered is not None:
            script.start(first_step=covered[0])
            while script.step < covered[1]:
                end = script.ends(script.epoch)
                script.train(min(end, covered[1]) - script.step)
                if script.step == end:
                    script.validate(300, 600)
        script.kill()
    return summarize(script.run).attempts


def test_a_step_is_lost_once(tmp_path):
    """Steps 1 to 24, 25 to 56, nothing, 49 to 56, then from the start: 24 + 32 + 8 steps were done for nothing."""
    attempts = _attempts(tmp_path, [(0, 24), (24, 56), None, (48, 56), (0, 8)])
    assert [attempt.lost_steps for attempt in attempts] == [24, 32, 0, 8, 0]


@st.composite
def _histories(draw):
    """Attempts that start at or before the step that was reached, as resumes do."""
    reached, attempts = 0, []
    for _ in range(draw(st.integers(1, 5))):
        if draw(st.integers(0, 4)) == 0:
            attempts.append(None)
            continue
        first = draw(st.integers(0, reached))
        reached = draw(st.integers(first, min(60, first + 25)))
        attempts.append((first, reached))
    return attempts


@settings(max_examples=40, deadline=None)
@given(history=_histories())
def test_lost_steps_are_those_of_a_model_that_keeps_every_step(tmp_path_factory, history):
    kept, lost = [], [0] * len(history)
    for attempt, covered in enumerate(history):
        if covered is None:
            continue
        for maker in kept[covered[0] :]:
            lost[maker] += 1
        kept = kept[: covered[0]] + [attempt] * (covered[1] - covered[0])
    attempts = _attempts(tmp_path_factory.mktemp("run"), history)
    assert [attempt.lost_steps for attempt in attempts] == lost
