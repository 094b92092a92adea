"""The input of one process: its selection of images, made into batches by a decoder."""

from collections.abc import Iterable, Iterator

import torch

from dawnrun.dataset.decoders import DecoderName
from dawnrun.dataset.memory import Capacity
from dawnrun.recipe.schedule import StepPlan
from dawnrun.recipe.schema import View
from dawnrun.train.input import Batch
from dawnrun.train.input.ahead import Decoder, ReadAhead
from dawnrun.train.input.selection import Selection


class DecodedInput:
    """The InputPipeline of every decoder; see `InputPipeline` for its methods."""

    def __init__(
        self,
        selection: Selection,
        decoder: Decoder,
        *,
        decoder_name: DecoderName,
        device: torch.device,
        training_capacity: Capacity,
        validation_capacity: Capacity,
    ) -> None:
        """Allocate all buffers; the decoder becomes this object's own."""
        self.decoder_name: DecoderName = decoder_name
        self._selection, self._decoder = selection, decoder
        # Two rings: batches read ahead for training keep their buffers while a validation runs in between.
        self._training, self._validation = (
            ReadAhead(decoder, capacity=capacity, device=device)
            for capacity in (training_capacity, validation_capacity)
        )

    def train(self, plans: Iterable[StepPlan]) -> Iterator[Batch]:
        """One Batch per micro-batch of this process, read ahead across steps, epochs and phases. Raises DataError."""
        return self._training.batches(self._selection.training(plans), self._selection.note)

    def validation(self, view: View, image_size: int) -> Iterator[Batch]:
        """The process's share of the validation images, each once. Raises DataError at an unreadable one."""
        return self._validation.batches(self._selection.validation(view, image_size), self._selection.note)

    def close(self) -> None:
        """Stop the threads; may be called twice."""
        self._training.stop()
        self._validation.stop()
        self._decoder.close()
