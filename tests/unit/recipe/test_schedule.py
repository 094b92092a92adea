"""The schedule: steps, images and rates of every epoch."""

import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dawnrun.errors import RecipeError
from dawnrun.recipe.course import Validation
from dawnrun.recipe.pieces import Curve, Segment
from dawnrun.recipe.reader import read_text
from dawnrun.recipe.schedule import BatchShape, Schedule
from dawnrun.recipe.schema import Input, Phase, Recipe


def phase(epochs, batch, device_batch=None, **rest):
    return Phase(
        epochs=epochs, image_size=64, global_batch_size=batch, per_device_batch_size=device_batch or batch, **rest
    )


def make(*phases, lr=None, last_batch="fill", **rest):
    return Recipe(name="x", phases=phases, lr=lr or Curve(constant=0.1), input=Input(last_batch=last_batch), **rest)


@pytest.mark.parametrize(
    ("last_batch", "world_size", "steps"),
    [("fill", 1, (13, 21)), ("drop", 1, (12, 20)), ("fill", 2, (7, 11)), ("drop", 2, (6, 10))],
)
def test_steps_of_103_images(last_batch, world_size, steps):
    """C08: 103 images, batches of 8 and 5 for each process."""
    recipe = make(phase(1, 8 * world_size, 8), phase(1, 5 * world_size, 5), last_batch=last_batch)
    schedule = Schedule.compile(recipe, 103, world_size)
    assert tuple(epoch.steps for epoch in schedule.epochs()) == steps
    assert schedule.total_steps == sum(steps)


@pytest.mark.parametrize(
    ("last_batch", "steps", "repeated", "dropped"), [("fill", 626, 881, 0), ("drop", 625, 0, 1167)]
)
def test_steps_of_the_full_data(last_batch, steps, repeated, dropped):
    """C08: 1,281,167 images, 8 processes of 256."""
    (epoch,) = Schedule.compile(make(phase(1, 2048, 256), last_batch=last_batch), 1_281_167, 8).epochs()
    assert (epoch.steps, epoch.repeated_images, epoch.dropped_images) == (steps, repeated, dropped)
    assert epoch.images == steps * 2048 == 1_281_167 + repeated - dropped


def test_batches_that_cross_epochs():
    """`continue`: 3 epochs of 10 images in batches of 4 are round(7.5) = 8 steps; positions go on in the next epoch."""
    schedule = Schedule.compile(make(phase(3, 4), last_batch="continue"), 10, 1)
    assert [(step.epoch, step.first_position) for step in schedule.steps()] == [
        (0, 0), (0, 4), (0, 8), (1, 2), (1, 6), (2, 0), (2, 4), (2, 8),
    ]  # fmt: skip
    assert [(epoch.repeated_images, epoch.dropped_images) for epoch in schedule.epochs()] == [(0, 0), (0, 0), (2, 0)]
    assert [step.ends_epoch for step in schedule.steps()] == [False, False, True, False, True, False, False, True]


def test_run_of_equal_batches_spans_phases():
    """`continue`: phases of one batch size are one run, another batch size starts afresh."""
    schedule = Schedule.compile(make(phase(1, 4), phase(1, 4), phase(1, 5), last_batch="continue"), 10, 1)
    assert [(step.phase_index, step.first_position) for step in schedule.steps()] == [
        (0, 0), (0, 4), (0, 8), (1, 2), (1, 6), (2, 0), (2, 5),
    ]  # fmt: skip


def test_batch_sizes_and_accumulation():
    """C06: 2 machines of 4 processes of 32 images; a larger batch is accumulated."""
    recipe = make(phase(1, 256, 32), phase(1, 1024, 32))
    assert [epoch.accumulate_steps for epoch in Schedule.compile(recipe, 5000, 8).epochs()] == [1, 4]
    assert [epoch.accumulate_steps for epoch in Schedule.compile(recipe, 5000, 1).epochs()] == [8, 32]


def test_world_size_changes_nothing_but_accumulation():
    """The number of processes never changes the maths."""
    recipe = make(phase(2, 64, 8), lr=Curve(segments=(Segment(epochs=(0, 2), start=1, end=0),)))
    one, eight = (list(Schedule.compile(recipe, 1000, size).steps()) for size in (1, 8))
    assert [(a.lr, a.first_position, a.global_batch_size) for a in one] == [
        (b.lr, b.first_position, b.global_batch_size) for b in eight
    ]
    assert {a.accumulate_steps for a in one} == {8} and {b.accumulate_steps for b in eight} == {1}


def test_rates_do_not_depend_on_what_was_asked_before():
    """C07: the rate of a step is the same on its own, in a straight run and after a resume."""
    recipe = make(
        phase(2, 8), phase(2, 5), lr=Curve(segments=(Segment(epochs=(0, 4), start=1, end=0, shape="cosine"),))
    )
    schedule = Schedule.compile(recipe, 103, 1)
    straight = list(schedule.steps())
    resumed = [*list(schedule.steps())[:26], *Schedule.compile(recipe, 103, 1).steps(first=26)]
    assert resumed == straight
    assert [schedule.at(step.step) for step in reversed(straight)] == straight[::-1]
    assert straight[12].lr == pytest.approx(schedule.epochs()[0].lr_last)
    assert straight[-1].lr == 0


@pytest.mark.parametrize("step", [-1, 13])
def test_no_step_beyond_the_run(step):
    """Steps are 0 to total_steps - 1."""
    with pytest.raises(IndexError, match=f"step {step} of 13"):
        Schedule.compile(make(phase(1, 8)), 103, 1).at(step)


@pytest.mark.parametrize(
    ("validation", "epochs"),
    [
        (Validation(), [1, 2, 3, 4, 5, 6, 7]),
        (Validation(every_epochs=3), [1, 4, 7]),
        (Validation(every_epochs=4, from_epoch=2), [2, 6, 7]),
        (Validation(every_epochs=100, from_epoch=3), [3, 7]),
    ],
)
def test_when_validation_is_done(validation, epochs):
    """From `from_epoch`, every so many epochs, and after the last."""
    plans = Schedule.compile(make(phase(7, 8), validation=validation), 103, 1).epochs()
    assert [plan.epoch + 1 for plan in plans if plan.validates] == epochs


def test_shapes_are_listed_once():
    """Warm-up sees each shape once, in order."""
    recipe = make(phase(1, 16, 8), phase(1, 32, 8), phase(1, 8, 4), phase(1, 8, 8))
    assert Schedule.compile(recipe, 103, 1).shapes() == (
        BatchShape(image_size=64, per_device_batch_size=8),
        BatchShape(image_size=64, per_device_batch_size=4),
    )


def problems_of(recipe, num_images, world_size, document=None):
    with pytest.raises(RecipeError) as caught:
        Schedule.compile(recipe, num_images, world_size, document=document)
    return [str(problem) for problem in caught.value.problems]


def test_batch_that_cannot_be_split(plain):
    """The line, the nearest batch sizes that can, and the process counts that can."""
    document = read_text(
        plain.replace("global_batch_size: 16\n", "global_batch_size: 8192\n").replace(
            "    per_device_batch_size: 16", "    per_device_batch_size: 64"
        ),
        Recipe,
        ["phases[0].global_batch_size=8192", "phases[0].per_device_batch_size=64"],
        source="r.yaml",
    )
    hint = "\n    nearest that can: 6144 or 12288; or run on 128 or 64 or 32 processes; or --rescale changes batches and rates"
    assert problems_of(document.value, 10_000, 96, document) == [
        f"--set phases[0].global_batch_size=8192: phases[0].global_batch_size: 8192 cannot be split over 96 processes of 64 images{hint}",
        f"r.yaml:6:24: phases[1].global_batch_size: 8192 cannot be split over 96 processes of 64 images{hint}",
    ]


def test_more_processes_than_a_batch_has_parts():
    """The most that can is named, for all phases together."""
    (problem,) = problems_of(make(phase(1, 96, 8), phase(1, 64, 8)), 1000, 12)
    assert problem.splitlines()[1:] == [
        "    at most 8 processes can share this batch",
        "    nearest that can: 96; or run on 4 or 2 processes; or --rescale changes batches and rates",
    ]


@pytest.mark.parametrize("last_batch", ["drop", "continue"])
def test_epoch_without_a_step(last_batch):
    """A batch larger than the data leaves no step unless it is filled."""
    (problem,) = problems_of(make(phase(1, 100), phase(2, 1000), last_batch=last_batch), 103, 1)
    assert problem.startswith("phases[1].global_batch_size: 1000 is too many for 103 training images")
    assert Schedule.compile(make(phase(1, 1000)), 103, 1).epochs()[0].repeated_images == 897


def test_a_recipe_made_in_code_is_checked_too():
    """compile does not rely on the reader having checked."""
    (problem,) = problems_of(make(phase(3, 8), lr=Curve(segments=(Segment(epochs=(0, 2), start=1, end=0),))), 103, 1)
    assert problem == "lr[0].epochs: no piece covers epochs 2 to 3, the last of the phases"


phases = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 5)), min_size=1, max_size=4)


@settings(max_examples=200, deadline=None)
@given(phases, st.integers(60, 200), st.sampled_from(["fill", "drop", "continue"]), st.sampled_from([1, 2]))
def test_schedules_are_consistent(parts, num_images, last_batch, world_size):
    """Whatever the recipe: steps are numbered without gaps, images add up, at() agrees with steps()."""
    recipe = make(
        *(phase(epochs, device * accumulate * world_size, device) for epochs, device, accumulate in parts),
        last_batch=last_batch,
    )
    schedule = Schedule.compile(recipe, num_images, world_size)
    steps = list(schedule.steps())
    assert [step.step for step in steps] == list(range(schedule.total_steps))
    assert schedule.total_epochs == sum(epochs for epochs, _, _ in parts)
    assert [schedule.at(step.step) for step in steps] == steps
    assert list(schedule.steps(first=len(steps) // 2)) == steps[len(steps) // 2 :]
    for epoch in schedule.epochs():
        own = [step for step in steps if step.epoch == epoch.epoch]
        assert len(own) == epoch.steps == own[0].steps_in_epoch
        assert [step.ends_epoch for step in own] == [False] * (len(own) - 1) + [True]
        assert epoch.images == epoch.steps * epoch.global_batch_size
        assert all(0 <= step.first_position < num_images for step in own)
        assert epoch.accumulate_steps * epoch.per_device_batch_size * world_size == epoch.global_batch_size
        if last_batch != "continue":
            assert epoch.images - epoch.repeated_images + epoch.dropped_images == num_images
            assert epoch.first_position == 0
    if last_batch == "continue":
        for before, after in pairwise(steps):
            if before.global_batch_size == after.global_batch_size:
                moved = (after.epoch - before.epoch) * num_images + after.first_position - before.first_position
                assert moved == before.global_batch_size
        total = sum(epoch.images - epoch.repeated_images + epoch.dropped_images for epoch in schedule.epochs())
        assert total == num_images * schedule.total_epochs


def test_a_hundred_epochs_are_planned_in_no_time():
    """`plan` of 100 epochs takes well under a second; so do all rates of 100 epochs of ImageNet."""
    curve = Curve(segments=tuple(Segment(epochs=(i, i + 1), start=1, end=2, shape="cosine") for i in range(100)))
    started = time.process_time()
    schedule = Schedule.compile(make(phase(100, 4096, 256), lr=curve), 1_281_167, 8)
    assert time.process_time() - started < 0.3
    assert sum(step.lr for step in schedule.steps()) > 0
    assert time.process_time() - started < 3


def test_phase_of_an_epoch_is_the_schedules(plain):
    recipe = read_text(plain, Recipe, source="plain.yaml").value
    for plan in Schedule.compile(recipe, 1000, 1).epochs():
        phase, image_size = recipe.phase_of(plan.epoch)
        assert phase is recipe.phases[plan.phase_index]
        assert image_size == plan.image_size
    with pytest.raises(IndexError):
        recipe.phase_of(recipe.total_epochs)
