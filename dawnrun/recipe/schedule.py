"""The schedule: what every step of a run is, as a pure function of the recipe, the image count and the world size."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol, Self

from dawnrun.errors import Problem, RecipeError
from dawnrun.recipe.check import check_recipe, check_splitting
from dawnrun.recipe.course import Validation
from dawnrun.recipe.curve import momentum_in_step, value_in_step
from dawnrun.recipe.schema import Recipe


@dataclass(frozen=True, kw_only=True, slots=True)
class StepPlan:
    """One update. `step` and `epoch` count from 0; `first_position` is where its images start in the epoch's order."""

    step: int
    epoch: int
    step_in_epoch: int
    steps_in_epoch: int
    phase_index: int
    lr: float
    momentum: float
    image_size: int
    global_batch_size: int
    per_device_batch_size: int
    accumulate_steps: int
    dataset: str
    min_area_fraction: float
    first_position: int
    ends_epoch: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class EpochPlan:
    """One epoch, from 0. `images` = steps * global_batch_size, of which `repeated_images` are trained on twice.

    `dropped_images` are left out of the epoch; rates are those of its first and last step. `first_position` is
    where the first step's images start in the epoch's order (above 0 with `last_batch: continue` only).
    """

    epoch: int
    phase_index: int
    first_step: int
    steps: int
    first_position: int
    image_size: int
    dataset: str
    global_batch_size: int
    per_device_batch_size: int
    accumulate_steps: int
    images: int
    repeated_images: int
    dropped_images: int
    lr_first: float
    lr_last: float
    momentum_first: float
    momentum_last: float
    validates: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchShape:
    """A shape of input that the training loop will see."""

    image_size: int
    per_device_batch_size: int


class Locator(Protocol):
    """Adds to a problem the place where its key is written; a Document is one."""

    @property
    def source(self) -> str:
        """The file."""
        ...

    def locate(self, problem: Problem) -> Problem:
        """The problem with its place."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """Every step of a run; holds values only, so that any step can be asked for at any time."""

    recipe: Recipe
    num_train_images: int
    world_size: int
    plans: tuple[EpochPlan, ...]

    @classmethod
    def compile(
        cls, recipe: Recipe, num_train_images: int, world_size: int, *, document: Locator | None = None
    ) -> Self:
        """Work out every epoch. Raises RecipeError with all problems, at their lines where `document` is given."""
        problems = check_recipe(recipe) or check_splitting(recipe, world_size)
        counts = [] if problems else _epoch_counts(recipe, num_train_images)
        problems = problems or _empty_epochs(recipe, num_train_images, counts)
        if problems and document is not None:
            raise RecipeError([document.locate(problem) for problem in problems], subject=document.source)
        if problems:
            raise RecipeError(problems, subject=recipe.name)
        plans, first_step = [], 0
        for epoch, count in enumerate(counts):
            plans.append(_epoch_plan(recipe, epoch, first_step, count, world_size))
            first_step += count.steps
        return cls(recipe=recipe, num_train_images=num_train_images, world_size=world_size, plans=tuple(plans))

    @property
    def total_epochs(self) -> int:
        """Epochs of the run."""
        return len(self.plans)

    @property
    def total_steps(self) -> int:
        """Updates of the run."""
        return self.plans[-1].first_step + self.plans[-1].steps

    def epochs(self) -> tuple[EpochPlan, ...]:
        """Every epoch, in order."""
        return self.plans

    def shapes(self) -> tuple[BatchShape, ...]:
        """Each shape of input once, in the order in which they are met."""
        shapes = [
            BatchShape(image_size=plan.image_size, per_device_batch_size=plan.per_device_batch_size)
            for plan in self.plans
        ]
        return tuple(dict.fromkeys(shapes))

    def at(self, step: int) -> StepPlan:
        """Step `step`, from 0. Raises IndexError beyond the last."""
        if not 0 <= step < self.total_steps:
            raise IndexError(f"step {step} of {self.total_steps}")
        epoch = bisect_right(self.plans, step, key=lambda plan: plan.first_step) - 1
        return self._step(self.plans[epoch], step - self.plans[epoch].first_step)

    def steps(self, first: int = 0) -> Iterator[StepPlan]:
        """Every step from `first` on."""
        for plan in self.plans:
            for step_in_epoch in range(max(0, first - plan.first_step), plan.steps):
                yield self._step(plan, step_in_epoch)

    def _step(self, plan: EpochPlan, step_in_epoch: int) -> StepPlan:
        """One step of an epoch."""
        return StepPlan(
            step=plan.first_step + step_in_epoch,
            epoch=plan.epoch,
            step_in_epoch=step_in_epoch,
            steps_in_epoch=plan.steps,
            phase_index=plan.phase_index,
            lr=value_in_step(self.recipe.lr, plan.epoch, step_in_epoch, plan.steps),
            momentum=momentum_in_step(self.recipe.momentum, self.recipe.lr, plan.epoch, step_in_epoch, plan.steps),
            image_size=plan.image_size,
            global_batch_size=plan.global_batch_size,
            per_device_batch_size=plan.per_device_batch_size,
            accumulate_steps=plan.accumulate_steps,
            dataset=plan.dataset,
            min_area_fraction=self.recipe.phases[plan.phase_index].min_area_fraction,
            first_position=plan.first_position + step_in_epoch * plan.global_batch_size,
            ends_epoch=step_in_epoch == plan.steps - 1,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Count:
    """How an epoch's images fall into steps."""

    phase_index: int
    steps: int
    first_position: int = 0
    repeated_images: int = 0
    dropped_images: int = 0


def _epoch_plan(recipe: Recipe, epoch: int, first_step: int, count: _Count, world_size: int) -> EpochPlan:
    """One epoch, with the rates of its first and last step."""
    phase, last = recipe.phases[count.phase_index], count.steps - 1
    return EpochPlan(
        epoch=epoch,
        phase_index=count.phase_index,
        first_step=first_step,
        steps=count.steps,
        first_position=count.first_position,
        image_size=phase.image_size_at(epoch),
        dataset=phase.dataset,
        global_batch_size=phase.global_batch_size,
        per_device_batch_size=phase.per_device_batch_size,
        accumulate_steps=phase.global_batch_size // (phase.per_device_batch_size * world_size),
        images=count.steps * phase.global_batch_size,
        repeated_images=count.repeated_images,
        dropped_images=count.dropped_images,
        lr_first=value_in_step(recipe.lr, epoch, 0, count.steps),
        lr_last=value_in_step(recipe.lr, epoch, last, count.steps),
        momentum_first=momentum_in_step(recipe.momentum, recipe.lr, epoch, 0, count.steps),
        momentum_last=momentum_in_step(recipe.momentum, recipe.lr, epoch, last, count.steps),
        validates=_validates(recipe.validation, epoch + 1, recipe.total_epochs),
    )


def _validates(validation: Validation, number: int, total_epochs: int) -> bool:
    """Whether validation follows epoch `number`, from 1."""
    if validation.at_epochs is not None:
        return number == total_epochs or number in validation.at_epochs
    since_first = number - validation.from_epoch
    return number == total_epochs or (since_first >= 0 and since_first % validation.every_epochs == 0)


def _epoch_counts(recipe: Recipe, num_images: int) -> list[_Count]:
    """Steps of every epoch by the recipe's rule for the last batch."""
    phase_of = [index for index, phase in enumerate(recipe.phases) for _ in range(phase.epochs)]
    if recipe.input.last_batch == "continue":
        batch_of = [(index, recipe.phases[index].global_batch_size) for index in phase_of]
        runs = [(list(run), batch) for batch, run in groupby(batch_of, key=lambda pair: pair[1])]
        return [
            count for run, batch in runs for count in _continued_run([index for index, _ in run], batch, num_images)
        ]
    rule = _filled if recipe.input.last_batch == "fill" else _dropped
    return [rule(index, recipe.phases[index].global_batch_size, num_images) for index in phase_of]


def _filled(phase_index: int, batch: int, num_images: int) -> _Count:
    """The last batch is filled from the head of the same order."""
    steps = -(-num_images // batch)
    return _Count(phase_index=phase_index, steps=steps, repeated_images=steps * batch - num_images)


def _dropped(phase_index: int, batch: int, num_images: int) -> _Count:
    """The last batch is left out unless it is full."""
    steps = num_images // batch
    return _Count(phase_index=phase_index, steps=steps, dropped_images=num_images - steps * batch)


def _continued_run(phase_of: list[int], batch: int, num_images: int) -> Iterator[_Count]:
    """Epochs of one batch size: batch s starts at image s * batch of all their images, one epoch after another.

    A step belongs to the epoch in which it starts. Rounding the run's steps leaves out, or repeats, at most half a
    batch, which is booked on the last epoch.
    """
    images = len(phase_of) * num_images
    total = (2 * images + batch) // (2 * batch)
    for epoch, phase_index in enumerate(phase_of):
        first = -(-epoch * num_images // batch)
        beyond = min(total, -(-(epoch + 1) * num_images // batch))
        surplus = total * batch - images if epoch == len(phase_of) - 1 else 0
        yield _Count(
            phase_index=phase_index,
            steps=max(0, beyond - first),
            first_position=first * batch - epoch * num_images,
            repeated_images=max(0, surplus),
            dropped_images=max(0, -surplus),
        )


def _empty_epochs(recipe: Recipe, num_images: int, counts: list[_Count]) -> list[Problem]:
    """Phases with an epoch in which no batch would be complete."""
    rule = recipe.input.last_batch
    return [
        Problem(
            key=f"phases[{index}].global_batch_size",
            message=f"{recipe.phases[index].global_batch_size} is too many for {num_images} training images: "
            f"with last_batch {rule} an epoch would have no step",
            hints=("make it smaller, or use input.last_batch: fill",),
        )
        for index in sorted({count.phase_index for count in counts if count.steps == 0})
    ]
