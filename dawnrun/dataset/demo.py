"""The demo data set: 30 classes, six shapes in five colours, drawn with Pillow; the same bytes for a seed."""

import io
import math
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from dawnrun.dataset.writer import write_data_set

_VERSION = 1
"""Goes up whenever other pictures are drawn."""
TRAIN_PER_CLASS, VAL_PER_CLASS = 40, 10
_GREY = "grey"
COLOURS = {
    "red": (215, 45, 40),
    "green": (35, 150, 60),
    "blue": (45, 75, 220),
    "yellow": (235, 195, 30),
    _GREY: (70, 70, 70),
}
"""Each is told from the light ground by itself; grey images are stored with one channel."""
_Point = tuple[float, float]


def _star(num_points: int, inner: float) -> list[_Point]:
    """Corners of a star of radius 1, its first point upwards."""
    corners = ((k / (2 * num_points), 1.0 if k % 2 == 0 else inner) for k in range(2 * num_points))
    return [(radius * math.sin(2 * math.pi * turn), -radius * math.cos(2 * math.pi * turn)) for turn, radius in corners]


def _cross(half_width: float) -> list[_Point]:
    """Corners of an upright cross with arms of length 1."""
    w = half_width
    quarter = [(w, -1.0), (w, -w), (1.0, -w)]
    corners: list[_Point] = []
    for _ in range(4):
        corners += quarter
        quarter = [(-y, x) for x, y in quarter]
    return corners


_OUTLINES: dict[str, list[_Point]] = {
    "square": [(-0.8, -0.8), (0.8, -0.8), (0.8, 0.8), (-0.8, 0.8)],
    "triangle": [(0.0, -1.0), (0.95, 0.75), (-0.95, 0.75)],
    "star": _star(5, 0.42),
    "cross": _cross(0.33),
}
_ROUND = {"disc": 0.0, "ring": 0.52}
"""Shape -> radius of the hole, of the shape's own."""
SHAPES = (*_ROUND, *_OUTLINES)


def write_demo(
    folder: Path,
    *,
    seed: int = 0,
    train_per_class: int = TRAIN_PER_CLASS,
    val_per_class: int = VAL_PER_CLASS,
) -> bool:
    """Write `folder`/{train,val}/COLOUR-SHAPE/*.jpg, 1,200 and 300 images by default.

    Returns False where the same set is there already. Raises DataError.
    """
    return write_data_set(
        folder,
        spec={
            "name": "demo",
            "version": _VERSION,
            "seed": seed,
            "train_per_class": train_per_class,
            "val_per_class": val_per_class,
        },
        images=_images(seed, {"train": train_per_class, "val": val_per_class}),
    )


def _images(seed: int, per_class: dict[str, int]) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of all images; each has a generator of its own, so counts change no other image."""
    for split, count in per_class.items():
        for colour in COLOURS:
            for shape in SHAPES:
                for number in range(count):
                    name = f"{split}/{colour}-{shape}/{number:03d}"
                    yield f"{name}.jpg", draw(random.Random(f"{seed} {name}"), shape, colour)


def draw(rng: random.Random, shape: str, colour: str) -> bytes:
    """One picture as JPEG: sides of 80 to 128 pixels at 3:4 to 4:3, the shape undistorted near the centre."""
    ratio = math.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3)))
    short = rng.randint(80, 96)
    width, height = (min(128, round(short * max(1, r))) for r in (ratio, 1 / ratio))
    picture = _ground(rng, width, height)
    jitter = rng.uniform(0.85, 1.1)
    if colour == _GREY:
        ink: int | tuple[int, ...] = round(COLOURS[colour][0] * jitter)
    else:
        picture = picture.convert("RGB")
        ink = tuple(max(0, min(255, round(value * jitter + rng.uniform(-20, 20)))) for value in COLOURS[colour])
    picture.paste(ink, (0, 0), _mask(rng, shape, width, height))
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=90)
    return file.getvalue()


def _ground(rng: random.Random, width: int, height: int) -> Image.Image:
    """A light grey slope with fine noise, mode L. Bytes of `random` are the same in every version of Python."""
    noise = np.frombuffer(rng.randbytes(width * height), np.uint8).reshape(height, width) / 127.5 - 1
    across, down = np.linspace(-1, 1, width), np.linspace(-1, 1, height)[:, None]
    slope = 12 * (rng.uniform(-1, 1) * across + rng.uniform(-1, 1) * down)
    level = rng.uniform(165, 200) + slope + rng.uniform(2, 8) * noise
    return Image.fromarray(np.clip(level, 0, 255).astype(np.uint8))


def _mask(rng: random.Random, shape: str, width: int, height: int) -> Image.Image:
    """Where the ink goes, drawn at four times the size for smooth edges."""
    fine = 4
    side = min(width, height) * fine
    radius = side * rng.uniform(0.36, 0.43)
    centre_x, centre_y = (extent * fine / 2 + side * rng.uniform(-0.03, 0.03) for extent in (width, height))
    mask = Image.new("L", (width * fine, height * fine), 0)
    canvas = ImageDraw.Draw(mask)
    if shape in _ROUND:
        for part, fill in ((0.92, 255), (0.92 * _ROUND[shape], 0)):
            r = radius * part
            canvas.ellipse((centre_x - r, centre_y - r, centre_x + r, centre_y + r), fill=fill)
    else:
        turn = math.radians(rng.uniform(-8, 8))
        cos, sin = radius * math.cos(turn), radius * math.sin(turn)
        outline = [(centre_x + x * cos - y * sin, centre_y + x * sin + y * cos) for x, y in _OUTLINES[shape]]
        canvas.polygon(outline, fill=255)
    return mask.resize((width, height), Image.Resampling.BOX)
