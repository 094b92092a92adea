"""Which images are in which batch: pure functions of seed, epoch and position, the same for any number of processes."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dawnrun.dataset.counter import bits
from dawnrun.recipe.schedule import StepPlan

LastBatch = Literal["fill", "drop", "continue"]
_ORDER = 1
"""Keeps the bits of the order apart from those of the crops."""


@lru_cache(maxsize=2)  # a batch that crosses an epoch's end needs two
def epoch_order(*, num_images: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """Image numbers in the order they are seen in `epoch`: int64[num_images], read-only, a permutation."""
    order = np.argsort(bits(_ORDER, seed, epoch, np.arange(num_images)), kind="stable")
    order.setflags(write=False)
    return order


def images_at(
    positions: NDArray[np.int64], *, epoch: int, num_images: int, seed: int, last_batch: LastBatch
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Image numbers and epochs, int64[n], at `positions` of an epoch's order.

    Beyond its end, `fill` starts again at the head of the same order and `continue` goes on in the next epoch's.
    """
    lap, place = np.divmod(positions, num_images)
    epochs = epoch + lap if last_batch == "continue" else np.full_like(positions, epoch)
    images = np.empty_like(positions)
    for each in np.unique(epochs):
        here = epochs == each
        images[here] = epoch_order(num_images=num_images, seed=seed, epoch=int(each))[place[here]]
    return images, epochs


def step_images(
    plan: StepPlan, *, num_images: int, seed: int, last_batch: LastBatch
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Image numbers and epochs of the whole global batch, int64[global_batch_size] each."""
    positions = plan.first_position + np.arange(plan.global_batch_size)
    return images_at(positions, epoch=plan.epoch, num_images=num_images, seed=seed, last_batch=last_batch)


def micro_batch(plan: StepPlan, index: int, *, rank: int, world_size: int) -> slice:
    """The part of the global batch that is micro-batch `index` of process `rank`.

    Micro-batch m of a step goes to process m % world_size, so what is normalised together depends on no process count.
    """
    first = (index * world_size + rank) * plan.per_device_batch_size
    return slice(first, first + plan.per_device_batch_size)


def micro_batches(
    images: NDArray[np.int64], plan: StepPlan, *, rank: int, world_size: int
) -> Iterator[NDArray[np.int64]]:
    """The share of process `rank` in `images`, in the order it is computed."""
    for index in range(plan.accumulate_steps):
        yield images[micro_batch(plan, index, rank=rank, world_size=world_size)]
