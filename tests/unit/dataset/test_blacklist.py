"""Validation without ILSVRC2012's blacklisted images: a view of the whole set is the set made without them."""

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from ilsvrc_archives import jpeg, val_class, write_archives, write_kit

from dawnrun.cli.data import data
from dawnrun.cli.validate import _without_blacklisted
from dawnrun.dataset.devkit import without_blacklisted
from dawnrun.dataset.index import DatasetIndex, build_index
from dawnrun.dataset.used import index_used
from dawnrun.errors import DataError, UsageError
from dawnrun.recipe.reader import read_text
from dawnrun.recipe.schema import Recipe

RECIPE = """\
name: toy
phases: [{epochs: 1, image_size: 32, global_batch_size: 4, per_device_batch_size: 4}]
lr: 0.1
"""


def run(*arguments: str | Path) -> None:
    assert CliRunner().invoke(data, [str(argument) for argument in arguments]).exit_code == 0


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`whole` and `less`, in class folders; `shards` made of `whole`; black.txt."""
    monkeypatch.setenv("DAWNRUN_CACHE", str(tmp_path / "cache"))
    train, val = write_archives(tmp_path)
    (tmp_path / "black.txt").write_text("2\n6\n")
    made = ("imagenet", "--train", train, "--val", val, "--devkit", write_kit(tmp_path), "--any-size", "--out")
    run(*made, tmp_path / "whole")
    run(*made, tmp_path / "less", "--exclude-blacklisted", "--blacklist-file", tmp_path / "black.txt")
    run("pack", tmp_path / "whole", tmp_path / "shards")
    return tmp_path


def same(one: DatasetIndex, other: DatasetIndex) -> None:
    for field in fields(one):
        if field.name not in ("folder", "shards", "verdict"):
            np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name), err_msg=field.name)
    assert [one.read(i) for i in range(len(one))] == [other.read(i) for i in range(len(other))]


@pytest.mark.parametrize("store", ["whole", "shards"])
def test_the_view_is_the_set_made_without_them(root: Path, store: str) -> None:
    less = build_index(root / "less", "val")
    view = without_blacklisted(build_index(root / store, "val"), root / "black.txt")
    assert len(view) == len(less) == 4
    if store == "whole":
        same(view, less)
    assert {
        name.rpartition("/")[2]: view.classes[label] for name, label in zip(view.names, view.labels, strict=True)
    } == {f"ILSVRC2012_val_{n:08d}.JPEG": val_class(n) for n in (1, 3, 4, 5)}
    assert sorted(view.read(i) for i in range(4)) == sorted(jpeg(f"val {n}") for n in (1, 3, 4, 5))
    same(without_blacklisted(less, root / "black.txt"), less)


def test_a_recipe_asks_for_it(root: Path) -> None:
    document = read_text(RECIPE, Recipe, ("validation.blacklist_file=../black.txt",), source="toy.yaml")
    sets = index_used(document, root / "whole")
    assert (len(sets.validation_set), sets.num_train_images) == (4, 9)
    assert sets.validation_set.fingerprint == build_index(root / "less", "val").fingerprint


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "nothing in it"), ("1\nx\n", "is not a list of image numbers"), ("0\n", "zero in it"), (None, "cannot read")],
)
def test_bad_lists(root: Path, text: str | None, message: str) -> None:
    (root / "black.txt").unlink() if text is None else (root / "black.txt").write_text(text)
    with pytest.raises(DataError, match=message):
        without_blacklisted(build_index(root / "whole", "val"), root / "black.txt")


def test_other_names_are_refused(root: Path) -> None:
    path = next((root / "whole/val").rglob("*1.JPEG"))
    path.rename(path.with_name("cat.jpg"))
    with pytest.raises(DataError, match=r"cat.jpg is not named ILSVRC2012_val_NNNNNNNN"):
        without_blacklisted(build_index(root / "whole", "val"), root / "black.txt")


def test_options_of_validate(tmp_path: Path) -> None:
    recipe = read_text(RECIPE, Recipe, source="toy.yaml").value
    with_own = read_text(RECIPE, Recipe, ("validation.blacklist_file=own.txt",), source="toy.yaml").value
    for asked, path in ((True, None), (False, tmp_path)):
        with pytest.raises(UsageError, match="need each other"):
            _without_blacklisted(recipe, path, asked=asked)
    assert _without_blacklisted(with_own, None, asked=True).validation.blacklist_file == "own.txt"
    assert _without_blacklisted(with_own, tmp_path, asked=True).validation.blacklist_file == str(tmp_path)
