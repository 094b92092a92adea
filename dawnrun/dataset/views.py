"""How validation images are seen: the window of each, its shape, and which images go through the network together."""

import math
from collections.abc import Iterator
from itertools import islice

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dawnrun.dataset.crops import Windows
from dawnrun.recipe.schema import View

Shape = tuple[int, int]
"""Width and height in pixels."""


def default_resize_px(image_size: int) -> int:
    """Short side before the centre crop where a view gives none: floor(1.14 * image_size)."""
    return image_size * 114 // 100  # in whole numbers: 1.14 * 100 is below 114 in floating point


def centre_windows(widths: ArrayLike, heights: ArrayLike, *, shape: Shape, image_size: int, resize_px: int) -> Windows:
    """What a centre crop of `shape` (width, height) sees after the short side was resized to `resize_px`.

    `shape` is (image_size, image_size) unless rectangular. A window that would leave the image is made smaller,
    its ratio kept. Raises ValueError if resize_px < image_size.
    """
    if resize_px < image_size:
        raise ValueError(f"resize_px {resize_px} is smaller than image_size {image_size}")
    width, height = np.asarray(widths, np.float64), np.asarray(heights, np.float64)
    pixels = np.minimum(width, height) / resize_px  # source pixels per pixel seen
    w, h = shape[0] * pixels, shape[1] * pixels
    shrink = np.minimum(1, np.minimum(width / w, height / h))
    w, h = w * shrink, h * shrink
    mirrored = np.zeros(len(width), np.bool_)
    return Windows(left=(width - w) / 2, top=(height - h) / 2, width=w, height=h, mirrored=mirrored)


def rectangular_shapes(image_size: int) -> tuple[Shape, ...]:
    """The shapes (width, height) of rectangular validation, from 3/4 to 4/3 in at most nine steps.

    The short side is `image_size`, the long side a multiple of 8, so nine shapes are all that have to be warmed up.
    """
    steps = (image_size * (1 + k / 12) for k in range(1, 5))
    longer = sorted({8 * math.floor(step / 8) for step in steps} - set(range(image_size + 1)))
    portrait = tuple((image_size, side) for side in reversed(longer))
    return (*portrait, (image_size, image_size), *((side, image_size) for side in longer))


def nearest_shape(widths: ArrayLike, heights: ArrayLike, shapes: tuple[Shape, ...]) -> NDArray[np.int64]:
    """For each image the number of the shape with the nearest ratio, int64[n]: a function of the image alone."""
    ratio = np.log(np.asarray(widths, np.float64) / np.asarray(heights, np.float64))
    offered = np.log([w / h for w, h in shapes])
    nearest: NDArray[np.int64] = np.abs(ratio[:, None] - offered).argmin(axis=1)
    return nearest


def resolve_view(view: View, image_size: int) -> tuple[int, int]:
    """The view's image_size and resize_px in pixels, where the phase trains at `image_size`."""
    side = view.image_size or image_size
    return side, view.resize_px or default_resize_px(side)


def view_shapes(view: View, image_size: int) -> tuple[Shape, ...]:
    """Every shape of batch that validation meets, to be warmed up; one unless rectangular."""
    side, _ = resolve_view(view, image_size)
    return rectangular_shapes(side) if view.rectangular else ((side, side),)


def validation_batches(
    view: View,
    image_size: int,
    *,
    widths: NDArray[np.int32],
    heights: NDArray[np.int32],
    batch_size: int,
    rank: int,
    world_size: int,
) -> Iterator[tuple[NDArray[np.int64], Shape]]:
    """The batches of process `rank`: image numbers int64[1..batch_size] and their shape.

    Over all ranks each image is in exactly one batch; ranks may have different numbers of batches, or none.
    """
    shapes = view_shapes(view, image_size)
    if view.rectangular_batch is not None:
        most_pixels = batch_size * max(width * height for width, height in shapes)
        side, _ = resolve_view(view, image_size)
        sorted_batches = batches_by_ratio(widths, heights, side=side, batch_size=view.rectangular_batch)
        for images, shape in islice(sorted_batches, rank, None, world_size):
            at_once = max(1, min(batch_size, most_pixels // (shape[0] * shape[1])))
            for first in range(0, len(images), at_once):
                yield images[first : first + at_once], shape
        return
    group = nearest_shape(widths, heights, shapes)
    for number, shape in enumerate(shapes):
        share = np.flatnonzero(group == number)[rank::world_size]
        for first in range(0, len(share), batch_size):
            yield share[first : first + batch_size], shape


def batches_by_ratio(
    widths: ArrayLike, heights: ArrayLike, *, side: int, batch_size: int
) -> Iterator[tuple[NDArray[np.int64], Shape]]:
    """fast.ai's rule: all images sorted by width over height, and each `batch_size` of them cropped alike.

    The shape has the mean of their ratios, its short side `side`, its long side a multiple of 8, rounded down
    (diux-dev/imagenet18, training/dataloader.py, its last phase). Here what an image is cropped to depends on the others.
    """
    ratios = np.asarray(widths, np.float64) / np.asarray(heights, np.float64)
    order = np.argsort(ratios, kind="stable")
    for first in range(0, len(order), batch_size):
        images = order[first : first + batch_size]
        ratio = float(ratios[images].mean())
        longer = 8 * math.floor(side * max(ratio, 1 / ratio) / 8)
        yield images, ((longer, side) if ratio >= 1 else (side, longer))
