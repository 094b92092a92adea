"""--shrink and --rescale."""

import math

import pytest

from dawnrun.recipe.builtin import names
from dawnrun.recipe.check import check_recipe
from dawnrun.recipe.curve import bounds
from dawnrun.recipe.dump import resolved_text
from dawnrun.recipe.reader import read, read_text
from dawnrun.recipe.rescale import rescale
from dawnrun.recipe.schedule import Schedule
from dawnrun.recipe.schema import Recipe
from dawnrun.recipe.shrink import shrink


@pytest.mark.parametrize("name", names())
def test_every_recipe_can_be_shrunk(name: str) -> None:
    """All phases, pieces and the update rule stay; it runs on 1 or 2 processes, in a few steps, and reads back."""
    recipe = read(name, Recipe).value
    small = shrink(recipe)
    assert check_recipe(small) == []
    assert read_text(resolved_text(small), Recipe, source="resolved").value == small
    assert len(small.phases) == len(recipe.phases) and small.optimizer == recipe.optimizer
    assert [s.shape for s in small.lr.segments] == [s.shape for s in recipe.lr.segments]
    assert small.momentum.mirror == recipe.momentum.mirror
    assert len(set(sum(small.image_sizes, ()))) >= min(2, len(set(sum(recipe.image_sizes, ()))))
    for world_size in (1, 2):
        schedule = Schedule.compile(small, 150, world_size)
        # One that has small batches only has more steps; a hundred is still a minute.
        assert schedule.total_epochs <= 12 and schedule.total_steps <= 220
        assert max(epoch.image_size for epoch in schedule.epochs()) == 64
        assert max(epoch.global_batch_size for epoch in schedule.epochs()) <= 48
    assert small.provenance.confidence == "shrunk" and small.provenance.source == name
    assert small.provenance.published is None and "reproduces nothing" in (small.provenance.changed or "")
    assert small.name == f"{name}-shrunk" and small.target.top5 is None and small.target.top1 is None
    assert set(small.input.datasets.values()) == {"demo"} and small.input.num_train_images is None


def test_pieces_keep_their_place() -> None:
    """fast.ai's 16 machines: boundaries of phases stay boundaries, rates go with the largest batch (48 / 24,576)."""
    small = shrink(read("fastai-16x8", Recipe).value)
    assert [phase.epochs for phase in small.phases] == [1, 2, 1, 3, 1]
    assert [phase.global_batch_size for phase in small.phases] == [16, 32, 16, 48, 32]
    assert [phase.image_size for phase in small.phases] == [32, 32, 48, 48, 64]
    ends = [segment.epochs for segment in small.lr.segments]
    assert ends == [(0, 1), (1, 3), (3, 4), (4, 6), (6, 7), (7, 8)]
    assert bounds(small.lr)[1] == pytest.approx(3.76 * 48 / 24576, rel=1e-14)


def test_growth_and_average_shrink_too() -> None:
    small = shrink(read("mosaic-mild", Recipe).value)
    assert small.image_sizes == ((32, 40, 56, 64),)
    assert small.average is not None and small.average.every_steps == 1
    assert shrink(read("huawei-9m22", Recipe).value).loss.divide_by == 19  # 8,192 * 48 / 20,480


def test_rescaling() -> None:
    """128 processes to 4: batches by 32, rates by 32 (SGD) or its root (LARS); nothing else but the note."""
    for name, rate in (("huawei-10m28", 1 / 32), ("huawei-2m43", 1 / math.sqrt(32))):
        recipe = read(name, Recipe).value
        other = rescale(recipe, 4)
        assert [p.global_batch_size * 32 for p in other.phases] == [p.global_batch_size for p in recipe.phases]
        assert bounds(other.lr)[1] == pytest.approx(bounds(recipe.lr)[1] * rate, rel=1e-14)
        assert "rescaled from 128 to 4 processes" in (other.provenance.changed or "")
        assert all(epoch.accumulate_steps == 1 for epoch in Schedule.compile(other, 1_281_167, 4).epochs())
        same = {"phases", "lr", "provenance"}
        assert recipe.model_dump(exclude=same) == other.model_dump(exclude=same)
        assert read_text(resolved_text(other), Recipe, source="resolved").value == other
        assert rescale(recipe, 128) is recipe


def test_rescaling_any_number_of_processes() -> None:
    """3 processes cannot share the batch of 128; rescaled they can. Phases keep their ratio; steps keep theirs."""
    other = rescale(read("fastai-1x8-2018-04", Recipe).value, 3)
    assert [p.global_batch_size for p in other.phases] == [576, 576, 384]
    steps = [s for s in other.lr.segments if s.shape == "steps"]
    assert steps[0].end == pytest.approx(steps[0].start / 1000)
    assert read_text(resolved_text(other), Recipe, source="resolved").value == other
