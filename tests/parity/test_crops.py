"""Windows against torchvision's RandomResizedCrop: the same distribution of size, ratio and place."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import ks_2samp
from torchvision.transforms import RandomResizedCrop

from dawnrun.dataset.crops import draw_windows

COUNT = 4000
SETTINGS = [
    ((500, 375), 0.08, (3 / 4, 4 / 3)),
    ((375, 500), 0.35, (3 / 4, 4 / 3)),
    ((96, 96), 0.08, (3 / 4, 4 / 3)),
    ((300, 100), 0.25, (3 / 4, 4 / 3)),  # every other image falls back to the centre
    ((101, 77), 0.8, (4 / 5, 5 / 4)),
]


def ours(size: tuple[int, int], fraction: float, ratio: tuple[float, float]) -> NDArray[np.float64]:
    """Rows of top, left, height, width."""
    windows = draw_windows(
        seed=11,
        epochs=np.zeros(COUNT, int),
        images=np.arange(COUNT),
        widths=np.full(COUNT, size[0]),
        heights=np.full(COUNT, size[1]),
        min_area_fraction=fraction,
        aspect_ratio=ratio,
        flip=True,
    )
    return np.stack([windows.top, windows.left, windows.height, windows.width], axis=1)


def theirs(size: tuple[int, int], fraction: float, ratio: tuple[float, float]) -> NDArray[np.float64]:
    image = torch.empty(1, size[1], size[0])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(12)
        return np.array(
            [RandomResizedCrop.get_params(image, [fraction, 1.0], list(ratio)) for _ in range(COUNT)], np.float64
        )


@pytest.mark.parametrize(("size", "fraction", "ratio"), SETTINGS)
def test_windows_are_distributed_as_torchvisions(
    size: tuple[int, int], fraction: float, ratio: tuple[float, float]
) -> None:
    mine, reference = ours(size, fraction, ratio), theirs(size, fraction, ratio)
    for name, of in {
        "area": lambda w: w[:, 2] * w[:, 3],
        "log ratio": lambda w: np.log(w[:, 3] / w[:, 2]),
        "width": lambda w: w[:, 3],
        "height": lambda w: w[:, 2],
        "left": lambda w: w[:, 1],
        "top": lambda w: w[:, 0],
        "right margin": lambda w: size[0] - w[:, 1] - w[:, 3],
        "bottom margin": lambda w: size[1] - w[:, 0] - w[:, 2],
    }.items():
        result = ks_2samp(of(mine), of(reference))
        assert result.pvalue > 0.001, f"{name}: {result}"


def test_half_of_the_images_are_mirrored() -> None:
    windows = draw_windows(
        seed=3,
        epochs=np.zeros(10000, int),
        images=np.arange(10000),
        widths=np.full(10000, 50),
        heights=np.full(10000, 50),
        min_area_fraction=0.08,
        aspect_ratio=(3 / 4, 4 / 3),
        flip=True,
    )
    assert abs(windows.mirrored.mean() - 0.5) < 5 * 0.5 / 100  # five standard errors
    whole_left = windows.left[windows.mirrored].mean() - windows.left[~windows.mirrored].mean()
    assert abs(whole_left) < 1.5  # mirroring has nothing to do with the place
