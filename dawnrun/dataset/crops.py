"""Which window of a training image is seen, and whether mirrored: a function of seed, epoch, image and its size."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dawnrun.dataset.counter import uniform

_CROPS = 2
"""Keeps the bits of the crops apart from those of the order."""
_TRIES = 10


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
