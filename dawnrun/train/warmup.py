"""Warm-up: every shape of batch goes through the network once before the first step, and leaves no trace.

What it takes out of the steps: memory that is allocated, algorithms that are chosen by trial, DDP's buckets that are
made anew after the first backward pass. It is start-up, so DAWNBench's rule counts it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import repeat

import torch
from torch import nn

from dawnrun.dataset.views import view_shapes
from dawnrun.recipe.schedule import Schedule, StepPlan
from dawnrun.recipe.schema import Recipe
from dawnrun.train.checkpoint import Key, state_values
from dawnrun.train.evaluate import Classifier
from dawnrun.train.input import Batch
from dawnrun.train.peers import Peers
from dawnrun.train.step import Stepper, TrainState

ValidationShape = tuple[int, int, int]
"""Images, width and height of a full batch of validation."""


def wants_warm_up(asked: bool | str, device: torch.device) -> bool:
    """`auto`: on accelerators. A CPU chooses nothing by trial; there it would cost seconds and save none."""
    return device.type != "cpu" if isinstance(asked, str) else asked


def warm_up(
    state: TrainState, stepper: Stepper, schedule: Schedule, validated: nn.Module, peers: Peers, *, num_classes: int
) -> None:
    """Steps and validation batches of every shape that is still to come, on random pixels, the largest first.

    State, random numbers and the stepper are afterwards what they were before, to the last bit. All processes make
    the same steps. After a failure `state.step` is that of the first step with the shape that failed.
    """
    device = next(state.bare.parameters()).device
    plans = training_plans(schedule, first_step=state.step)
    shapes = validation_shapes(schedule, first_step=state.step)
    with _restored(state, device):
        if stepper.compiles:
            _compile_in_turn(state, stepper, plans, peers, num_classes)
        # Twice the first one: DDP makes its buckets anew after the first backward pass.
        for plan in (*plans[:1], *plans):
            state.step = plan.step
            stepper.step(state, repeat(_training_batch(plan, num_classes, device)), plan)
        with torch.inference_mode(), Classifier(validated, stepper) as classifier:
            for num_images, width, height in shapes:
                batch = _random_batch((num_images, 3, height, width), num_classes, device)
                classifier.logits(stepper.normalize(batch.images))
    stepper.reset(state)


def _compile_in_turn(
    state: TrainState, stepper: Stepper, plans: Sequence[StepPlan], peers: Peers, num_classes: int
) -> None:
    """The first process of each machine compiles every shape; the others then find them in its cache.

    That is a folder on the machine's own disk, unless TORCHINDUCTOR_CACHE_DIR says otherwise.
    """
    device = next(state.bare.parameters()).device
    for is_turn in (peers.local_rank == 0, peers.local_rank != 0):
        for plan in plans if is_turn else ():
            state.step = plan.step
            stepper.pass_alone(state, _training_batch(plan, num_classes, device), plan)
        peers.barrier()


def _training_batch(plan: StepPlan, num_classes: int, device: torch.device) -> Batch:
    return _random_batch((plan.per_device_batch_size, 3, plan.image_size, plan.image_size), num_classes, device)


def training_plans(schedule: Schedule, *, first_step: int) -> list[StepPlan]:
    """One step for each shape of training batch from `first_step` on, with and without exchange where steps accumulate."""
    found: dict[tuple[int, int, int], StepPlan] = {}
    for epoch in schedule.epochs():
        if epoch.first_step + epoch.steps > first_step:
            passes = min(2, epoch.accumulate_steps)
            plan = replace(schedule.at(epoch.first_step), accumulate_steps=passes)
            found.setdefault((epoch.per_device_batch_size, epoch.image_size, passes), plan)
    return sorted(found.values(), key=lambda plan: -plan.per_device_batch_size * plan.image_size**2)


def validation_shapes(schedule: Schedule, *, first_step: int) -> list[ValidationShape]:
    """The shapes of full validation batches from `first_step` on; the last, smaller batch of a shape is left out."""
    recipe: Recipe = schedule.recipe
    shapes = {
        (recipe.validation.batch_size, width, height)
        for epoch in schedule.epochs()
        if epoch.validates and epoch.first_step + epoch.steps > first_step
        for width, height in view_shapes(recipe.phases[epoch.phase_index].validation, epoch.image_size)
    }
    return sorted(shapes, key=lambda shape: -shape[0] * shape[1] * shape[2])


def _random_batch(shape: tuple[int, int, int, int], num_classes: int, device: torch.device) -> Batch:
    """Pixels and labels from a generator of their own."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
    labels = torch.randint(0, num_classes, shape[:1], generator=generator)
    images = images.to(device).contiguous(memory_format=torch.channels_last)
    return Batch(images=images, labels=labels.to(device), num_images=shape[0], wait_s=0.0)


@contextmanager
def _restored(state: TrainState, device: torch.device) -> Iterator[None]:
    """Put the state back after the block: weights, statistics, momentum, average, loss scale, step, random numbers.

    The step stays where it is if the block fails. What an optimizer made for itself meanwhile becomes zero, as it
    would have begun.
    """
    before: dict[Key, torch.Tensor] = {
        key: value.clone() for key, value in state_values(state).items() if isinstance(value, torch.Tensor)
    }
    step = state.step
    devices = [] if device.type == "cpu" else [device.index or 0]
    with torch.random.fork_rng(devices, device_type=device.type if devices else "cuda"):
        yield
    with torch.no_grad():
        for key, value in state_values(state).items():
            if isinstance(value, torch.Tensor):
                value.copy_(before[key]) if key in before else value.zero_()
    state.step = step
