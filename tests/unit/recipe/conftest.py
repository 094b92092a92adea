"""Recipes for the tests of dawnrun.recipe."""

from collections.abc import Callable, Sequence

import pytest

from dawnrun.errors import RecipeError
from dawnrun.recipe.reader import Document, read_text
from dawnrun.recipe.schema import Recipe

PLAIN = """\
name: plain
phases:
  - {epochs: 2, image_size: 64, global_batch_size: 32, per_device_batch_size: 16}
  - epochs: 1
    image_size: 96
    global_batch_size: 16
    per_device_batch_size: 16
lr:
  - {epochs: [0, 1.5], start: 0.1, end: 0.2}
  - {epochs: [1.5, 3], start: 0.2, end: 0.01, shape: cosine}
"""


@pytest.fixture
def plain() -> str:
    """Text of a small recipe that is right."""
    return PLAIN


@pytest.fixture
def recipe() -> Callable[..., Recipe]:
    """Read a recipe from text, `--set` arguments after it."""

    def read(text: str = PLAIN, *overrides: str) -> Recipe:
        return read_text(text, Recipe, overrides, source="r.yaml").value

    return read


@pytest.fixture
def problems() -> Callable[..., list[str]]:
    """The problems of a text, as a user reads them."""

    def read(text: str, overrides: Sequence[str] = (), kind: type = Recipe) -> list[str]:
        try:
            document: Document = read_text(text, kind, overrides, source="r.yaml")
        except RecipeError as error:
            return [str(problem) for problem in error.problems]
        raise AssertionError(f"no problem was found: {document.value}")

    return read
