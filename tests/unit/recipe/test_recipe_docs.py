"""docs/recipes.md says what the schema says."""

import importlib.util
import re
from pathlib import Path

from dawnrun.recipe.curve import value_at
from dawnrun.recipe.pieces import Segment
from dawnrun.recipe.reader import read_text
from dawnrun.recipe.schema import Recipe, Site

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")


def test_tables_are_made_from_the_schema():
    """`python scripts/make_recipe_docs.py` would change nothing."""
    spec = importlib.util.spec_from_file_location("make_recipe_docs", ROOT / "scripts" / "make_recipe_docs.py")
    assert spec and spec.loader
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.page(PAGE) == PAGE
    assert script.page(PAGE.replace("| `seed` |", "| `sed` |")) == PAGE
    assert "| `phases[].validation.resize_px` |" in PAGE and "| `usd_per_node_hour` |" in PAGE


def test_examples_read():
    """Every example in the page is a recipe or a site without problems."""
    recipe_text, site_text, own_text = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)
    recipe = read_text(recipe_text, Recipe, ["phases[1].epochs=2"], source="docs").value
    assert value_at(recipe.lr, 0.75) == 0.45
    assert read_text(site_text, Site, source="docs").value.world_size == 8
    least = "{name: a, lr: 1, phases: [{epochs: 1, image_size: 8, global_batch_size: 1, per_device_batch_size: 1}]}"
    assert read_text(f"<<: {least}\n{own_text}", Recipe, source="docs").value.loss.import_ == "my_losses:Focal"
    for key in (
        "phases[1].epochs=2",
        "lr[0]={epochs: [0, 1.5], start: 1, end: 0}",
        "target.top1=",
        'input.datasets["a.b"]=folder',
    ):
        assert key.split("=")[0] in PAGE
        read_text(recipe_text, Recipe, [key], source="docs")


def test_every_shape_is_in_the_table():
    """A shape without its formula is not documented."""
    for shape in Segment.model_fields["shape"].annotation.__args__:
        assert f"| `{shape}` |" in PAGE
