"""Checks that need the whole recipe. Problems carry keys; a Document adds the places."""

import math
from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import Literal

from dawnrun.errors import Problem
from dawnrun.recipe.curve import bounds, end_fault, seam_faults
from dawnrun.recipe.method import Loss, Model, Optimizer
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
_MAX_EPOCHS = 100_000
RESNET_STRIDE = 32
"""Pixels to a value of the last feature map."""
NOUNS = {"model": "network", "loss": "loss"}
"""What the parts of a recipe that can be imported are."""


@dataclass(frozen=True, slots=True)
class _Finding:
    """A problem, and the keys that it rests on beside its own."""

    problem: Problem
    rests_on: tuple[str, ...] = ()


def check_recipe(recipe: Recipe, unknown: Set[str] = frozenset()) -> list[Problem]:
    """Everything wrong with a recipe that no single value shows; empty if it can be planned.

    `unknown`: keys whose values only stand in for what could not be read; nothing is said that rests on one of them.
    """
    return [
        finding.problem
        for finding in _findings(recipe)
        if not any(_overlap(key, other) for key in (finding.problem.key, *finding.rests_on) for other in unknown)
    ]


def _overlap(key: str, other: str) -> bool:
    """Whether one of two keys is, or lies inside, the other; no key at all is the whole."""
    short, long = sorted((key, other), key=len)
    return not short or key == other or long.startswith((f"{short}.", f"{short}["))


def _findings(recipe: Recipe) -> Iterator[_Finding]:
    """All checks."""
    epochs = tuple(f"phases[{index}].epochs" for index in range(len(recipe.phases)))
    if recipe.total_epochs > _MAX_EPOCHS:  # nothing else is looked at: a plan has a row for each
        longest = max(range(len(epochs)), key=lambda index: recipe.phases[index].epochs)
        message = f"the phases have {recipe.total_epochs:,} epochs together; {_MAX_EPOCHS:,} can be planned"
        yield _Finding(Problem(key=epochs[longest], message=message), epochs)
        return
    yield from _curve("lr", recipe.lr, recipe.total_epochs, epochs)
    yield from _curve("momentum", recipe.momentum, recipe.total_epochs, epochs)
    yield from _momentum(recipe.momentum)
    yield from _mirrors(recipe)
    for index, phase in enumerate(recipe.phases):
        yield from _phase(f"phases[{index}]", phase, recipe.input)
    yield from _single_values(recipe)
    yield from _input(recipe.input)
    yield from _optimizer(recipe.optimizer)
    yield from _own("model", recipe.model, ("name", "initialization", "zero_init_residual", "blur_pool"))
    yield from _own("loss", recipe.loss, ("name", "label_smoothing"))
    if recipe.validation.from_epoch > recipe.total_epochs:
        message = f"{recipe.validation.from_epoch} is beyond the last epoch, {recipe.total_epochs}"
        yield _Finding(Problem(key="validation.from_epoch", message=message), epochs)
    beyond = [epoch for epoch in recipe.validation.at_epochs or () if epoch > recipe.total_epochs]
    if beyond:
        message = f"{beyond[0]} is beyond the last epoch, {recipe.total_epochs}"
        yield _Finding(Problem(key="validation.at_epochs", message=message), epochs)
    if recipe.target.top5 is not None and (recipe.model.num_classes or 6) <= 5:
        message = "with five classes or fewer every answer is among the top 5; ask for top1"
        yield _Finding(Problem(key="target.top5", message=message), ("model.num_classes",))


def _curve(key: str, curve: Curve, total_epochs: int, epochs: tuple[str, ...]) -> Iterator[_Finding]:
    """Gaps, overlaps and a wrong end; `epochs`: the keys that `total_epochs` rests on."""
    pieces = tuple(f"{key}[{index}].epochs" for index in range(len(curve.segments)))
    for index, message in seam_faults(curve):
        yield _Finding(Problem(key=pieces[index], message=message), pieces[:index])
    wrong_end = end_fault(curve, total_epochs)
    if wrong_end:
        yield _Finding(Problem(key=pieces[-1], message=wrong_end), (*pieces, *epochs))


def _momentum(curve: Curve) -> Iterator[_Finding]:
    """With a momentum of 1 or more the steps of SGD never die out."""
    values = {} if curve.constant is None else {"momentum": curve.constant}
    for index, segment in enumerate(curve.segments):
        values |= {f"momentum[{index}].start": segment.start, f"momentum[{index}].end": segment.end}
    if curve.mirror is not None:
        values["momentum.mirror.high"] = curve.mirror.high
    for key, value in values.items():
        if value >= 1:
            yield _Finding(Problem(key=key, message=f"must be below 1, not {value:g}"))


def _mirrors(recipe: Recipe) -> Iterator[_Finding]:
    """Only the momentum can follow the rate, and only a rate that changes."""
    if recipe.lr.mirror is not None:
        yield _Finding(Problem(key="lr.mirror", message="lr cannot follow itself; give a number or a list of pieces"))
    elif recipe.momentum.mirror is not None and len(set(bounds(recipe.lr))) == 1:
        message = "lr is the same everywhere, so there is nothing to follow"
        yield _Finding(Problem(key="momentum.mirror", message=message), ("lr",))


def _phase(key: str, phase: Phase, source: Input) -> Iterator[_Finding]:
    """A data set nobody knows, a batch no number of processes can split, a crop larger than its image."""
    if phase.dataset not in source.datasets:
        near = nearest(phase.dataset, source.datasets)
        hints = (f"known: {', '.join(source.datasets) or 'none'}", *((f"did you mean {near}?",) if near else ()))
        message = f"{phase.dataset} is not in input.datasets"
        yield _Finding(Problem(key=f"{key}.dataset", message=message, hints=hints), ("input.datasets",))
    whole, part = phase.global_batch_size, phase.per_device_batch_size
    if whole % part:
        below = whole // part * part
        near_sizes = f"{below} or {below + part}" if below else f"{part}"
        message = f"{whole} is not a multiple of per_device_batch_size, {part}"
        hints = (f"nearest that is: {near_sizes}",)
        problem = Problem(key=f"{key}.global_batch_size", message=message, hints=hints)
        yield _Finding(problem, (f"{key}.per_device_batch_size",))
    if phase.growth is not None and phase.image_size % phase.growth.step_px:
        message = f"{phase.image_size} is not a multiple of growth.step_px, {phase.growth.step_px}"
        yield _Finding(Problem(key=f"{key}.image_size", message=message), (f"{key}.growth",))
    view = phase.validation.resolved(phase.image_size)
    assert view.image_size is not None and view.resize_px is not None
    if view.resize_px < view.image_size:
        message = f"{view.resize_px} is smaller than the crop of {view.image_size} px that is taken from it"
        rests_on = (f"{key}.validation.image_size", *(() if phase.validation.image_size else (f"{key}.image_size",)))
        yield _Finding(Problem(key=f"{key}.validation.resize_px", message=message), rests_on)


def _single_values(recipe: Recipe) -> Iterator[_Finding]:
    """ResNet-50 takes images of any size, but its last BatchNorms see one value a channel in one image of 32 px or fewer."""
    for index, phase in enumerate(recipe.phases):
        if phase.per_device_batch_size == 1 and phase.image_size <= RESNET_STRIDE and recipe.model.import_ is None:
            message = f"one image of {phase.image_size} px leaves BatchNorm one value a channel, which has no variance"
            hint = f"2 or more, or images of more than {RESNET_STRIDE} px"
            problem = Problem(key=f"phases[{index}].per_device_batch_size", message=message, hints=(hint,))
            yield _Finding(problem, (f"phases[{index}].image_size", "model"))


def _optimizer(optimizer: Optimizer) -> Iterator[_Finding]:
    """Settings that the update rule lacks, or that belong to another one."""
    name, given = optimizer.name, optimizer.model_dump(exclude_defaults=True)
    problems: list[Problem] = []
    for key, rules in OPTIMIZER_KEYS.items():
        if key in given and name not in rules:
            message = f"belongs to {' and '.join(rules)}, not to {name}; leave it out"
            problems.append(Problem(key=f"optimizer.{key}", message=message))
    if name == "lars" and optimizer.trust_coefficient is None:
        hints = ("TensorFlow's LARS takes 0.001",)
        problems.append(Problem(key="optimizer.trust_coefficient", message="is missing: lars needs it", hints=hints))
    if name == "lamb" and optimizer.epsilon == 0:
        problems.append(Problem(key="optimizer.epsilon", message="lamb needs one above 0, for example 1e-6"))
    yield from (_Finding(problem, ("optimizer.name",)) for problem in problems)
    if optimizer.trust_clip is not None and not 0 <= optimizer.trust_clip[0] < optimizer.trust_clip[1]:
        low, high = optimizer.trust_clip
        yield _Finding(Problem(key="optimizer.trust_clip", message=f"[{low:g}, {high:g}] is not a range, lowest first"))


def _own(part: Literal["model", "loss"], value: Model | Loss, keys: tuple[str, ...]) -> Iterator[_Finding]:
    """Choices for a network or loss of dawnrun's beside the user's own."""
    given = value.model_dump(exclude_defaults=True, by_alias=True)
    for key in keys:
        if "import" in given and key in given:
            message = f"is for a {NOUNS[part]} of dawnrun's own, not for an imported one"
            yield _Finding(Problem(key=f"{part}.{key}", message=message), (f"{part}.import",))


def _input(source: Input) -> Iterator[_Finding]:
    """Crop shapes and pixel statistics that no image can have."""
    narrow, wide = source.aspect_ratio
    if not 0 < narrow <= wide:
        hint = "narrowest first, width over height, both above 0"
        message = f"[{narrow:g}, {wide:g}] is not a range"
        yield _Finding(Problem(key="input.aspect_ratio", message=message, hints=(hint,)))
    for index, value in enumerate(source.std):
        if value <= 0:
            yield _Finding(Problem(key=f"input.std[{index}]", message=f"must be above 0, not {value:g}"))


def execution_fault(execution: str, device: str, world_size: int) -> str | None:
    """Why `compute.execution` cannot work on a kind of device (auto: not known yet) and so many processes."""
    if execution != "cuda_graph":
        return None
    if device not in ("cuda", "auto"):
        return f"cuda_graph needs a CUDA device, and this is {device}; use eager or compile"
    if world_size > 1:
        # DDP under capture asks for 11 warm-up passes, no watchdog and bucket views that stay: not offered untried.
        return f"cuda_graph works in one process, not in {world_size}: DDP's exchange is not captured; use compile"
    return None


def check_splitting(recipe: Recipe, world_size: int) -> list[Problem]:
    """Phases whose global batch cannot be shared evenly by `world_size` processes, and what could be done."""
    micro_batches = [phase.global_batch_size // phase.per_device_batch_size for phase in recipe.phases]
    fits_all = process_counts(recipe)
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


def process_counts(recipe: Recipe) -> list[int]:
    """Every number of processes that the batches of all phases can be split over, rising."""
    return _divisors(math.gcd(*(phase.global_batch_size // phase.per_device_batch_size for phase in recipe.phases)))


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
