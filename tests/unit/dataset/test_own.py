"""Images of the user's own: the same as those of class folders, and what is said of lists that do not fit together."""

from types import SimpleNamespace

import numpy as np
import pytest

from dawnrun.dataset import own
from dawnrun.dataset.decode import UnreadableImageError
from dawnrun.dataset.demo import write_demo
from dawnrun.dataset.index import build_index
from dawnrun.dataset.own import index_own
from dawnrun.errors import DataError, RecipeError


@pytest.fixture
def folders(tmp_path):
    """The index of a small data set in class folders."""
    write_demo(tmp_path / "data", train_per_class=1, val_per_class=1)
    return build_index(tmp_path / "data", "train", cache_dir=tmp_path / "cache")


@pytest.fixture
def indexed(monkeypatch, tmp_path):
    """The index of an object with these attributes."""

    def make(max_bad=0, **attributes):
        monkeypatch.setattr(own, "called", lambda *_, **__: SimpleNamespace(**attributes))
        return index_own("mine:Listed", tmp_path, "train", max_bad=max_bad)

    return make


def listing(index):
    """What a user's object would say of the same images."""
    return {
        "classes": list(index.classes),
        "names": list(index.names),
        "labels": index.labels.tolist(),
        "read": lambda name: (index.folder / name).read_bytes(),
    }


def test_the_same_images_as_in_class_folders(folders, indexed):
    ours = indexed(**listing(folders))
    for name in ("classes", "names"):
        assert getattr(ours, name) == getattr(folders, name)
    for name in ("labels", "widths", "heights"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(folders, name))
    assert ours.read(7) == folders.read(7) and not ours.is_by_path and folders.is_by_path


def test_the_fingerprint_sees_labels_and_names(folders, indexed):
    one = listing(folders)
    first = indexed(**one).fingerprint
    assert indexed(**one).fingerprint == first
    assert indexed(**{**one, "labels": one["labels"][::-1]}).fingerprint != first


def test_stated_sizes_are_taken_without_reading(folders, indexed):
    stated = {"widths": folders.widths.tolist(), "heights": folders.heights.tolist(), "read": lambda _: 1 / 0}
    assert indexed(**{**listing(folders), **stated}).widths.tolist() == folders.widths.tolist()
    with pytest.raises(RecipeError, match="widths and heights must be pixels"):
        indexed(**{**listing(folders), **stated, "widths": [0] * len(folders)})


def test_bad_images_are_counted(folders, indexed):
    one = listing(folders)
    bad = {one["names"][2]: OSError("gone"), one["names"][5]: "text"}

    def read(name):
        if isinstance(bad.get(name), Exception):
            raise bad[name]
        return bad.get(name) or one["read"](name)

    with pytest.raises(
        DataError, match=r"(?s)2 unreadable images from mine:Listed, 1 allowed.*OSError: gone.*a str, not"
    ):
        indexed(max_bad=1, **{**one, "read": read})
    index = indexed(max_bad=2, **{**one, "read": read})
    assert [int(image) for image in np.flatnonzero(index.widths == 0)] == [2, 5]
    with pytest.raises(UnreadableImageError, match="OSError: gone"):
        index.read(2)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"labels": [0]}, "30 names and 1 labels for train"),
        ({"labels": ["x"] * 30}, "labels must be whole numbers"),
        ({"labels": [30] * 30}, "labels from 30 to 30 for 30 classes; they count from 0"),
        ({"classes": ["a"] * 30}, "no class may be listed twice"),
        ({"names": [3] * 30}, "names must be text"),
        ({"names": [], "labels": []}, "0 names"),
        ({"widths": [32], "heights": [32] * 30}, "widths and heights must be pixels"),
        ({"widths": ["x"] * 30, "heights": [32] * 30}, "widths and heights must be pixels"),
    ],
)
def test_what_does_not_fit_together_is_told_at_the_key(folders, indexed, changes, words):
    with pytest.raises(RecipeError, match=f"input.import: .*{words}"):
        indexed(**{**listing(folders), **changes})


def test_an_object_that_lacks_something_is_told(indexed):
    with pytest.raises(RecipeError, match="mine:Listed returned a SimpleNamespace without names, read"):
        indexed(classes=[], labels=[])
