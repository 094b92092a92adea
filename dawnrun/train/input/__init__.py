"""Pixels for the trainer: the contract every decoder keeps, and the choice of one."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import torch

from dawnrun.recipe.schedule import StepPlan
from dawnrun.recipe.schema import View


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
    """One process's share of the images."""

    def train(self, plans: Iterable[StepPlan]) -> Iterator[Batch]:
        """One Batch per micro-batch of this process, `plan.accumulate_steps` a step; prefetches across steps."""
        ...

    def validation(self, view: View, image_size: int) -> Iterator[Batch]:
        """This process's share of the validation images, each once; the last batch may be smaller."""
        ...

    def close(self) -> None:
        """Stop the threads; may be called twice."""
        ...
