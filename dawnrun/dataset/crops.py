"""Which window of an image is seen, and whether mirrored: vectorised functions of seed, epoch, image and its size."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dawnrun.dataset.counter import uniform

_CROPS = 2
"""Keeps the bits of the crops apart from those of the order."""
_TRIES = 10
MAX_RATIO = 4 / 3
"""Rectangular validation: no shape is narrower than 3/4 or wider than this."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Windows:
    """Windows in source pixels, float64[n] each; `mirrored` bool[n]: left and right are exchanged."""

    left: NDArray[np.float64]
    top: NDArray[np.float64]
    width: NDArray[np.float64]
    height: NDArray[np.float64]
    mirrored: NDArray[np.bool_]

    def box(self, row: int) -> tuple[float, float, float, float]:
        """Left, top, right, bottom of one window."""
        left, top = float(self.left[row]), float(self.top[row])
        return left, top, left + float(self.width[row]), top + float(self.height[row])


def draw_windows(
    *,
    seed: int,
    epochs: ArrayLike,
    images: ArrayLike,
    widths: ArrayLike,
    heights: ArrayLike,
    min_area_fraction: float,
    aspect_ratio: tuple[float, float],
    flip: bool,
) -> Windows:
    """Random windows of training images, by the definition of torchvision's RandomResizedCrop.

    Up to ten tries of an area (uniform in [min_area_fraction, 1] of the image's) and an aspect ratio (log-uniform),
    rounded to whole pixels; the first that fits is placed uniformly. If none fits: the largest centred window with
    the nearest allowed ratio. All arrays have shape [n]; equal (seed, epoch, image, size) give equal windows.
    """
    key = np.asarray(epochs)[:, None], np.asarray(images)[:, None]
    width, height = np.asarray(widths, np.float64), np.asarray(heights, np.float64)
    draws = uniform(_CROPS, seed, *key, np.arange(2 * _TRIES + 3))
    area = (width * height)[:, None] * (min_area_fraction + (1 - min_area_fraction) * draws[:, :_TRIES])
    low, high = math.log(aspect_ratio[0]), math.log(aspect_ratio[1])
    ratio = np.exp(low + (high - low) * draws[:, _TRIES : 2 * _TRIES])
    tried_w, tried_h = np.rint(np.sqrt(area * ratio)), np.rint(np.sqrt(area / ratio))
    fits = (tried_w >= 1) & (tried_w <= width[:, None]) & (tried_h >= 1) & (tried_h <= height[:, None])
    found, first = fits.any(axis=1), fits.argmax(axis=1)
    rows = np.arange(len(first))
    spare_w, spare_h = _largest(width, height, aspect_ratio)
    w = np.where(found, tried_w[rows, first], spare_w)
    h = np.where(found, tried_h[rows, first], spare_h)
    left = np.where(found, np.floor(draws[:, -3] * (width - w + 1)), np.floor((width - w) / 2))
    top = np.where(found, np.floor(draws[:, -2] * (height - h + 1)), np.floor((height - h) / 2))
    mirrored = (draws[:, -1] < 0.5) & flip
    return Windows(left=left, top=top, width=w, height=h, mirrored=mirrored)


def _largest(
    width: NDArray[np.float64], height: NDArray[np.float64], aspect_ratio: tuple[float, float]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Width and height of the largest window whose ratio is within `aspect_ratio`, at least one pixel."""
    low, high = aspect_ratio
    ratio = width / height
    w = np.where(ratio > high, np.rint(height * high), width)
    h = np.where(ratio < low, np.rint(width / low), height)
    return np.maximum(w, 1), np.maximum(h, 1)


def default_resize_px(image_size: int) -> int:
    """Short side before the centre crop where a view gives none: floor(1.14 * image_size)."""
    return image_size * 114 // 100  # in whole numbers: 1.14 * 100 is below 114 in floating point


def centre_windows(
    widths: ArrayLike, heights: ArrayLike, *, shape: tuple[int, int], image_size: int, resize_px: int
) -> Windows:
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


def rectangular_shapes(image_size: int) -> tuple[tuple[int, int], ...]:
    """The shapes (width, height) of rectangular validation, from 3/4 to 4/3 in at most nine steps.

    The short side is `image_size`, the long side a multiple of 8, so nine shapes are all that have to be warmed up.
    """
    steps = (image_size * (1 + k / 12) for k in range(1, 5))
    longer = sorted({8 * math.floor(step / 8) for step in steps} - set(range(image_size + 1)))
    portrait = tuple((image_size, side) for side in reversed(longer))
    return (*portrait, (image_size, image_size), *((side, image_size) for side in longer))


def nearest_shape(widths: ArrayLike, heights: ArrayLike, shapes: tuple[tuple[int, int], ...]) -> NDArray[np.int64]:
    """For each image the number of the shape with the nearest ratio, int64[n]: a function of the image alone."""
    ratio = np.log(np.asarray(widths, np.float64) / np.asarray(heights, np.float64))
    offered = np.log([w / h for w, h in shapes])
    nearest: NDArray[np.int64] = np.abs(ratio[:, None] - offered).argmin(axis=1)
    return nearest
