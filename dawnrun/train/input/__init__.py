"""Pixels for the trainer: the contract every decoder keeps, and the choice of one."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import torch

from dawnrun.dataset.decode import BadImage
from dawnrun.dataset.decoders import DecoderName, choose_decoder
from dawnrun.dataset.index import DatasetIndex
from dawnrun.dataset.memory import training_capacity, validation_capacity
from dawnrun.errors import LaunchError
from dawnrun.recipe.schedule import StepPlan
from dawnrun.recipe.schema import Recipe, View


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """One micro-batch: `images` uint8 N,3,H,W in channels-last memory, `labels` int64 N, both on the device.

    The tensors are views of buffers that are used again: they hold these images until the next batch is asked for.
    `wait_s` is how long the caller waited for it.
    """

    images: torch.Tensor
    labels: torch.Tensor
    num_images: int
    wait_s: float


class InputPipeline(Protocol):
    """One process's share of the images, decoded by `decoder_name`."""

    decoder_name: DecoderName

    def train(self, plans: Iterable[StepPlan]) -> Iterator[Batch]:
        """One Batch per micro-batch of this process, `plan.accumulate_steps` a step; prefetches across steps."""
        ...

    def validation(self, view: View, image_size: int) -> Iterator[Batch]:
        """The process's share of the validation images, each once; the last batch may be smaller."""
        ...

    def close(self) -> None:
        """Stop the threads; may be called twice."""
        ...


def open_input(
    recipe: Recipe,
    *,
    train_sets: Mapping[str, DatasetIndex],
    validation_set: DatasetIndex,
    rank: int,
    world_size: int,
    num_threads: int,
    device: torch.device,
    on_bad_image: Callable[[BadImage], None],
) -> InputPipeline:
    """Allocate the buffers for every batch of the recipe and start the decoder with `num_threads` threads.

    `train_sets` has an index for each data set that the phases name; `on_bad_image` is called in the thread that
    iterates, once for each image replaced. Raises LaunchError if the recipe's decoder is not installed.
    """
    # Imported here because it imports this module's types.
    from dawnrun.train.input.ahead import Decoder
    from dawnrun.train.input.pipeline import DecodedInput
    from dawnrun.train.input.selection import Selection

    selection = Selection(
        train_sets=train_sets,
        validation_set=validation_set,
        seed=recipe.seed,
        flip=recipe.input.flip,
        aspect_ratio=recipe.input.aspect_ratio,
        last_batch=recipe.input.last_batch,
        max_bad_images=recipe.input.max_bad_images,
        on_bad_image=on_bad_image,
        rank=rank,
        world_size=world_size,
        validation_batch_size=recipe.validation.batch_size,
        scaled_decoding=recipe.input.scaled_decoding,
    )
    training = training_capacity(recipe)
    name = _usable(recipe.input.decoder, device)
    decoder: Decoder
    if name == "dali":
        from dawnrun.train.input.dali import DaliDecoder

        decoder = DaliDecoder(
            num_threads=num_threads,
            device=device,
            max_batch_size=max(training.num_images, recipe.validation.batch_size),
            by_path=all(index.is_by_path for index in (*train_sets.values(), validation_set)),
        )
    elif name == "torchvision":
        from dawnrun.train.input.torchvision_io import TorchvisionDecoder

        decoder = TorchvisionDecoder(num_threads=num_threads, device=device)
    else:
        from dawnrun.train.input.vision import PillowDecoder

        decoder = PillowDecoder(num_threads)
    return DecodedInput(
        selection,
        decoder,
        decoder_name=name,
        device=device,
        training_capacity=training,
        validation_capacity=validation_capacity(recipe),
    )


def _usable(asked: Literal["auto"] | DecoderName, device: torch.device) -> DecoderName:
    """The decoder that was chosen, or Pillow in place of a torchvision that was built without nvJPEG."""
    name = choose_decoder(asked, device=device.type).name
    if name != "torchvision":
        return name
    from dawnrun.train.input.torchvision_io import can_decode

    if can_decode(device):
        return name
    if asked == name:
        raise LaunchError(
            f"input.decoder is torchvision, and this torchvision decodes no JPEGs on {device}: take vision"
        )
    return "vision"
