"""What a run amounts to: rows, crossings, attempts, remarks."""

import json
import math
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from record_factory import START, make_run, make_script
from record_values import phase_values, recipe_values, site_values

from dawnrun.clock import SPAN_KINDS
from dawnrun.errors import ReportError, UsageError
from dawnrun.record.events import read_events
from dawnrun.record.rundir import RunDir
from dawnrun.record.summary import summarize, summarize_events


def one_phase(epochs: int, **changes: object) -> dict:
    return recipe_values(phases=[{**phase_values(epochs, 64, 32), **changes}])


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


def test_five_classes_never_claim_top5(tmp_path):
    recipe = {"target": {"top5": 93.0, "top1": 60.0, "stop": False}}
    summary = summarize(make_run(tmp_path, accuracies=[(700, 1000)], recipe=recipe, num_classes=5))
    assert [crossing.name for crossing in summary.crossings] == ["top1"]
    assert "top-5 means nothing with 5 classes: it claims no target" in summary.remarks


def test_ten_classes_make_top5_no_test(tmp_path):
    summary = summarize(make_run(tmp_path, num_classes=10))
    assert summary.crossing() is not None
    assert "top-5 tests little with 10 classes: 50 % is reached by guessing" in summary.remarks


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
    script.validate(500, 950)
    script.train_epoch()
    script.validate(600, 960)
    script.finish("all_epochs")
    summary = summarize(script.run)
    assert [row.epoch for row in summary.epochs] == [1, 2]
    crossing = summary.crossing()
    assert crossing is not None
    assert crossing.time_to_accuracy_s("training") == 5


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


def test_remarks_name_what_a_reader_must_know(tmp_path):
    """C19, C22, C24: other data, other validation size, skipped steps."""
    script = make_script(tmp_path, recipe=one_phase(3), num_train_images=320)
    script.launch()
    script.start()
    for epoch in range(3):
        script.window(5, skipped_steps=epoch)
        script.train_epoch()
        script.validate(500, 900, image_size=64 if epoch == 1 else 128, flip_average=epoch == 2)
    for _ in range(2):
        script.write(
            "data.bad_image", path="train/a/x.jpg", class_name="a", reason="cut", split="train", rank=0, replaced_by="y"
        )
    script.write("checkpoint.failed", step=30, epoch=2, path="checkpoints/x", bytes=5, error="No space left on device")
    script.finish("all_epochs")
    summary = summarize(script.run)
    assert summary.remarks == (
        "not the full ILSVRC2012 set (30 classes, 320 and 1,000 images)",
        "validated at 128 px after training at 64 px in epochs 1, 3",
        "validated with the mean of each image and its mirror image in epoch 3",
        "3 steps skipped because gradients overflowed",
        "1 unreadable image replaced by others",
        "the checkpoint of step 30 was not saved: No space left on device",
    )
    assert (summary.skipped_steps, len(summary.bad_images), summary.failures[0]["kind"]) == (3, 1, "checkpoint.failed")


def test_the_full_set_carries_no_remark(tmp_path):
    settings = {"num_classes": 1000, "num_train_images": 1_281_167, "num_val_images": 50_000, "window_steps": 100_000}
    assert summarize(make_run(tmp_path, accuracies=[(35_000, 46_500)], **settings)).remarks == ()


def test_attempts_on_sites_of_different_prices(tmp_path):
    script = make_script(tmp_path)
    script.launch()
    script.start()
    script.kill()
    script.site["usd_per_node_hour"] = 7.2
    script.launch()
    script.start()
    script.kill()
    summary = summarize(script.run)
    assert summary.usd_per_hour == 7.2
    assert "the attempts ran on sites of different prices: costs are at the price of the last one" in summary.remarks


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
    assert f"the run is not complete: {status} ({reason})" in summary.remarks


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


def edited(run: RunDir, old: str, new: str) -> RunDir:
    path = run.events_dir(1) / "trainer.jsonl"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return run


def without(run: RunDir, *removed: tuple[str, int]) -> RunDir:
    """The run without the events of these kinds and steps."""
    path = run.events_dir(1) / "trainer.jsonl"
    events = [json.loads(line) for line in path.read_text().splitlines()]
    kept = [event for event in events if (event["kind"], event["data"].get("step")) not in removed]
    assert len(kept) == len(events) - len(removed)
    path.write_text("".join(json.dumps(event) + "\n" for event in kept))
    return run


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"top5_correct":925', '"top5_correct":0.925', "top5_correct is 0.925: a count of images is a whole number"),
        ('"top5_correct":925', '"top5_correct":92.5', "a whole number, never a fraction or a percentage"),
        ('"top5_correct":925', '"top5_correct":true', "a count of images is a whole number"),
        ('"top5_correct":925', '"top5_correct":1001', "500 right in top-1 and 1001 in top-5 of 1000 images is impossible"),
        ('"top1_correct":500', '"top1_correct":-1', "is impossible"),
        ('"top1_correct":500', '"top1_correct":930', "930 right in top-1 and 925 in top-5"),
        ('"num_images":1000', '"num_images":990', "990 images were validated, the set has 1000"),
        ('"step":20,"epoch":1,"num_images"', '"step":19,"epoch":1,"num_images"', "its epoch ends at step 20"),
        ('"images":160', '"images":-160', "images is -160, below 0"),
        ('"window_s":2.5', '"window_s":-2.5', "window_s is -2.5, below 0"),
        ('"window_s":2.5', '"window_s":"2.5"', "a field is missing or of the wrong kind"),
        ('"lr":', '"rate":', "a field is missing or of the wrong kind"),
        ('"step":15,"first_step":10', '"step":10,"first_step":10', "its steps do not lie in its epoch"),
        ('"step":20,"first_step":15,"epoch":1', '"step":20,"first_step":15,"epoch":9', "a field is missing or of the wrong kind"),
        ('"reason":"all_epochs"', '"reason":"target_reached"', "no validation in its record reached it"),
    ],
)  # fmt: skip
def test_a_record_that_was_edited_is_refused_with_the_reason(tmp_path, old, new, reason):
    """C38: nothing is silently multiplied or left out."""
    run = make_run(tmp_path, accuracies=[(300, 800), (500, 925), (600, 926), (610, 928)])
    with pytest.raises(ReportError) as caught:
        summarize(edited(run, old, new))
    assert reason in str(caught.value)
    assert str(caught.value).startswith(str(run.path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("removed", "reason"),
    [
        ([("train.progress", 15)], "its first step follows 15, but 10 were recorded before"),
        ([("train.progress", 60)], "training is recorded up to step 55 only"),
        ([("train.progress", 60), ("snapshot.taken", 60), ("eval.finished", 60)], "55 of 60 steps are recorded"),
        ([("snapshot.taken", 40)], "no snapshot.taken says when these weights were frozen"),
        ([("snapshot.taken", 40), ("eval.finished", 40)], "the schedule validates after epoch 3"),
        ([("snapshot.taken", 60), ("eval.finished", 60)], "the schedule validates after epoch 4"),
        ([("phase.started", 20)], "no phase.started"),
    ],
)
def test_a_record_with_a_row_removed_is_refused_with_the_reason(tmp_path, removed, reason):
    """C38"""
    with pytest.raises(ReportError) as caught:
        summarize(without(make_run(tmp_path), *removed))
    assert reason in str(caught.value)


def test_an_epoch_that_the_schedule_does_not_validate_needs_no_result(tmp_path):
    script = make_script(tmp_path, recipe=one_phase(2))
    plan = [{**script.plan[0], "validates": False}, script.plan[1]]
    script.launch()
    script.start(epochs=plan)
    script.train_epoch()
    script.train_epoch()
    script.validate(600, 960)
    script.finish("all_epochs")
    first, second = summarize(script.run).epochs
    assert (first.epoch, first.top5, first.known_spent, first.validation) == (1, None, None, {})
    assert first.spent["training"] == 5
    assert second.top5 == 96


def test_a_killed_run_may_miss_its_last_validation(tmp_path):
    script = make_script(tmp_path, recipe=one_phase(2))
    script.launch()
    script.start()
    script.train_epoch()
    script.kill()
    assert [row.top5 for row in summarize(script.run).epochs] == [None]


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


def test_summarize_events_is_pure(tmp_path):
    run = make_run(tmp_path)
    events = list(read_events(run, superseded=True))
    assert summarize_events(events, path=str(run.path), utc_now=lambda: START) == summarize(run)


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
