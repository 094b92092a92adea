"""Windows of training images: inside the image, within the recipe's bounds, a function of seed, epoch and image."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dawnrun.dataset.counter import bits, uniform
from dawnrun.dataset.crops import Windows, draw_windows


def draw(
    count: int = 1, *, size: tuple[int, int] = (64, 48), seed: int = 1, epoch: int = 0, **changed: object
) -> Windows:
    values: dict[str, object] = {
        "seed": seed,
        "epochs": np.full(count, epoch),
        "images": np.arange(count),
        "widths": np.full(count, size[0]),
        "heights": np.full(count, size[1]),
        "min_area_fraction": 0.08,
        "aspect_ratio": (3 / 4, 4 / 3),
        "flip": True,
    }
    return draw_windows(**(values | changed))  # type: ignore[arg-type]


def boxes(windows: Windows) -> list[tuple[float, float, float, float, bool]]:
    return [(*windows.box(row), bool(windows.mirrored[row])) for row in range(len(windows.left))]


@given(
    width=st.integers(1, 5000),
    height=st.integers(1, 5000),
    seed=st.integers(0, 2**63 - 1),
    fraction=st.floats(0.01, 1),
    low=st.floats(0.2, 1),
    high=st.floats(1, 5),
)
def test_windows_lie_inside_the_image(
    width: int, height: int, seed: int, fraction: float, low: float, high: float
) -> None:
    windows = draw(8, size=(width, height), seed=seed, min_area_fraction=fraction, aspect_ratio=(low, high))
    for part in (windows.left, windows.top, windows.width, windows.height):
        assert part.dtype == np.float64 and (part == np.rint(part)).all()
    assert (windows.left >= 0).all() and (windows.width >= 1).all() and (windows.left + windows.width <= width).all()
    assert (windows.top >= 0).all() and (windows.height >= 1).all() and (windows.top + windows.height <= height).all()


def test_eight_images_have_eight_crops_and_others_in_the_next_epoch() -> None:
    """C20: 8 different crops, other ones in the next epoch, equal when repeated with the same seed."""
    first, second = boxes(draw(8, size=(500, 375))), boxes(draw(8, size=(500, 375), epoch=1))
    assert len(set(first)) == 8 and not set(first) & set(second)
    assert first == boxes(draw(8, size=(500, 375)))
    assert not set(first) & set(boxes(draw(8, size=(500, 375), seed=2)))


def test_a_window_depends_on_no_other_row() -> None:
    together = boxes(draw(32))
    alone = [boxes(draw(1, images=[number]))[0] for number in range(32)]
    assert together == alone


def test_an_image_that_no_window_fits_is_cropped_in_its_middle() -> None:
    wide, tall = draw(4, size=(1000, 10)), draw(4, size=(10, 1000))
    assert set(boxes(draw(4, size=(1000, 10), flip=False))) == {(493.0, 0.0, 506.0, 10.0, False)}
    assert (wide.width == 13).all() and (tall.height == 13).all() and (tall.top == 493).all()


def test_no_flip() -> None:
    assert not draw(200, flip=False).mirrored.any() and draw(200).mirrored.any()


def test_the_whole_image_where_only_that_is_allowed() -> None:
    windows = draw(50, size=(40, 40), min_area_fraction=1.0, aspect_ratio=(1.0, 1.0))
    assert {box[:4] for box in boxes(windows)} == {(0.0, 0.0, 40.0, 40.0)}


def test_bits_do_not_depend_on_shape_and_tell_counters_apart() -> None:
    grid = bits(1, np.arange(50)[:, None], np.arange(40))
    assert grid.shape == (50, 40) and len(np.unique(grid)) == 2000
    assert bits(1, 7, 9)[0] == grid[7, 9] != bits(1, 9, 7)[0]


def test_half_of_the_bits_change_with_any_counter() -> None:
    """Avalanche: flipping the lowest bit of seed, epoch or image changes 32 of 64 bits on average."""
    numbers = np.arange(0, 4000, 2)
    for changed in (bits(1, 0, numbers + 1), bits(1, numbers + 1, 0)):
        other = bits(1, 0, numbers) if changed[0] == bits(1, 0, 1)[0] else bits(1, numbers, 0)
        flipped = np.unpackbits((changed ^ other).view(np.uint8)).mean()
        assert abs(flipped - 0.5) < 0.01


def test_uniform_numbers_fill_the_interval() -> None:
    numbers = np.sort(uniform(3, np.arange(10000)))
    assert numbers[0] >= 0 and numbers[-1] < 1
    assert np.abs(numbers - (np.arange(10000) + 0.5) / 10000).max() < 0.02  # Kolmogorov-Smirnov: p = 0.0007
