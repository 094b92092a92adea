"""What a recipe asks of its data sets, before a start and in every worker."""

from pathlib import Path

import pytest
from PIL import Image

from dawnrun.dataset import used
from dawnrun.dataset.used import index_used, is_small
from dawnrun.errors import DataError, RecipeError
from dawnrun.recipe.reader import Document, read_text
from dawnrun.recipe.schema import Recipe

RECIPE = """\
name: toy
input: {datasets: {full: set}}
phases: [{epochs: 1, image_size: 32, global_batch_size: 4, per_device_batch_size: 4}]
lr: 0.1
target: {top5: 90}
"""


def document(*overrides: str) -> Document[Recipe]:
    return read_text(RECIPE, Recipe, overrides, source="toy.yaml")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Six classes with two training images and one validation image each; a cache of its own."""
    monkeypatch.setenv("DAWNRUN_CACHE", str(tmp_path / "cache"))
    image = Image.new("RGB", (4, 4))
    for split, names in (("train", "xy"), ("val", "x")):
        for number in range(6):
            folder = tmp_path / "set" / split / f"c.{number}"
            folder.mkdir(parents=True)
            for name in names:
                image.save(folder / f"{name}.png")
    return tmp_path


def test_what_fits_is_counted(root):
    sets = index_used(document("input.num_train_images=12"), root)
    assert sets.num_train_images == 12
    assert len(sets.validation_set) == 6


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (
            lambda root: [path.unlink() for path in (root / "set/train/c.1").iterdir()],
            "1 class folder without an image",
        ),
        (lambda root: (root / "set/val/c.1/x.png").write_bytes(b"no"), "1 unreadable image, 0 allowed"),
        (lambda root: (root / "set/val/c.1").rename(root / "set/val/other"), "class lists differ"),
    ],
)
def test_bad_data_are_refused(root, harm, message):
    """C05."""
    harm(root)
    with pytest.raises(DataError, match=message):
        index_used(document(), root)


def test_another_number_of_images_than_stated(root):
    with pytest.raises(DataError, match=r"full has 12; the recipe needs input\.num_train_images = 3"):
        index_used(document("input.num_train_images=3"), root)


def test_what_the_recipe_asks_of_the_classes_is_told_at_its_line(root):
    for split in ("train", "val"):
        for number in (0, 1):
            (root / "set" / split / f"c.{number}").rename(root / f"{split}{number}")
    with pytest.raises(RecipeError) as caught:
        index_used(document(), root)
    assert str(caught.value).startswith("toy.yaml:5:16: target.top5: the data have 4 classes")


def test_too_few_outputs(root):
    with pytest.raises(RecipeError) as caught:
        index_used(document("model.num_classes=5", "target={top1: 90}"), root)
    index_used(document("model.num_classes=6"), root)
    assert "model.num_classes: 5 outputs are too few for the 6 classes of the data" in str(caught.value)


def test_small_sets_are_told_from_large_ones(root, monkeypatch):
    assert is_small(document().value, root)
    monkeypatch.setattr(used, "FEW_IMAGES", 18)  # 6 folders and 12 images
    assert is_small(document().value, root)
    monkeypatch.setattr(used, "FEW_IMAGES", 17)
    assert not is_small(document().value, root)
