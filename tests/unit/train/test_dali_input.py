"""DALI on the CPU: the same images, windows and labels as Pillow, in one pipeline, whatever the images are."""

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from vision_helpers import CPU, alike, kept, pipeline, plan, smooth

from dawnrun.dataset.crops import Windows
from dawnrun.dataset.decode import BadImage
from dawnrun.dataset.index import DatasetIndex, build_index
from dawnrun.dataset.pack import write_shards
from dawnrun.errors import DataError
from dawnrun.recipe.schema import View
from dawnrun.train.input.dali import DaliDecoder, regions
from dawnrun.train.input.vision import PillowDecoder

try:
    HAS_DALI = importlib.util.find_spec("nvidia.dali") is not None
except ModuleNotFoundError:
    HAS_DALI = False
needs_dali = pytest.mark.skipif(not HAS_DALI, reason="NVIDIA DALI is not installed (extra: dali-cuda12)")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

Indexes = tuple[DatasetIndex, DatasetIndex]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DAWNRUN_CACHE", str(tmp_path / "cache"))
    for split, count in (("train", 12), ("val", 7)):
        for number in range(count):
            path = tmp_path / "set" / split / "ab"[number % 2] / f"{number:02d}{'x' * number}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            smooth(90 + 9 * number, 120 - 5 * number, number).save(path, quality=95)
    return tmp_path / "set"


def indexes_of(root: Path, max_bad: int = 0) -> Indexes:
    return build_index(root, "train", max_bad=max_bad), build_index(root, "val")


@pytest.fixture
def dali(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., DaliDecoder]]:
    """Makes decoders, and counts the pipelines they build in `dali.builds`."""
    opened: list[DaliDecoder] = []
    builds: list[int] = []
    build = DaliDecoder._build

    def counted(self: DaliDecoder) -> object:
        builds.append(1)
        return build(self)

    monkeypatch.setattr(DaliDecoder, "_build", counted)

    def make(by_path: bool = True) -> DaliDecoder:
        opened.append(DaliDecoder(num_threads=2, device=CPU, max_batch_size=8, by_path=by_path))
        return opened[-1]

    make.builds = builds  # type: ignore[attr-defined]
    yield make
    for decoder in opened:
        decoder.close()
        decoder.close()


@given(
    corner=st.tuples(st.floats(0, 300), st.floats(0, 300)),
    size=st.tuples(st.floats(0.01, 300), st.floats(0.01, 300)),
    mirrored=st.booleans(),
)
def test_regions_hold_their_windows(corner: tuple[float, float], size: tuple[float, float], mirrored: bool) -> None:
    """Decoded pixels are inside the image and cover the window; the window is where it was, to a part of a pixel."""
    wide, high = (int(np.ceil(start + length)) for start, length in zip(corner, size, strict=True))
    one = [np.array([value]) for value in (*corner, *size)]
    windows = Windows(left=one[0], top=one[1], width=one[2], height=one[3], mirrored=np.array([mirrored]))
    start, shape, begin, end = regions(windows, np.array([wide], np.int32), np.array([high], np.int32))
    assert (start >= 0).all() and (shape >= 1).all() and (start + shape <= (wide, high)).all()
    ends = sorted([begin[0, 1], end[0, 1]])
    assert (begin[0, 1] > end[0, 1]) == (mirrored and ends[0] < ends[1]) and begin[0, 0] <= end[0, 0]
    assert np.allclose(ends[0] + start[0, 0], corner[0], atol=1e-3)
    assert np.allclose(end[0, 0] + start[0, 1], corner[1] + size[1], atol=1e-3)
    assert ends[0] >= 0 and ends[1] <= shape[0, 0] + 1e-3 and end[0, 0] <= shape[0, 1] + 1e-3


@needs_dali
@pytest.mark.parametrize("store", ["folders", "shards", "both"])
def test_the_batches_of_pillow(data: Path, tmp_path: Path, dali: Callable[..., DaliDecoder], store: str) -> None:
    """Batch and image size change from step to step, validation comes in between, and one pipeline serves it all."""
    if store != "folders":

        class Silent:
            def __enter__(self):
                return lambda number: None

            def __exit__(self, *error: object) -> None:
                pass

        write_shards(data, tmp_path / "out", seed=1, shard_bytes=9000, progress=lambda total: Silent())
    train = build_index(data if store == "folders" else tmp_path / "out", "train")
    val = build_index(tmp_path / "out" if store == "shards" else data, "val")
    plans = [
        plan(0),
        plan(1, image_size=24),
        plan(2, image_size=32, global_batch_size=8, per_device_batch_size=4),
        plan(3, epoch=1, global_batch_size=3, per_device_batch_size=3, accumulate_steps=1),
    ]
    seen = []
    for decoder in (PillowDecoder(2), dali(by_path=store == "folders")):
        batches = pipeline((train, val), decoder=decoder)
        stream = batches.train(plans)
        first = [(batch.images.clone(), batch.labels.clone()) for batch, _ in zip(stream, range(3), strict=False)]
        between = kept(batches.validation(View(rectangular=True), 16))
        seen.append([*first, *between, *kept(stream), *kept(batches.validation(View(), 24))])
        batches.close()
    alike(*seen)
    assert len(dali.builds) == 1  # type: ignore[attr-defined]


@needs_dali
def test_every_kind_of_image(data: Path, dali: Callable[..., DaliDecoder]) -> None:
    """C13, C14: CMYK, grey, palette, transparent, 16-bit, a PNG named .jpg, a tagged one; a GIF, which is Pillow's."""
    folder = data / "train/a"
    exif = Image.Exif()
    exif[0x0112] = 6
    picture = smooth(100, 70, 3)
    picture.convert("CMYK").save(folder / "cmyk.jpg", "JPEG", quality=95)
    picture.convert("L").save(folder / "grey.jpg", "JPEG", quality=95)
    picture.save(folder / "png.jpg", "PNG")
    picture.save(folder / "tagged.jpg", "JPEG", exif=exif, quality=95)
    Image.fromarray(np.asarray(picture.convert("L")).astype(np.uint16) * 257).save(folder / "deep.png", "PNG")
    for mode in ("RGBA", "LA", "P", "1"):
        picture.convert(mode).save(folder / f"{mode}.png", "PNG")
    picture.convert("P").save(folder / "animated.png", "GIF")
    indexes = indexes_of(data)
    plans = [plan(k, first_position=4 * k, min_area_fraction=1.0) for k in range(6)]
    decoders = (PillowDecoder(2), dali())
    seen = []
    for decoder in decoders:
        batches = pipeline(indexes, decoder=decoder)
        seen.append(kept(batches.train(plans)))
        batches.close()
    alike(*seen)
    assert 1 < len(dali.builds) <= 3  # type: ignore[attr-defined]  # the GIF alone is not DALI's


@needs_dali
def test_bad_images_are_replaced_as_by_pillow(data: Path, dali: Callable[..., DaliDecoder]) -> None:
    """C12: found, named, replaced by the next of the order; one too many ends it."""
    path = data / "train/b/03xxx.jpg"
    (data / "train/a/00.jpg").write_bytes(b"text")
    path.write_bytes(path.read_bytes()[:-200])
    indexes = indexes_of(data, max_bad=1)
    seen, told = [], []
    for decoder in (PillowDecoder(2), dali()):
        bad: list[BadImage] = []
        batches = pipeline(indexes, decoder=decoder, max_bad_images=2, bad=bad)
        seen.append(kept(batches.train([plan(k) for k in range(3)])))
        batches.close()
        told.append(bad)
    alike(*seen)
    assert told[0] == told[1] and {Path(bad.path).name for bad in told[1]} == {"00.jpg", path.name}
    batches = pipeline(indexes, decoder=dali(), max_bad_images=1)
    with pytest.raises(DataError, match="allows 1 to be replaced, this is number"):
        kept(batches.train([plan(k) for k in range(3)]))
    batches.close()


@needs_dali
def test_a_file_that_is_gone_is_named(data: Path, dali: Callable[..., DaliDecoder]) -> None:
    indexes = indexes_of(data)
    gone = data / "val/b/03xxx.jpg"
    gone.unlink()
    batches = pipeline(indexes, decoder=dali())
    with pytest.raises(DataError, match=rf"unreadable val image {gone} \(class b\): No such file"):
        kept(batches.validation(View(), 16))
    batches.close()


@needs_dali
def test_errors_and_streams_left_half_way(data: Path, dali: Callable[..., DaliDecoder]) -> None:
    batches = pipeline(indexes_of(data), decoder=dali())
    with pytest.raises(KeyError, match="px160"):
        list(batches.train([plan(0, dataset="px160")]))
    wanted = kept(batches.train([plan(0)]))
    next(batches.train([plan(k) for k in range(3)]))
    alike(kept(batches.train([plan(0)])), wanted)
    batches.close()
