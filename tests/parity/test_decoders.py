"""How far the decoders' pixels are from the definition (decode, crop, bilinear with antialiasing) and from one another.

On photographs that packages ship, through 40 windows at 128 px and 224 px. Differences in levels of 0 to 255, mean over a
window's pixels. Why they differ: libjpeg's scaled decoding (Pillow, windows at least twice the output) averages in
the frequency domain; DALI upsamples chroma more simply; Pillow's window lets the filter see pixels beyond its edge.
"""

import importlib.util
import io
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from dawnrun.dataset.crops import Windows, draw_windows
from dawnrun.dataset.index import DatasetIndex, build_index
from dawnrun.train.input.ahead import Decoder, Job
from dawnrun.train.input.buffers import Slot
from dawnrun.train.input.dali import DaliDecoder
from dawnrun.train.input.selection import Rows
from dawnrun.train.input.torchvision_io import TorchvisionDecoder
from dawnrun.train.input.vision import PillowDecoder

try:
    HAS_DALI = importlib.util.find_spec("nvidia.dali") is not None
except ModuleNotFoundError:
    HAS_DALI = False

Pixels = NDArray[np.int64]
NUM_WINDOWS = 40
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def photographs() -> list[bytes]:
    """Encoded at quality 95 and about 500 x 400 pixels, as ImageNet's are."""
    datasets = pytest.importorskip("sklearn.datasets")
    import matplotlib.cbook

    pictures = [Image.fromarray(picture) for picture in datasets.load_sample_images().images]
    with matplotlib.cbook.get_sample_data("grace_hopper.jpg") as file:
        pictures.append(Image.open(file).convert("RGB"))
    encoded = []
    for picture in pictures:
        file = io.BytesIO()
        picture.resize((500, 500 * picture.height // picture.width)).save(file, "JPEG", quality=95)
        encoded.append(file.getvalue())
    return encoded


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> DatasetIndex:
    root = tmp_path_factory.mktemp("photographs")
    (root / "train/a").mkdir(parents=True)
    for number, data in enumerate(photographs()):
        (root / f"train/a/{number}.jpg").write_bytes(data)
    return build_index(root, "train", cache_dir=root / "cache")


def rows_of(index: DatasetIndex, side: int) -> Rows:
    images = np.arange(NUM_WINDOWS) % len(index)
    windows = draw_windows(
        seed=0,
        epochs=np.arange(NUM_WINDOWS),
        images=images,
        widths=index.widths[images],
        heights=index.heights[images],
        min_area_fraction=0.08,
        aspect_ratio=(3 / 4, 4 / 3),
        flip=True,
    )
    return Rows(
        source=index, split="train", images=images, windows=windows, shape=(side, side), substitutes=lambda _: iter(())
    )


def decoded(decoder: Decoder, rows: Rows) -> Pixels:
    """[n, height, width, 3]."""
    width, height = rows.shape
    slot = Slot(
        num_bytes=3 * width * height * rows.num_images,
        num_images=rows.num_images,
        device=torch.device("cpu"),
        stream=None,
        pinned=False,
    )
    job = Job(work=lambda: rows, slot=slot)
    decoder.start(job)
    job.done.result(timeout=60)
    decoder.close()
    assert not job.bad
    return slot.tensors(rows.num_images, width, height)[0].permute(0, 2, 3, 1).numpy().astype(np.int64)


def definition(rows: Rows) -> Pixels:
    """Full decode, crop to whole pixels, bilinear with antialiasing, mirror."""
    return np.stack([_crop_and_resize(rows, row) for row in range(rows.num_images)])


def _crop_and_resize(rows: Rows, row: int) -> Pixels:
    windows: Windows = rows.windows
    with Image.open(io.BytesIO(rows.source.read(int(rows.images[row])))) as image:
        crop = image.convert("RGB").crop(tuple(map(round, windows.box(row))))  # type: ignore[arg-type]
    pixels = np.asarray(crop.resize(rows.shape, Image.Resampling.BILINEAR)).astype(np.int64)
    return pixels[:, ::-1] if windows.mirrored[row] else pixels


def dali_decoder() -> Decoder:
    if not HAS_DALI:
        pytest.skip("NVIDIA DALI is not installed (extra: dali-cuda12)")
    return DaliDecoder(num_threads=2, device=torch.device("cpu"), max_batch_size=NUM_WINDOWS, by_path=True)


# Largest mean over a window, and mean over all windows. Observed: vision 2.63, 0.77 and 0.22, 0.03; DALI 0.18, 0.14 and
# 0.19, 0.15; torchvision's on the CPU 0.20, 0.15 and 0.23, 0.16 (Pillow rounds between its two passes). At 224 px no window of these is twice the output, so Pillow decodes at full size there.
BOUNDS: dict[str, tuple[Callable[[], Decoder], dict[int, tuple[float, float]]]] = {
    "vision": (lambda: PillowDecoder(2), {128: (3.5, 1.0), 224: (0.5, 0.1)}),
    "torchvision": (
        lambda: TorchvisionDecoder(num_threads=2, device=torch.device("cpu")),
        {128: (0.4, 0.25), 224: (0.4, 0.25)},
    ),
    "dali": (dali_decoder, {128: (0.4, 0.25), 224: (0.4, 0.25)}),
}


@pytest.mark.parametrize("side", [128, 224])
@pytest.mark.parametrize("name", BOUNDS)
def test_distance_to_the_definition(index: DatasetIndex, name: str, side: int) -> None:
    make, bounds = BOUNDS[name]
    rows = rows_of(index, side)
    difference = np.abs(decoded(make(), rows) - definition(rows))
    of_window = difference.mean(axis=(1, 2, 3))
    print(f"{name} {side}: window {of_window.max():.2f}, mean {of_window.mean():.2f}, max {difference.max()}")
    assert of_window.max() <= bounds[side][0] and of_window.mean() <= bounds[side][1]


@pytest.mark.parametrize("side", [64, 128])
def test_without_scaled_decoding_vision_is_pillow(index: DatasetIndex, side: int) -> None:
    """Within a level on average; what is left is the edge: a window that is not rounded, and a filter that sees beyond it."""
    rows = replace(rows_of(index, side), scaled_decoding=False)
    pixels = decoded(PillowDecoder(2), rows)
    of_window = np.abs(pixels - definition(rows)).mean(axis=(1, 2, 3))
    print(f"{side}: window {of_window.max():.2f}, mean {of_window.mean():.2f}")
    assert of_window.max() <= 1 and of_window.mean() <= 0.1
    for row in range(rows.num_images):
        with Image.open(io.BytesIO(rows.source.read(int(rows.images[row])))) as image:
            whole = image.resize(rows.shape, Image.Resampling.BILINEAR, box=rows.windows.box(row))
        expected = np.asarray(whole)[:, ::-1] if rows.windows.mirrored[row] else np.asarray(whole)
        np.testing.assert_array_equal(pixels[row], expected)


# Observed, largest and mean: vision and DALI 2.63, 0.82 and 0.23, 0.16; vision and torchvision 2.62, 0.81 and 0.20, 0.15;
# DALI and torchvision 0.05, 0.02 and 0.03, 0.01.
APART = {
    ("vision", "dali"): {128: (3.5, 1.1), 224: (0.6, 0.3)},
    ("vision", "torchvision"): {128: (3.5, 1.1), 224: (0.6, 0.3)},
    ("dali", "torchvision"): {128: (0.2, 0.1), 224: (0.2, 0.1)},
}


@pytest.mark.parametrize("side", [128, 224])
@pytest.mark.parametrize("pair", APART, ids="-".join)
def test_distance_of_the_decoders(index: DatasetIndex, pair: tuple[str, str], side: int) -> None:
    rows = rows_of(index, side)
    one, other = (decoded(BOUNDS[name][0](), rows) for name in pair)
    difference = np.abs(one - other).mean(axis=(1, 2, 3))
    print(f"{pair} {side}: window {difference.max():.2f}, mean {difference.mean():.2f}")
    largest, mean = APART[pair][side]
    assert difference.max() <= largest and difference.mean() <= mean
