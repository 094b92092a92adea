"""A validation at another size has its buffers made for that size."""

import pytest

from dawnrun.dataset.views import view_shapes
from dawnrun.recipe.schema import Recipe
from dawnrun.train.validate import _seen_at

VALUES = {
    "name": "toy",
    "lr": 0.1,
    "phases": [{"epochs": 1, "image_size": 64, "global_batch_size": 8, "per_device_batch_size": 8}],
    "validation": {"batch_size": 100},
}


@pytest.mark.parametrize(("image_size", "batch_size"), [(32, 100), (64, 100), (128, 25), (640, 1), (4096, 1)])
def test_buffers_hold_the_view_that_is_asked_for(image_size: int, batch_size: int) -> None:
    recipe = Recipe.model_validate(VALUES)
    (phase,) = recipe.phases
    asked, view = _seen_at(recipe, phase, phase.validation.resolved(64), image_size)
    assert (view.image_size, view.resize_px) == (image_size, image_size * 114 // 100)
    assert view_shapes(asked.phases[0].validation, 64) == ((image_size, image_size),)
    assert asked.validation.batch_size == batch_size
    assert recipe.validation.batch_size == 100
