"""Views of validation images: windows, shapes, and batches that hold each image once."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dawnrun.dataset.views import (
    centre_windows,
    default_resize_px,
    nearest_shape,
    rectangular_shapes,
    resolve_view,
    validation_batches,
    view_shapes,
)
from dawnrun.recipe.schema import View

sides = st.integers(1, 4000)


def test_resize_px_is_the_whole_part_of_1_14_sides() -> None:
    assert [default_resize_px(side) for side in (32, 100, 128, 224, 288)] == [36, 114, 145, 255, 328]


def test_a_view_takes_what_is_left_out_from_the_phase() -> None:
    assert resolve_view(View(), 128) == (128, 145)
    assert resolve_view(View(image_size=160), 128) == (160, 182)
    assert resolve_view(View(resize_px=128), 128) == (128, 128)
    assert view_shapes(View(), 128) == ((128, 128),)


def test_the_centre_of_the_resized_image() -> None:
    """500 x 375 resized to short side 256 and cropped to 224: 224 / 256 of the short side, centred."""
    windows = centre_windows([500, 375], [375, 500], shape=(224, 224), image_size=224, resize_px=256)
    side = 375 * 224 / 256
    assert windows.box(0) == pytest.approx(((500 - side) / 2, (375 - side) / 2, (500 + side) / 2, (375 + side) / 2))
    assert windows.box(1) == pytest.approx(((375 - side) / 2, (500 - side) / 2, (375 + side) / 2, (500 + side) / 2))
    assert not windows.mirrored.any()


def test_a_crop_larger_than_the_resized_image_is_refused() -> None:
    with pytest.raises(ValueError, match="resize_px 200 is smaller than image_size 224"):
        centre_windows([5], [5], shape=(224, 224), image_size=224, resize_px=200)


@given(side=st.integers(8, 640))
def test_rectangular_shapes(side: int) -> None:
    shapes = rectangular_shapes(side)
    assert (side, side) in shapes and len(shapes) <= 9 and len(set(shapes)) == len(shapes)
    for width, height in shapes:
        assert min(width, height) == side and 3 / 4 <= width / height <= 4 / 3
        assert max(width, height) % 8 == 0 or width == height
    assert {(height, width) for width, height in shapes} == set(shapes)


@given(width=sides, height=sides, side=st.integers(8, 300), zoom=st.floats(1, 2))
def test_windows_lie_inside_and_keep_their_shape(width: int, height: int, side: int, zoom: float) -> None:
    resize_px = math.ceil(side * zoom)
    shapes = rectangular_shapes(side)
    shape = shapes[int(nearest_shape([width], [height], shapes)[0])]
    windows = centre_windows([width], [height], shape=shape, image_size=side, resize_px=resize_px)
    left, top, right, bottom = windows.box(0)
    assert left >= -1e-9 and top >= -1e-9 and right <= width + 1e-9 and bottom <= height + 1e-9
    assert (right - left) / (bottom - top) == pytest.approx(shape[0] / shape[1])


def test_the_nearest_shape_is_a_function_of_the_ratio() -> None:
    shapes = rectangular_shapes(288)
    chosen = nearest_shape([500, 1000, 375, 100, 10, 4000], [375, 750, 500, 100, 4000, 10], shapes)
    assert [shapes[number] for number in chosen] == [
        (384, 288), (384, 288), (288, 384), (288, 288), (288, 384), (384, 288),
    ]  # fmt: skip


SIZES = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), min_size=1, max_size=40)


@given(
    sizes=SIZES,
    world_size=st.integers(1, 7),
    batch_size=st.integers(1, 9),
    rectangular=st.sampled_from([False, True, 1, 5]),
)
def test_each_image_is_in_one_batch(
    sizes: list[tuple[int, int]], world_size: int, batch_size: int, rectangular: bool | int
) -> None:
    """C21: whatever the numbers of processes and of images in a batch; no batch needs more room than there is."""
    widths, heights = np.array(sizes, np.int32).T
    own = rectangular is True or rectangular is False
    view = View(rectangular=bool(rectangular), rectangular_batch=None if own else int(rectangular))
    room = batch_size * max(width * height for width, height in view_shapes(view, 32))
    seen: list[int] = []
    for rank in range(world_size):
        for images, shape in validation_batches(
            view, 32, widths=widths, heights=heights, batch_size=batch_size, rank=rank, world_size=world_size
        ):
            assert 1 <= len(images) <= batch_size
            assert not own or shape in view_shapes(view, 32)
            assert len(images) * shape[0] * shape[1] <= room or len(images) == 1
            seen += images.tolist()
    assert sorted(seen) == list(range(len(sizes)))


@given(sizes=SIZES, batch_size=st.integers(1, 9), world_size=st.integers(1, 5))
def test_fast_ais_rule(sizes: list[tuple[int, int]], batch_size: int, world_size: int) -> None:
    """The shape of an image is that of its batch in the list of all images by ratio, on any number of processes."""
    widths, heights = np.array(sizes, np.int32).T
    ratios = [width / height for width, height in sizes]
    order = sorted(range(len(sizes)), key=lambda image: ratios[image])  # stable, as in the rule
    expected = {}
    for first in range(0, len(order), batch_size):
        batch = order[first : first + batch_size]
        mean = sum(ratios[image] for image in batch) / len(batch)
        longer = int(64 * (mean if mean >= 1 else 1 / mean) + 1e-9) // 8 * 8
        expected |= dict.fromkeys(batch, (longer, 64) if mean >= 1 else (64, longer))
    view = View(rectangular=True, rectangular_batch=batch_size)
    found = {}
    for rank in range(world_size):
        for images, shape in validation_batches(
            view, 64, widths=widths, heights=heights, batch_size=4, rank=rank, world_size=world_size
        ):
            found |= dict.fromkeys(images.tolist(), shape)
    assert found.keys() == expected.keys()
    for image, (width, height) in found.items():
        # A mean that lies on a multiple of 8 may be rounded to either side.
        assert max(abs(width - expected[image][0]), abs(height - expected[image][1])) in (0, 8)
    assert sum(found[image] != expected[image] for image in found) <= batch_size
