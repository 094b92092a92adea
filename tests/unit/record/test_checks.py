"""A record that contradicts itself is refused with the reason; one that was cut short is not."""

import json

import pytest
from record_factory import make_run, make_script
from record_values import one_phase

from dawnrun.errors import ReportError
from dawnrun.record.rundir import RunDir
from dawnrun.record.summary import summarize


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
