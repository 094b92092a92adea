"""Resumes with other data or another target are said, and claim nothing backwards."""

import pytest
from record_factory import make_script
from record_values import one_phase

from dawnrun.record.summary import summarize
from dawnrun.report import words


def _resumed(tmp_path, *, target=None, reason="all_epochs", **changes):
    """Two epochs, then two more by a second attempt, with another target or other fields of `run.started`."""
    recipe = {**one_phase(4), "target": {"top5": None, "top1": 70.0, "stop": False}}
    script = make_script(tmp_path, recipe=recipe)
    script.launch()
    script.start()
    for correct in (300, 400):
        script.train_epoch()
        script.validate(correct, 800)
    script.finish("preempted")
    if target is not None:
        script.recipe = {**recipe, "target": target}
    script.num_val_images = changes.get("num_val_images", script.num_val_images)
    script.launch()
    script.start(first_step=20, **changes)
    for correct in (350, 450):
        script.train_epoch()
        script.validate(correct, 800)
    script.finish(reason)
    return summarize(script.run)


def test_a_target_that_was_lowered_is_not_reached_backwards(tmp_path):
    """Epochs 1 and 2 are above the new target too, but it was not asked for when they were validated."""
    summary = _resumed(tmp_path, target={"top5": None, "top1": 5.0, "stop": True})
    assert [(c.name, c.epoch) for c in summary.crossings] == [("target", 3), ("top1", 3)]
    assert [row.attempt for row in summary.epochs] == [1, 1, 2, 2]
    assert words.outcome(summary).endswith("; the target was changed in attempt 2 and counts from there on")
    assert summary.remarks[0].startswith("attempt 2 changed the target from top-1 70 % to top-1 5 %: ")


def test_a_target_that_only_an_earlier_attempt_passed_is_not_reached(tmp_path):
    """Whatever the trainer ended with: it had reached 70 %, and 80 % was asked for afterwards."""
    summary = _resumed(tmp_path, target={"top5": 90.0, "top1": None, "stop": True}, reason="target_reached")
    assert summary.crossings == ()
    assert words.outcome(summary).startswith("target not reached: top-5 of 90 %")
    assert "the target was changed in attempt 2" in words.outcome(summary)


def test_stop_may_change_freely(tmp_path):
    summary = _resumed(tmp_path, target={"top5": None, "top1": 70.0, "stop": True})
    assert "changed" not in words.outcome(summary)
    assert not any("target" in remark for remark in summary.remarks)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"num_val_images": 900}, "900 validation images, not 1,000"),
        ({"num_train_images": 321}, "321 training images, not 320"),
        ({"num_classes": 31}, "31 classes, not 30"),
        ({"classes_sha256": "9" * 64}, "other names of classes"),
        ({"data_fingerprints": {"full": {"train": "3" * 64, "val": "9" * 64}}}, "other files in full/val"),
        ({"data_fingerprints": {"full": {"train": "9" * 64, "val": "9" * 64}}}, "other files in full/train, full/val"),
    ],
)
def test_other_data_after_a_resume_is_remarked(tmp_path, changes, said):
    summary = _resumed(tmp_path, **changes)
    assert summary.remarks[0].startswith(f"attempt 2 read other data than attempt 1: {said}")


def test_one_number_of_images_is_stated_everywhere(tmp_path):
    summary = _resumed(tmp_path, num_val_images=900)
    assert "900 validation images" in words.data_text(summary)
    assert any("(30 classes, 320 and 900 images)" in remark for remark in summary.remarks)


def test_the_same_data_and_fields_that_are_missing_need_no_remark(tmp_path):
    assert not any("other data" in remark for remark in _resumed(tmp_path / "a").remarks)
    summary = _resumed(tmp_path / "b", data_fingerprints=None)
    assert not any("other data" in remark for remark in summary.remarks)
