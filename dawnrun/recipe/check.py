"""Checks that need the whole recipe. Problems carry keys; a Document adds the places."""

import math
from collections.abc import Iterator

from dawnrun.errors import Problem
from dawnrun.recipe.curve import bounds, coverage_faults
from dawnrun.recipe.method import Model, Optimizer
from dawnrun.recipe.pieces import Curve
from dawnrun.recipe.schema import Input, Phase, Recipe
from dawnrun.text import nearest

OPTIMIZER_KEYS = {
    "nesterov": ("sgd", "lars"),
    "lr_in_momentum": ("sgd", "lars"),
    "decoupled_weight_decay": ("sgd",),
    "decay_batch_norm": ("sgd",),
    "trust_coefficient": ("lars",),
    "trust_clip": ("lars", "lamb"),
    "epsilon": ("lars", "lamb"),
    "beta2": ("lamb",),
}
"""Key -> the update rules it belongs to; the others belong to all."""


def check_recipe(recipe: Recipe) -> list[Problem]:
    """Everything wrong with a recipe that no single value shows; empty if it can be planned."""
    problems = [
        *_curve("lr", recipe.lr, recipe.total_epochs),
        *_curve("momentum", recipe.momentum, recipe.total_epochs),
    ]
    problems += _momentum(recipe.momentum)
    problems += _mirrors(recipe)
    for index, phase in enumerate(recipe.phases):
        problems += _phase(f"phases[{index}]", phase, recipe.input)
    problems += _input(recipe.input)
    problems += [*_optimizer(recipe.optimizer), *_model(recipe.model)]
    if recipe.validation.from_epoch > recipe.total_epochs:
        message = f"{recipe.validation.from_epoch} is beyond the last epoch, {recipe.total_epochs}"
        problems.append(Problem(key="validation.from_epoch", message=message))
    if recipe.target.top5 is not None and (recipe.model.num_classes or 6) <= 5:
        message = "with five classes or fewer every answer is among the top 5; ask for top1"
        problems.append(Problem(key="target.top5", message=message))
    return problems


def _curve(key: str, curve: Curve, total_epochs: int) -> Iterator[Problem]:
    """Gaps, overlaps and a wrong end."""
    for index, message in coverage_faults(curve, total_epochs):
        yield Problem(key=f"{key}[{index}].epochs", message=message)


def _momentum(curve: Curve) -> Iterator[Problem]:
    """With a momentum of 1 or more the steps of SGD never die out."""
    message = "must be below 1, not {:g}"
    if curve.constant is not None and curve.constant >= 1:
        yield Problem(key="momentum", message=message.format(curve.constant))
    for index, segment in enumerate(curve.segments):
        for name, value in (("start", segment.start), ("end", segment.end)):
            if value >= 1:
                yield Problem(key=f"momentum[{index}].{name}", message=message.format(value))
    if curve.mirror is not None and curve.mirror.high >= 1:
        yield Problem(key="momentum.mirror.high", message=message.format(curve.mirror.high))


def _mirrors(recipe: Recipe) -> Iterator[Problem]:
    """Only the momentum can follow the rate, and only a rate that changes."""
    if recipe.lr.mirror is not None:
        yield Problem(key="lr.mirror", message="lr cannot follow itself; give a number or a list of pieces")
    elif recipe.momentum.mirror is not None and len(set(bounds(recipe.lr))) == 1:
        yield Problem(key="momentum.mirror", message="lr is the same everywhere, so there is nothing to follow")


def _phase(key: str, phase: Phase, source: Input) -> Iterator[Problem]:
    """A data set nobody knows, a batch no number of processes can split, a crop larger than its image."""
    if phase.dataset not in source.datasets:
        near = nearest(phase.dataset, source.datasets)
        hints = (f"known: {', '.join(source.datasets) or 'none'}", *((f"did you mean {near}?",) if near else ()))
        yield Problem(key=f"{key}.dataset", message=f"{phase.dataset} is not in input.datasets", hints=hints)
    whole, part = phase.global_batch_size, phase.per_device_batch_size
    if whole % part:
        below = whole // part * part
        near_sizes = f"{below} or {below + part}" if below else f"{part}"
        message = f"{whole} is not a multiple of per_device_batch_size, {part}"
        yield Problem(key=f"{key}.global_batch_size", message=message, hints=(f"nearest that is: {near_sizes}",))
    if phase.growth is not None and phase.image_size % phase.growth.step_px:
        message = f"{phase.image_size} is not a multiple of growth.step_px, {phase.growth.step_px}"
        yield Problem(key=f"{key}.image_size", message=message)
    view = phase.validation.resolved(phase.image_size)
    assert view.image_size is not None and view.resize_px is not None
    if view.resize_px < view.image_size:
        message = f"{view.resize_px} is smaller than the crop of {view.image_size} px that is taken from it"
        yield Problem(key=f"{key}.validation.resize_px", message=message)


def _optimizer(optimizer: Optimizer) -> Iterator[Problem]:
    """Settings that the update rule lacks, or that belong to another one."""
    name, given = optimizer.name, optimizer.model_dump(exclude_defaults=True)
    for key, rules in OPTIMIZER_KEYS.items():
        if key in given and name not in rules:
            message = f"belongs to {' and '.join(rules)}, not to {name}; leave it out"
            yield Problem(key=f"optimizer.{key}", message=message)
    if name == "lars" and optimizer.trust_coefficient is None:
        hints = ("TensorFlow's LARS takes 0.001",)
        yield Problem(key="optimizer.trust_coefficient", message="is missing: lars needs it", hints=hints)
    if name == "lamb" and optimizer.epsilon == 0:
        yield Problem(key="optimizer.epsilon", message="lamb needs one above 0, for example 1e-6")
    if optimizer.trust_clip is not None and not 0 <= optimizer.trust_clip[0] < optimizer.trust_clip[1]:
        low, high = optimizer.trust_clip
        yield Problem(key="optimizer.trust_clip", message=f"[{low:g}, {high:g}] is not a range, lowest first")


def _model(model: Model) -> Iterator[Problem]:
    """Choices for our own networks beside the user's own."""
    given = model.model_dump(exclude_defaults=True, by_alias=True)
    for key in ("name", "initialization", "zero_init_residual", "blur_pool"):
        if "import" in given and key in given:
            yield Problem(key=f"model.{key}", message="is for networks of dawnrun's own, not for an imported one")


def _input(source: Input) -> Iterator[Problem]:
    """Crop shapes and pixel statistics that no image can have."""
    narrow, wide = source.aspect_ratio
    if not 0 < narrow <= wide:
        hint = "narrowest first, width over height, both above 0"
        message = f"[{narrow:g}, {wide:g}] is not a range"
        yield Problem(key="input.aspect_ratio", message=message, hints=(hint,))
    for index, value in enumerate(source.std):
        if value <= 0:
            yield Problem(key=f"input.std[{index}]", message=f"must be above 0, not {value:g}")


def check_splitting(recipe: Recipe, world_size: int) -> list[Problem]:
    """Phases whose global batch cannot be shared evenly by `world_size` processes, and what could be done."""
    micro_batches = [phase.global_batch_size // phase.per_device_batch_size for phase in recipe.phases]
    fits_all = _divisors(math.gcd(*micro_batches))
    return [
        Problem(
            key=f"phases[{index}].global_batch_size",
            message=f"{phase.global_batch_size} cannot be split over {world_size} processes of "
            f"{phase.per_device_batch_size} images",
            hints=_splitting_hints(phase, world_size, fits_all),
        )
        for index, phase in enumerate(recipe.phases)
        if micro_batches[index] % world_size
    ]


def _splitting_hints(phase: Phase, world_size: int, process_counts: list[int]) -> tuple[str, ...]:
    """Nearest batch sizes that split over these processes, and nearest process counts that suit every phase."""
    unit = phase.per_device_batch_size * world_size
    below = phase.global_batch_size // unit * unit
    sizes = f"{below} or {below + unit}" if below else f"{unit}"
    more = [count for count in process_counts if count > world_size][:1]
    fewer = [count for count in reversed(process_counts) if count < world_size][:2]
    counts = " or ".join(str(count) for count in more + fewer)
    counts += " process" if more + fewer == [1] else " processes"
    most = phase.global_batch_size // phase.per_device_batch_size
    limit = (f"at most {most} process{'' if most == 1 else 'es'} can share this batch",) if world_size > most else ()
    return (*limit, f"nearest that can: {sizes}; or run on {counts}; or --rescale changes batches and rates")


def _divisors(number: int) -> list[int]:
    """All divisors, rising."""
    small = [divisor for divisor in range(1, math.isqrt(number) + 1) if number % divisor == 0]
    return sorted({*small, *(number // divisor for divisor in small)})
