"""The batches of DecodedInput: which images, in which shape, for any number of processes, and what bad files do."""

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from vision_helpers import CPU, kept, pipeline, plan

from dawnrun.dataset.decode import decode_window
from dawnrun.dataset.index import DatasetIndex, build_index
from dawnrun.dataset.order import epoch_order, step_images
from dawnrun.recipe.schedule import StepPlan
from dawnrun.recipe.schema import Recipe, View
from dawnrun.train.input import open_input
from dawnrun.train.input.pipeline import DecodedInput

NUM_TRAIN, NUM_VAL = 11, 10


def colour(number: int) -> tuple[int, int, int]:
    """A flat colour that says which image it is."""
    return (20 * number + 10, 250 - 20 * number, 40 + (97 * number) % 200)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """11 training and 10 validation PNGs of one colour each, in two classes, in many sizes."""
    root = tmp_path_factory.mktemp("data")
    for split, count in (("train", NUM_TRAIN), ("val", NUM_VAL)):
        for number in range(count):
            path = root / split / ("a" if number < 2 else "b") / f"{number:02d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (30 + 3 * number, 60 - 3 * number), colour(number)).save(path)
    return root


@pytest.fixture(scope="module")
def indexes(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[DatasetIndex, DatasetIndex]:
    cache = tmp_path_factory.mktemp("cache")
    return build_index(data, "train", cache_dir=cache), build_index(data, "val", cache_dir=cache)


@pytest.fixture
def opened(indexes: tuple[DatasetIndex, DatasetIndex]) -> Iterator[DecodedInput]:
    vision = pipeline(indexes)
    yield vision
    vision.close()


def numbers(images: torch.Tensor) -> list[int]:
    """Which image each row is, by its colour."""
    first = images[:, 0].float().mean(dim=(1, 2))
    return [round((float(value) - 10) / 20) for value in first]


def test_a_batch_has_the_images_of_the_plan(opened: DecodedInput) -> None:
    plans = [plan(step) for step in range(3)]
    batches = kept(opened.train(plans))
    assert len(batches) == 6
    for step, each in enumerate(plans):
        wanted, _ = step_images(each, num_images=NUM_TRAIN, seed=5, last_batch="fill")
        seen = [n for images, _ in batches[2 * step : 2 * step + 2] for n in numbers(images)]
        assert seen == wanted.tolist()
    for images, labels in batches:
        assert images.dtype == torch.uint8 and labels.dtype == torch.int64
        assert images.shape == (2, 3, 16, 16) and images.is_contiguous(memory_format=torch.channels_last)
        assert labels.tolist() == [0 if number < 2 else 1 for number in numbers(images)]


def test_buffers_are_used_again_and_hold_until_the_next_batch(opened: DecodedInput) -> None:
    places = []
    for batch in opened.train(plan(step % 3, first_position=0) for step in range(8)):
        before = batch.images.clone()
        places.append(batch.images.data_ptr())
        assert batch.images.equal(before) and batch.num_images == 2 and batch.wait_s >= 0
    assert len(places) == 16 and len(set(places)) == 4


@pytest.mark.parametrize("last_batch", ["fill", "drop"])
def test_two_processes_share_the_step_of_one(indexes: tuple[DatasetIndex, DatasetIndex], last_batch: str) -> None:
    """C33: 11 images, 2 processes, batch 4: the same number of steps on both, and together the images of one."""
    steps = 3 if last_batch == "fill" else 2
    shares = []
    for rank in range(2):
        vision = pipeline(indexes, rank=rank, world_size=2, last_batch=last_batch)
        shares.append(kept(vision.train(plan(step, accumulate_steps=1) for step in range(steps))))
        vision.close()
    vision = pipeline(indexes, last_batch=last_batch)
    alone = kept(vision.train(plan(step) for step in range(steps)))
    vision.close()
    assert len(shares[0]) == len(shares[1]) == steps
    for step in range(steps):
        for rank in range(2):
            assert shares[rank][step][0].equal(alone[2 * step + rank][0])
            assert shares[rank][step][1].equal(alone[2 * step + rank][1])


def test_a_resumed_stream_goes_on_with_the_same_batches(indexes: tuple[DatasetIndex, DatasetIndex]) -> None:
    """C11: the stream from step 2 on is the undisturbed stream's, epoch boundary and crops included."""
    plans = [plan(step) for step in range(6)]
    vision = pipeline(indexes)
    straight = kept(vision.train(plans))
    vision.close()
    vision = pipeline(indexes, num_threads=1)
    resumed = kept(vision.train(plans[2:]))
    vision.close()
    assert len(resumed) == len(straight) - 4
    for (images, labels), (again, labels_again) in zip(straight[4:], resumed, strict=True):
        assert images.equal(again) and labels.equal(labels_again)
    first, second = (epoch_order(num_images=NUM_TRAIN, seed=5, epoch=epoch).tolist() for epoch in range(2))
    assert first != second and sorted(first) == sorted(second)


def test_image_and_batch_size_change_from_step_to_step(opened: DecodedInput) -> None:
    small = plan(0)
    large = plan(1, image_size=32, per_device_batch_size=4, accumulate_steps=1)
    shapes = [tuple(batch.images.shape) for batch in opened.train([small, large, small])]
    assert shapes == [(2, 3, 16, 16)] * 2 + [(4, 3, 32, 32)] + [(2, 3, 16, 16)] * 2


def test_each_validation_image_once_over_four_processes(indexes: tuple[DatasetIndex, DatasetIndex]) -> None:
    """C21: 10 images, 4 processes: each image once, none padded; ranks have uneven shares."""
    for view in (View(), View(rectangular=True)):
        seen: list[int] = []
        for rank in range(4):
            vision = pipeline(indexes, rank=rank, world_size=4)
            for batch in vision.validation(view, 32):
                assert batch.num_images == len(batch.labels) <= 3
                assert batch.labels.tolist() == [0 if number < 2 else 1 for number in numbers(batch.images)]
                seen += numbers(batch.images)
            vision.close()
        assert sorted(seen) == list(range(NUM_VAL))


def test_rectangular_batches_have_one_shape_each(opened: DecodedInput) -> None:
    shapes = {tuple(batch.images.shape[2:]) for batch in opened.validation(View(rectangular=True), 32)}
    assert shapes == {(40, 32), (32, 32), (32, 40)}


def test_validation_leaves_batches_read_ahead_alone(opened: DecodedInput) -> None:
    plans = [plan(step) for step in range(3)]
    alone = kept(opened.train(plans))
    stream, mixed = opened.train(plans), []
    for _ in range(3):
        batch = next(stream)
        mixed.append((batch.images.clone(), batch.labels.clone()))
    assert sum(batch.num_images for batch in opened.validation(View(), 16)) == NUM_VAL
    mixed += kept(stream)
    assert all(one.equal(other) for (one, _), (other, _) in zip(alone, mixed, strict=True))


def test_a_stream_left_half_way_can_be_followed_by_another(opened: DecodedInput) -> None:
    plans = [plan(step) for step in range(3)]
    alone = kept(opened.train(plans))
    next(opened.train(plans))
    assert all(one.equal(other) for (one, _), (other, _) in zip(alone, kept(opened.train(plans)), strict=True))


def decode_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("decode")]


def test_close_half_way_leaves_no_thread(indexes: tuple[DatasetIndex, DatasetIndex]) -> None:
    vision = pipeline(indexes)
    stream = vision.train(plan(step % 3) for step in range(100))
    next(stream)
    assert decode_threads()
    vision.close()
    vision.close()
    assert not decode_threads()


def test_an_interrupt_leaves_no_thread(indexes: tuple[DatasetIndex, DatasetIndex]) -> None:
    vision = pipeline(indexes)

    def plans() -> Iterator[StepPlan]:
        yield plan(0)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(vision.train(plans()))
    vision.close()
    assert not decode_threads()


def test_pixels_are_those_of_the_decoder(opened: DecodedInput, indexes: tuple[DatasetIndex, DatasetIndex]) -> None:
    (batch, *_) = kept(opened.validation(View(resize_px=16), 16))
    source = indexes[1]
    width, height = int(source.widths[0]), int(source.heights[0])
    out = np.empty((16, 16, 3), np.uint8)
    box = (0.0, (height - width) / 2, float(width), (height + width) / 2)
    decode_window(source.read(0), size=(width, height), box=box, mirrored=False, out=out)
    assert np.array_equal(batch[0][0].permute(1, 2, 0).numpy(), out)


def test_an_unexpected_error_of_a_thread_reaches_the_trainer(opened: DecodedInput) -> None:
    with pytest.raises(KeyError, match="px160"):
        list(opened.train([plan(0, dataset="px160")]))


def test_same_image_has_other_windows_in_other_epochs(indexes: tuple[DatasetIndex, DatasetIndex], data: Path) -> None:
    """C20: windows differ between epochs and images, and are equal when asked again with the same seed."""
    source = indexes[0]
    vision = pipeline(indexes)
    position = np.flatnonzero(epoch_order(num_images=NUM_TRAIN, seed=5, epoch=0) == 7)
    boxes = []
    for epoch in (0, 1, 0):
        where = np.flatnonzero(epoch_order(num_images=NUM_TRAIN, seed=5, epoch=epoch) == 7)
        images, windows = vision._selection.seen(plan(0, epoch=epoch), source, where)
        assert images.tolist() == [7]
        boxes.append(windows.box(0))
    vision.close()
    assert position.size == 1 and boxes[0] != boxes[1] and boxes[0] == boxes[2]


@pytest.mark.parametrize("scaled", [True, False])
def test_a_recipe_turns_scaled_decoding_off(tmp_path: Path, scaled: bool) -> None:
    for split in ("train", "val"):
        (tmp_path / split / "a").mkdir(parents=True)
        Image.effect_noise((256, 256), 99).save(tmp_path / split / "a/x.jpg", quality=95)
    sets = [build_index(tmp_path, split, cache_dir=tmp_path / "cache") for split in ("train", "val")]
    phase = {"epochs": 1, "image_size": 32, "global_batch_size": 1, "per_device_batch_size": 1}
    settings = {"decoder": "vision", "scaled_decoding": scaled}
    batches = open_input(
        Recipe.model_validate({"name": "toy", "lr": 0.1, "input": settings, "phases": [phase]}),
        train_sets={"full": sets[0]},
        validation_set=sets[1],
        rank=0,
        world_size=1,
        num_threads=1,
        device=CPU,
        on_bad_image=lambda _: None,
    )
    (batch,) = batches.validation(View(resize_px=32), 32)
    with Image.open(tmp_path / "val/a/x.jpg") as image:
        whole = np.asarray(image.convert("RGB").resize((32, 32), Image.Resampling.BILINEAR))
    assert np.array_equal(batch.images[0].permute(1, 2, 0).numpy(), whole) != scaled
    batches.close()


def test_open_input_makes_room_for_every_phase(indexes: tuple[DatasetIndex, DatasetIndex]) -> None:
    recipe = Recipe.model_validate(
        {
            "name": "small",
            "lr": 0.1,
            "phases": [
                {"epochs": 1, "image_size": 16, "global_batch_size": 8, "per_device_batch_size": 8},
                {
                    "epochs": 1,
                    "image_size": 24,
                    "global_batch_size": 2,
                    "per_device_batch_size": 2,
                    "validation": {"image_size": 32, "rectangular": True},
                },
            ],
        }
    )
    vision = open_input(
        recipe,
        train_sets={"full": indexes[0]},
        validation_set=indexes[1],
        rank=0,
        world_size=1,
        num_threads=1,
        device=CPU,
        on_bad_image=lambda bad: pytest.fail(str(bad)),
    )
    first = plan(0, per_device_batch_size=8, global_batch_size=8, accumulate_steps=1)
    second = plan(1, image_size=24, per_device_batch_size=2, global_batch_size=2, accumulate_steps=1)
    assert [tuple(batch.images.shape) for batch in vision.train([first, second])] == [(8, 3, 16, 16), (2, 3, 24, 24)]
    for phase in recipe.phases:
        assert sum(batch.num_images for batch in vision.validation(phase.validation, phase.image_size)) == NUM_VAL
    vision.close()
