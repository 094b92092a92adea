"""Plans of the published recipes are reviewed text, and agree with what the entries' own times say."""

import csv
import importlib.util
from pathlib import Path

import pytest

from dawnrun.recipe.reader import read
from dawnrun.recipe.schedule import Schedule
from dawnrun.recipe.schema import Recipe

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("make_golden_plans", ROOT / "scripts" / "make_golden_plans.py")
assert SPEC and SPEC.loader
golden = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(golden)
NAMES = golden.published_recipes()
IMAGES = 1_281_167

with (Path(__file__).parent / "data" / "throughput_steps.csv").open(newline="") as file:
    PUBLISHED = list(csv.DictReader(file))


@pytest.mark.parametrize("name", NAMES)
def test_plan_is_the_reviewed_text(name: str) -> None:
    """`make golden` rewrites them; a difference is for review."""
    assert golden.plan_text(name) == (golden.FOLDER / f"{name}.txt").read_text(encoding="utf-8")


def test_every_plan_has_its_recipe() -> None:
    assert sorted(path.stem for path in golden.FOLDER.glob("*.txt")) == NAMES and len(NAMES) == 32


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: f"{row['recipe']}-{row['phase']}")
def test_steps_an_epoch_as_published(row: dict[str, str]) -> None:
    """Image size, batch, steps and images of an epoch, of 47 phases of 15 entries."""
    schedule = Schedule.compile(read(row["recipe"], Recipe).value, IMAGES, 1)
    wanted = tuple(int(row[key]) for key in ("image_px", "global_batch", "batch_per_device"))
    found = [
        epoch
        for epoch in schedule.epochs()
        if (epoch.image_size, epoch.global_batch_size, epoch.per_device_batch_size) == wanted
    ]
    assert found, "no such phase"
    assert {epoch.steps for epoch in found} == {int(row["steps_per_epoch"])}
    assert {epoch.images for epoch in found} == {int(row["padded_images"])}


@pytest.mark.parametrize("name", NAMES)
def test_recipes_say_where_they_come_from(name: str) -> None:
    """A comment at the top names source, clock and choices; each choice is marked with its reason."""
    text = read(name, Recipe).text
    head = text.partition("\nname:")[0]
    assert all(line.startswith("#") for line in head.splitlines())
    assert "Source" in head and "Published clock: " in head and "ublished" in head
    value = read(name, Recipe).value
    assert value.name == name and value.provenance.published and value.provenance.source
    assert value.provenance.confidence == "complete" or "chosen because" in text
    for line in text[len(head) :].splitlines():
        assert "# not " not in line or "chosen because" in line, line
