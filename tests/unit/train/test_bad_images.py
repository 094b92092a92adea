"""Unreadable images in training and validation: replaced and reported, or the run stops with path and reason."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from vision_helpers import kept, pipeline, plan

from dawnrun.dataset.decode import BadImage
from dawnrun.dataset.index import DatasetIndex, build_index
from dawnrun.dataset.order import epoch_order
from dawnrun.errors import DataError
from dawnrun.recipe.schema import View

NUM_TRAIN = 11


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """11 training images of which numbers 3, 4 and 8 are bad: a cut JPEG, text after indexing, zero bytes after."""
    rng = np.random.default_rng(0)
    for number in range(NUM_TRAIN):
        path = tmp_path / "train" / "a" / f"{number:02d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        picture = Image.fromarray(rng.integers(0, 256, (40, 40, 3), np.uint8))
        file = io.BytesIO()
        picture.save(file, "JPEG")
        path.write_bytes(file.getvalue()[: 900 if number == 3 else None])
    return tmp_path


def damaged_index(root: Path) -> DatasetIndex:
    index = build_index(root, "train", cache_dir=root / "cache")
    (root / "train/a/04.jpg").write_text("no picture")
    (root / "train/a/08.jpg").write_bytes(b"")
    return index


def test_bad_images_are_replaced_by_the_next_of_the_order(damaged: Path) -> None:
    """C12: with the policy to skip, exactly 3 are reported, once, and the next of the order stands in."""
    index = damaged_index(damaged)
    bad: list[BadImage] = []
    vision = pipeline((index, index), max_bad_images=3, bad=bad)
    batches = kept(vision.train(plan(step) for step in range(6)))
    again = kept(vision.train(plan(step) for step in range(3)))
    vision.close()
    assert sorted(Path(each.path).name for each in bad) == ["03.jpg", "04.jpg", "08.jpg"]
    by_name = {Path(each.path).name: each for each in bad}
    assert "truncated" in by_name["03.jpg"].reason and by_name["08.jpg"].reason == "empty file (0 bytes)"
    assert by_name["04.jpg"].class_name == "a" and by_name["04.jpg"].split == "train"
    order = epoch_order(num_images=NUM_TRAIN, seed=5, epoch=0).tolist()
    rows = torch.cat([images for images, _ in batches[:6]])
    for number in (3, 4, 8):
        position = order.index(number)
        skip = next(k for k in range(1, 4) if order[(position + k) % NUM_TRAIN] not in (3, 4, 8))
        other = (position + skip) % NUM_TRAIN
        assert by_name[f"{number:02d}.jpg"].replaced_by == index.path(order[other])
        assert rows[position].equal(rows[other])
    assert all(one.equal(other) for (one, _), (other, _) in zip(batches[:6], again, strict=True))


def test_a_bad_image_stops_training_at_its_batch(damaged: Path) -> None:
    """C12: the error has path, class and reason, and comes at the step that holds the image."""
    index = damaged_index(damaged)
    vision = pipeline((index, index))
    order = epoch_order(num_images=NUM_TRAIN, seed=5, epoch=0).tolist()
    first = min(order.index(number) for number in (3, 4, 8))
    stream = vision.train(plan(step) for step in range(3))
    for _ in range(first // 2):
        next(stream)
    with pytest.raises(DataError) as caught:
        next(stream)
    assert f"{index.path(order[first])} (class a): " in str(caught.value)
    assert "max_bad_images" in str(caught.value) and "dawnrun data check" in str(caught.value)
    vision.close()


def test_more_bad_images_than_allowed(damaged: Path) -> None:
    index = damaged_index(damaged)
    bad: list[BadImage] = []
    vision = pipeline((index, index), max_bad_images=2, bad=bad)
    with pytest.raises(DataError, match="allows 2 to be replaced"):
        kept(vision.train(plan(step) for step in range(3)))
    vision.close()
    assert len(bad) <= 2


def test_validation_images_are_never_replaced(damaged: Path) -> None:
    index = damaged_index(damaged)
    vision = pipeline((index, index), max_bad_images=99)
    with pytest.raises(DataError, match=r"unreadable val image .*03\.jpg"):
        kept(vision.validation(View(), 16))
    vision.close()
