"""`dawnrun plan`: what a recipe amounts to."""

import csv
import io
import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from PIL import Image

from dawnrun.cli.plan import plan, validation_batches
from dawnrun.errors import DataError, RecipeError
from dawnrun.recipe.dump import resolved_text
from dawnrun.recipe.reader import read
from dawnrun.recipe.schema import Recipe

RECIPE = """\
name: two-phases
provenance: {confidence: own, published: made for a test}
input: {num_train_images: 103, datasets: {full: images}}
phases:
  - {epochs: 2, image_size: 64, global_batch_size: 8, per_device_batch_size: 8}
  - {epochs: 1, image_size: 96, global_batch_size: 5, per_device_batch_size: 5}
lr:
  - {epochs: [0, 1], start: 0, end: 1.e-4}
  - {epochs: [1, 3], start: 1E-4, end: 0}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a recipe."""
    monkeypatch.chdir(tmp_path)
    Path("r.yaml").write_text(RECIPE)
    return tmp_path


def run(*arguments: str) -> str:
    """Standard output; errors are raised."""
    return CliRunner().invoke(plan, arguments, catch_exceptions=False, standalone_mode=False).output


def run_json(*arguments: str) -> dict:
    """The plan as a mapping; anything but strict JSON is an error."""

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    return json.loads(run(*arguments, "--format", "json"), parse_constant=refuse)


def rows(text: str) -> list[list[str]]:
    """Words of each line."""
    return [line.split() for line in text.splitlines()]


def test_table(folder: Path):
    """C08: steps, images and rates, epochs from 1, all of it narrower than a terminal."""
    text = run("--config", "r.yaml", "--num-val-images", "10")
    assert text.startswith(
        "two-phases: provenance own; made for a test\nsite this-machine: 1 machine x 1 = 1 process\n"
    )
    lines = rows(text)
    assert ["1*", "64", "full", "8/8/8", "1", "13", "+1", "7.692e-06..0.0001", "0.9"] in lines
    assert ["3*", "96", "full", "5/5/5", "1", "21", "+2", "4.762e-05..0", "0.9"] in lines
    assert "3 epochs, 47 steps, 313 training images\n" in text
    assert "validated 3 times: 10 images in 1 batch of at most 100, 0 left out\n" in text
    assert all(len(line.rstrip()) <= 80 for line in text.splitlines())


def test_three_batch_sizes(folder: Path):
    """C06: 2 machines of 4 processes of 32 images: 32, 128 and 256."""
    Path("s.yaml").write_text("name: s\nnodes: 2\nprocesses_per_node: 4\n")
    sets = [f"--set=phases[{i}].{key}" for i in (0, 1) for key in ("global_batch_size=256", "per_device_batch_size=32")]
    text = run("--config", "r.yaml", "--site", "s.yaml", *sets)
    assert "site s: 2 machines x 4 = 8 processes\n" in text
    assert "32/128/256" in text
    (first, *_) = run_json("--config", "r.yaml", "--site", "s.yaml", *sets)["epochs"]
    sizes = [first[f"{name}_batch_size"] for name in ("per_device", "per_node", "global")]
    assert sizes == [32, 128, 256] and first["accumulate_steps"] == 1


def test_json_has_every_epoch(folder: Path):
    """Everything the table is made of, for each epoch."""
    content = run_json("--config", "r.yaml", "--num-val-images", "10", "--set", "validation.from_epoch=3")
    assert [epoch["epoch"] for epoch in content["epochs"]] == [1, 2, 3]
    assert [epoch["first_step"] for epoch in content["epochs"]] == [0, 13, 26]
    assert [epoch["validates"] for epoch in content["epochs"]] == [False, False, True]
    assert content["epochs"][0]["validation"] is None
    assert content["epochs"][2]["validation"]["resize_px"] == 109
    assert content["epochs"][0]["lr_last"] == 1e-4
    assert (content["total_epochs"], content["total_steps"], content["total_images"]) == (3, 47, 313)
    assert content["validation"] == {"num_images": 10, "batch_size": 100, "batches": 1, "left_out": 0}


@pytest.mark.parametrize("number", ["1e-4", "1E-4", "1.e-4", '"1e-4"'])
def test_rates_with_exponents(folder: Path, number: str):
    """C01: written with or without a point, or in quotes, the plan's rate is the same."""
    assert run_json("--config", "r.yaml", "--set", f"lr={number}")["epochs"][0]["lr_first"] == 0.0001


def test_validation_counts_every_image(folder: Path):
    """C21: ImageNet's 50,000 in 49 batches of 1,024, none left out."""
    sets = ("--set", "input.num_train_images=1281167", "--set", "validation.batch_size=1024")
    assert "50,000 images in 49 batches of at most 1,024, 0 left out" in run("--config", "r.yaml", *sets)
    assert "images not counted (--num-val-images N)" in run("--config", "r.yaml")


@pytest.mark.parametrize(
    ("images", "size", "world", "batches"), [(10, 3, 4, 4), (10, 2, 4, 6), (3, 5, 8, 3), (8, 4, 2, 2)]
)
def test_validation_batches(images, size, world, batches):
    """Each process has every W-th image: 3, 3, 2, 2 of 10 for four."""
    assert validation_batches(images, size, world) == batches


def test_processes(folder: Path):
    """--processes fixes what the site leaves open; a batch that cannot be split is shown at its line."""
    sets = ("--set", "phases[0].per_device_batch_size=2", "--set", "phases[1].global_batch_size=40")
    assert run_json("--config", "r.yaml", *sets, "--processes", "4")["world_size"] == 4
    with pytest.raises(RecipeError) as caught:
        run("--config", "r.yaml", "--processes", "4")
    assert str(caught.value).startswith(
        "r.yaml:5:52: phases[0].global_batch_size: 8 cannot be split over 4 processes of 8"
    )


def test_resolved_recipe_plans_the_same(folder: Path):
    """C06: the recipe in a run directory, every value written out, gives the same plan from any folder."""
    (folder / "run").mkdir()
    (folder / "run" / "resolved.yaml").write_text(resolved_text(read("r.yaml", Recipe).value))
    for form in ("table", "json"):
        assert run("--config", "run/resolved.yaml", "--format", form) == run("--config", "r.yaml", "--format", form)


def test_missing_data_are_named_by_their_absolute_path(folder: Path):
    """C05: without a number and without data the folder is named, and what to do."""
    with pytest.raises(DataError) as caught:
        run("--config", "r.yaml", "--set", "input.num_train_images=")
    first, second = str(caught.value).splitlines()
    assert first.startswith(f"{folder}/data/images: no such folder")
    assert "--set input.num_train_images=1281167" in second


def test_images_are_counted_where_no_number_is_given(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """Without input.num_train_images the data are counted, validation images too."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    for split, number in (("train", 7), ("val", 3)):
        for label in ("cat", "dog"):
            place = folder / "data" / "images" / split / label
            place.mkdir(parents=True)
            for image in range(number):
                Image.new("RGB", (20, 15), (image, 9, 9)).save(place / f"{image}.jpg")
    content = run_json("--config", "r.yaml", "--set", "input.num_train_images=")
    assert content["num_train_images"] == 14
    assert content["validation"]["num_images"] == 6


def test_csv_has_every_epoch(folder: Path):
    """The same figures as the JSON form, a row for each epoch."""
    table = list(csv.DictReader(io.StringIO(run("--config", "r.yaml", "--format", "csv"))))
    epochs = run_json("--config", "r.yaml")["epochs"]
    assert len(table) == len(epochs) == 3
    for row, epoch in zip(table, epochs, strict=True):
        assert row == {name: str(value) for name, value in epoch.items() if name != "validation"}


def test_epochs_that_are_not_validated(folder: Path):
    """Only those that are have a star; images that an epoch leaves out are negative; momentum that mirrors has two ends."""
    sets = ("validation.from_epoch=3", "input.last_batch=drop", "momentum={mirror: {low: 0.8, high: 0.9}}")
    lines = rows(run("--config", "r.yaml", *(f"--set={text}" for text in sets)))
    assert ["1", "64", "full", "8/8/8", "1", "12", "-7", "8.333e-06..0.0001", "0.8917..0.8"] in lines
    assert any(line[:1] == ["3*"] for line in lines)


def test_a_hundred_epochs_in_under_a_second(folder: Path):
    """A hundred epochs are planned in a fraction of the second allowed."""
    began = time.perf_counter()
    text = run("--config", "google-tpu-30m43", "--processes", "256")
    assert time.perf_counter() - began < 1
    assert "100 epochs, 15,700 steps" in text
    assert "warning: " not in text


def test_plans_of_changed_recipes_warn(folder: Path):
    """--rescale and --shrink say what they changed; a recipe with unpublished settings says so."""
    text = run("--config", "huawei-2m43", "--rescale", "--processes", "3")
    assert "warning: this is not the recipe as it is written: rescaled from 128 to 3 processes" in text
    assert "warning: guessed: most of its decisive settings were never published" in text
    assert "256/768/768" in text
    content = run_json("--config", "fastai-1x8", "--rescale", "--processes", "4")
    assert "batches x 0.5, rates x 0.5 (linear rule)" in content["warnings"][0]
    with pytest.raises(RecipeError, match="or --rescale changes batches and rates"):
        run("--config", "huawei-2m43", "--processes", "3")


def test_a_recipe_in_a_run_is_planned_on_its_site(folder: Path):
    """C06: planning the resolved recipe of a run prints the plan that it was started with, from any folder."""
    Path("s.yaml").write_text("{name: two, nodes: 1, processes_per_node: 2}\n")
    sets = [f"--set=phases[{i}].{key}=4" for i in (0, 1) for key in ("global_batch_size", "per_device_batch_size")]
    sets = [word.replace("global_batch_size=4", "global_batch_size=8") for word in sets]
    before = run("--config", "r.yaml", "--site", "s.yaml", *sets)
    (folder / "run").mkdir()
    recipe = read("r.yaml", Recipe, [word.removeprefix("--set=") for word in sets]).value
    (folder / "run/resolved.yaml").write_text(resolved_text(recipe))
    (folder / "run/site.yaml").write_text(Path("s.yaml").read_text())
    assert run("--config", "run/resolved.yaml") == before
    assert "1 machine x 3" in run("--config", "run/resolved.yaml", "--processes", "3", "--rescale")


def test_data_root(folder: Path):
    image = Image.new("RGB", (4, 4))
    for split in ("train", "val"):
        (folder / "elsewhere/images" / split / "a").mkdir(parents=True)
        for number in range(9):
            image.save(folder / f"elsewhere/images/{split}/a/{number}.png")
    found = run_json("--config", "r.yaml", "--set", "input.num_train_images=null", "--data-root", "elsewhere")
    assert found["num_train_images"] == 9
