"""torchvision's decoder and the resize on the device, on the CPU: the images, windows and labels of Pillow."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from vision_helpers import CPU, alike, kept, pipeline, plan, smooth

from dawnrun.dataset.decode import BadImage
from dawnrun.dataset.index import DatasetIndex, build_index
from dawnrun.errors import DataError, LaunchError
from dawnrun.recipe.schema import Recipe, View
from dawnrun.train import input as input_module
from dawnrun.train.input import open_input, torchvision_io
from dawnrun.train.input.torchvision_io import TorchvisionDecoder, can_decode, seen_through
from dawnrun.train.input.vision import PillowDecoder

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torchvision's decoders go to torchcodec
Indexes = tuple[DatasetIndex, DatasetIndex]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DAWNRUN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(torchvision_io, "GROUP", 3)
    for split, count in (("train", 12), ("val", 7)):
        for number in range(count):
            path = tmp_path / "set" / split / "ab"[number % 2] / f"{number:02d}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            smooth(90 + 9 * number, 120 - 5 * number, number).save(path, quality=95)
    return tmp_path / "set"


def indexes_of(root: Path, max_bad: int = 0) -> Indexes:
    return build_index(root, "train", max_bad=max_bad), build_index(root, "val")


def ours() -> TorchvisionDecoder:
    return TorchvisionDecoder(num_threads=2, device=CPU)


@given(
    size=st.tuples(st.integers(1, 60), st.integers(1, 60)),
    corner=st.tuples(st.floats(0, 0.9), st.floats(0, 0.9)),
    extent=st.tuples(st.floats(0.05, 1), st.floats(0.05, 1)),
    shape=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    mirrored=st.booleans(),
)
def test_windows_are_those_of_pillow(size, corner, extent, shape, mirrored) -> None:
    """Any window, larger or smaller than the output, at any edge: within Pillow's own rounding between its passes."""
    image = smooth(*size, 3)
    box = [start * side for start, side in zip(corner, size, strict=True)]
    box += [start + max(0.5, (side - start) * part) for start, side, part in zip(box, size, extent, strict=True)]
    box = [min(value, size[axis % 2]) for axis, value in enumerate(box)]
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)
    found = seen_through([pixels], np.array([box]), np.array([mirrored]), shape)[0].int()
    wanted = np.asarray(image.resize(shape, Image.Resampling.BILINEAR, box=tuple(box))).astype(int)
    wanted = wanted[:, ::-1] if mirrored else wanted
    assert found.shape == wanted.shape and np.abs(found.numpy() - wanted).max() <= 2


def test_windows_of_a_group_do_not_see_one_another() -> None:
    """Images of many sizes share padded memory."""
    images = [torch.full((3, side, 70 - side), 10 + side, dtype=torch.uint8) for side in (5, 20, 60)]
    boxes = np.array([[0, 0, image.shape[2], image.shape[1]] for image in images], float)
    found = seen_through(images, boxes, np.array([False, True, False]), (9, 7))
    assert found.shape == (3, 7, 9, 3)
    assert [sorted(set(each.flatten().tolist())) for each in found] == [[15], [30], [70]]


def test_the_batches_of_pillow(data: Path) -> None:
    """Batch and image size change from step to step, and validation comes in between."""
    plans = [
        plan(0),
        plan(1, image_size=24),
        plan(2, image_size=32, global_batch_size=8, per_device_batch_size=4),
        plan(3, epoch=1, global_batch_size=3, per_device_batch_size=3, accumulate_steps=1),
    ]
    seen = []
    for decoder in (PillowDecoder(2), ours()):
        batches = pipeline(indexes_of(data), decoder=decoder)
        stream = batches.train(plans)
        first = [(batch.images.clone(), batch.labels.clone()) for batch, _ in zip(stream, range(3), strict=False)]
        between = kept(batches.validation(View(rectangular=True), 16))
        seen.append([*first, *between, *kept(stream), *kept(batches.validation(View(), 24))])
        batches.close()
    alike(*seen)


def test_every_kind_of_image(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C13, C14: what is no plain JPEG is Pillow's from the start; a tagged one is not turned."""
    folder = data / "train/a"
    exif = Image.Exif()
    exif[0x0112] = 6
    picture = smooth(100, 70, 3)
    picture.convert("CMYK").save(folder / "cmyk.jpg", "JPEG", quality=95)
    picture.convert("L").save(folder / "grey.jpg", "JPEG", quality=95)
    picture.save(folder / "png.jpg", "PNG")
    picture.save(folder / "tagged.jpg", "JPEG", exif=exif, quality=95)
    picture.save(folder / "progressive.jpg", "JPEG", progressive=True, quality=95)
    picture.convert("RGBA").save(folder / "alpha.png", "PNG")
    plans = [plan(k, first_position=4 * k, min_area_fraction=1.0) for k in range(5)]
    decoded = []
    decode = torchvision_io._decode

    def counted(files: list[torch.Tensor], device: torch.device) -> list[torch.Tensor]:
        decoded.extend(files)
        return decode(files, device)

    monkeypatch.setattr(torchvision_io, "_decode", counted)
    seen = []
    for decoder in (PillowDecoder(2), ours()):
        batches = pipeline(indexes_of(data), decoder=decoder)
        seen.append(kept(batches.train(plans)))
        batches.close()
    alike(*seen)
    others = {(folder / name).read_bytes() for name in ("cmyk.jpg", "grey.jpg", "png.jpg", "alpha.png")}
    assert decoded and not others & {bytes(file.tolist()) for file in decoded}


def test_bad_images_are_replaced_as_by_pillow(data: Path) -> None:
    """C12: text, and a JPEG cut at its end, which torchvision would fill up in silence."""
    path = data / "train/b/03.jpg"
    (data / "train/a/00.jpg").write_bytes(b"text")
    path.write_bytes(path.read_bytes()[:-200])
    indexes = indexes_of(data, max_bad=1)
    seen, told = [], []
    for decoder in (PillowDecoder(2), ours()):
        bad: list[BadImage] = []
        batches = pipeline(indexes, decoder=decoder, max_bad_images=2, bad=bad)
        seen.append(kept(batches.train([plan(k) for k in range(3)])))
        batches.close()
        told.append(bad)
    alike(*seen)
    assert told[0] == told[1] and {Path(bad.path).name for bad in told[1]} == {"00.jpg", path.name}


def test_a_file_without_an_end_is_left_to_pillow(data: Path) -> None:
    """nvJPEG may fill up what is missing in silence."""
    batches = pipeline(indexes_of(data), decoder=ours())
    rows = next(batches._selection.training([plan(0)]))()
    batches.close()
    assert all(torchvision_io._read(rows, row) is not None for row in range(rows.num_images))
    for image in rows.images.tolist():
        path = Path(rows.source.path(image))
        path.write_bytes(path.read_bytes()[:-2])
    assert all(torchvision_io._read(rows, row) is None for row in range(rows.num_images))


def test_a_group_that_cannot_be_decoded_is_done_by_pillow(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """nvJPEG does not say which image of a list it refuses."""
    refused = (data / "train/b/05.jpg").read_bytes()
    decode = torchvision_io._decode

    def picky(files: list[torch.Tensor], device: torch.device) -> list[torch.Tensor]:
        if any(bytes(file.tolist()) == refused for file in files):
            raise RuntimeError("nvjpegDecodeBatched failed")
        return decode(files, device)

    monkeypatch.setattr(torchvision_io, "_decode", picky)
    seen, bad = [], list[BadImage]()
    for decoder in (PillowDecoder(2), ours()):
        batches = pipeline(indexes_of(data), decoder=decoder, bad=bad)
        seen.append(kept(batches.train([plan(k) for k in range(3)])))
        batches.close()
    alike(*seen)
    assert not bad


def test_a_file_that_is_gone_is_named(data: Path) -> None:
    indexes = indexes_of(data)
    gone = data / "val/b/03.jpg"
    gone.unlink()
    batches = pipeline(indexes, decoder=ours())
    with pytest.raises(DataError, match=rf"unreadable val image {gone} \(class b\): No such file"):
        kept(batches.validation(View(), 16))
    batches.close()


def test_errors_and_streams_left_half_way(data: Path) -> None:
    decoder = ours()
    batches = pipeline(indexes_of(data), decoder=decoder)
    with pytest.raises(KeyError, match="px160"):
        list(batches.train([plan(0, dataset="px160")]))
    wanted = kept(batches.train([plan(0)]))
    next(batches.train([plan(k) for k in range(3)]))
    alike(kept(batches.train([plan(0)])), wanted)
    batches.close()
    batches.close()


def test_whether_torchvision_can_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    assert can_decode(CPU)
    for error in (RuntimeError("not compiled with nvjpeg"), ImportError("gone to torchcodec")):

        def fail(files: list[torch.Tensor], device: torch.device, error: Exception = error) -> list[torch.Tensor]:
            raise error

        monkeypatch.setattr(torchvision_io, "_decode", fail)
        assert not can_decode(CPU)
        with pytest.raises(LaunchError, match="decodes no JPEGs on cpu: take vision"):
            input_module._usable("torchvision", CPU)
    monkeypatch.setattr("dawnrun.dataset.decoders.has_dali", lambda: False)
    monkeypatch.setattr("dawnrun.dataset.decoders.has_nvidia_gpu", lambda: True)
    assert input_module._usable("auto", torch.device("cuda", 1)) == "vision"


def test_a_recipe_asks_for_it(data: Path) -> None:
    train, val = indexes_of(data)
    phase = {"epochs": 1, "image_size": 16, "global_batch_size": 4, "per_device_batch_size": 2}
    recipe = Recipe.model_validate(
        {
            "name": "toy",
            "lr": 0.1,
            "input": {"decoder": "torchvision"},
            "phases": [phase],
            "validation": {"batch_size": 3},
        }
    )
    batches = open_input(
        recipe,
        train_sets={"full": train},
        validation_set=val,
        rank=0,
        world_size=1,
        num_threads=1,
        device=CPU,
        on_bad_image=lambda _: None,
    )
    assert batches.decoder_name == "torchvision"
    assert [batch.num_images for batch in batches.validation(View(), 16)] == [3, 3, 1]
    batches.close()
