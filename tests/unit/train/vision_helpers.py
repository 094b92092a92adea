"""What the tests of the input share: steps of 4 images in 2 micro-batches, and a small pipeline."""

from collections.abc import Iterator

import numpy as np
import torch
from PIL import Image

from dawnrun.dataset.decode import BadImage
from dawnrun.dataset.index import DatasetIndex
from dawnrun.dataset.memory import Capacity
from dawnrun.recipe.schedule import StepPlan
from dawnrun.train.input import Batch
from dawnrun.train.input.ahead import Decoder
from dawnrun.train.input.pipeline import DecodedInput
from dawnrun.train.input.selection import Selection
from dawnrun.train.input.vision import PillowDecoder

CPU = torch.device("cpu")


def plan(step: int = 0, **changed: int | bool | str | float) -> StepPlan:
    values: dict[str, object] = {
        "step": step,
        "epoch": step // 3,
        "step_in_epoch": step % 3,
        "steps_in_epoch": 3,
        "phase_index": 0,
        "lr": 0.1,
        "momentum": 0.9,
        "image_size": 16,
        "global_batch_size": 4,
        "per_device_batch_size": 2,
        "accumulate_steps": 2,
        "dataset": "full",
        "min_area_fraction": 0.3,
        "first_position": 4 * (step % 3),
        "ends_epoch": step % 3 == 2,
    }
    return StepPlan(**(values | changed))  # type: ignore[arg-type]


def pipeline(
    indexes: tuple[DatasetIndex, DatasetIndex],
    *,
    rank: int = 0,
    world_size: int = 1,
    max_bad_images: int = 0,
    bad: list[BadImage] | None = None,
    last_batch: str = "fill",
    num_threads: int = 2,
    validation_batch_size: int = 3,
    decoder: Decoder | None = None,
) -> DecodedInput:
    selection = Selection(
        train_sets={"full": indexes[0]},
        validation_set=indexes[1],
        seed=5,
        flip=True,
        aspect_ratio=(3 / 4, 4 / 3),
        last_batch=last_batch,  # type: ignore[arg-type]
        max_bad_images=max_bad_images,
        on_bad_image=([] if bad is None else bad).append,
        rank=rank,
        world_size=world_size,
        validation_batch_size=validation_batch_size,
    )
    return DecodedInput(
        selection,
        decoder or PillowDecoder(num_threads),
        decoder_name="vision",
        device=CPU,
        training_capacity=Capacity(4 * 32 * 32, 4),
        validation_capacity=Capacity(validation_batch_size * 32 * 42, validation_batch_size),
    )


def kept(batches: Iterator[Batch]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(batch.images.clone(), batch.labels.clone()) for batch in batches]


def smooth(width: int, height: int, seed: int) -> Image.Image:
    """Colours that change slowly, as most of a photograph does."""
    coarse = np.random.default_rng(seed).integers(0, 255, (5, 6, 3), np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


def alike(ours: list[tuple[torch.Tensor, torch.Tensor]], theirs: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Equal shapes and labels, and the same pixels but for rounding and the edges of windows."""
    assert len(ours) == len(theirs)
    for (images, labels), (others, other_labels) in zip(ours, theirs, strict=True):
        assert torch.equal(labels, other_labels) and images.shape == others.shape
        assert images.is_contiguous(memory_format=torch.channels_last)
        difference = (images.int() - others.int()).abs().float()
        assert difference.mean(dim=(1, 2, 3)).max() < 2.5
