"""Events as lines of text, and the time that is left."""

import pytest
from record_factory import FakeTime, make_script

from dawnrun.cli.narrate import Narrator, Pace, remaining_s
from dawnrun.recipe.reader import read_text
from dawnrun.recipe.schema import Recipe
from dawnrun.record.events import Event, read_file

RECIPE = """
name: toy
phases:
  - {epochs: 2, image_size: 64, global_batch_size: 32, per_device_batch_size: 16}
  - {epochs: 2, image_size: 96, global_batch_size: 16, per_device_batch_size: 8}
lr: 0.1
target: {top5: 93}
"""


def event(kind: str, **data: object) -> Event:
    return Event(kind=kind, t_s=0.0, utc="", attempt=1, writer="trainer", data=data)


@pytest.fixture
def time():
    return FakeTime()


@pytest.fixture
def narrator(time):
    return Narrator(read_text(RECIPE, Recipe, source="toy.yaml").value, now=lambda: time.seconds)


@pytest.fixture
def events(tmp_path):
    """A run of two epochs of the first phase and one of the second."""
    script = make_script(tmp_path)
    script.launch()
    script.start()
    for _ in range(3):
        script.train_epoch()
        script.validate(500, 900)
        script.save()
    script.finish("preempted")
    return list(read_file(script.run.events_dir(1) / "trainer.jsonl"))


def test_a_run_in_lines(narrator, events, time):
    time.pass_s(70)
    lines = [line for item in events for line in narrator.tell(item)]
    assert lines == [
        "Some CPU, fp32, decoder vision: 320 training and 1,000 validation images of 30 classes, 60 steps",
        "start-up: imports 2.0 s, process group 0.0 s, index 1.0 s, model 0.0 s, first batch 0.0 s",
        "phase 1 of 2 from epoch 1: 64 px, batch 32, data set full",
        "validation after epoch 1: 1,000 images at 64 px: top-1 50.00 %, top-5 90.00 %, 4.0 s",
        "saved checkpoints/step-00000010, 7 B in 1.0 s",
        "validation after epoch 2: 1,000 images at 64 px: top-1 50.00 %, top-5 90.00 %, 4.0 s",
        "saved checkpoints/step-00000020, 7 B in 1.0 s",
        "phase 2 of 2 from epoch 3: 96 px, batch 16, data set full",
        "validation after epoch 3: 1,000 images at 96 px: top-1 50.00 %, top-5 90.00 %, 4.0 s",
        "saved checkpoints/step-00000040, 7 B in 1.0 s",
    ]
    assert narrator.finished == "preempted"
    assert narrator.fraction() == pytest.approx(40 / 60)
    # 20 steps of 0.5 s and a validation of 4 s are left.
    assert narrator.remaining_s() == pytest.approx(14)
    assert narrator.progress_line() == (
        "epoch 3/4 phase 2 96 px step 40/60 loss 1.133 lr 0.06885 32 images/s, 0:01:10 so far, about 0:00:14 left"
    )


def test_what_goes_wrong_is_told(narrator):
    bad = event("data.bad_image", path="train/a/1.jpg", class_name="a", reason="truncated", replaced_by="train/a/2.jpg")
    assert narrator.tell(bad) == ["bad image train/a/1.jpg: truncated; replaced by train/a/2.jpg"]
    failed = event("checkpoint.failed", path="checkpoints/step-1", error="No space left on device")
    assert narrator.tell(failed) == ["checkpoint checkpoints/step-1 could not be saved: No space left on device"]


def test_values_that_are_not_finite(narrator, events):
    for item in events[:5]:
        narrator.tell(item)
    window = next(item for item in events if item.kind == "train.progress")
    narrator.tell(window._replace(data={**window.data, "loss": None}))
    assert "loss not finite" in narrator.status
    invalid = next(item for item in events if item.kind == "eval.finished")
    (line,) = narrator.tell(invalid._replace(data={**invalid.data, "valid": False}))
    assert line.endswith("not valid, outputs are not finite")


def test_unknown_kinds_and_beats(narrator, time):
    """A heartbeat is no sign of progress; kinds of a later version are passed over."""
    time.pass_s(5)
    assert narrator.tell(event("beat")) == []
    assert narrator.quiet_s() == 5
    assert narrator.tell(event("something.new", x=1)) == []
    assert narrator.quiet_s() == 0


def test_a_size_not_seen_is_guessed_by_its_pixels():
    pace = Pace()
    assert pace.seconds_per_image(64) is None
    pace.add(64, 100, 1.0)
    assert pace.seconds_per_image(128) == pytest.approx(0.04)
    pace.add(128, 100, 5.0)
    assert pace.seconds_per_image(128) == pytest.approx(0.05)
    assert pace.seconds_per_image(120) == pytest.approx(0.05 * (120 / 128) ** 2)


def test_time_left_counts_steps_and_validations_ahead():
    epochs = [
        {"phase_index": 0, "steps": 10, "images": 100, "validates": False},
        {"phase_index": 1, "steps": 5, "images": 100, "validates": True},
    ]
    pace = Pace()
    assert remaining_s(epochs, (64, 128), 0, pace) is None
    pace.add(64, 10, 1.0)
    assert remaining_s(epochs, (64, 128), 5, pace) == pytest.approx(5 + 40)
    pace.validation_s = 7.0
    assert remaining_s(epochs, (64, 128), 5, pace) == pytest.approx(5 + 40 + 7)
    assert remaining_s(epochs, (64, 128), 15, pace) == 0


@pytest.mark.parametrize(("execution", "words"), [("eager", "fp32, decoder"), ("compile", "fp32, compile, decoder")])
def test_how_a_step_is_computed_is_told_where_it_is_not_eager(events, execution, words):
    recipe = read_text(RECIPE, Recipe, [f"compute.execution={execution}"], source="toy.yaml").value
    assert words in next(line for item in events for line in Narrator(recipe).tell(item))
