"""`--shrink demo`: a recipe's whole schedule on the demo data set, small enough for a CPU."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate

from dawnrun.recipe.course import Checkpointing, Target, Validation
from dawnrun.recipe.method import Average
from dawnrun.recipe.pieces import Curve, Segment
from dawnrun.recipe.schema import Phase, Provenance, Recipe

LARGEST_PX, SMALLEST_PX, PX_STEP = 64, 24, 8
LARGEST_BATCH, SMALLEST_BATCH = 48, 8
"""Images per update, in two forward passes: the largest has 5 steps in an epoch of 240 images."""
TOTAL_EPOCHS = 6
"""About so many; each phase keeps one, one that grows three."""


def shrink(recipe: Recipe) -> Recipe:
    """The same phases, pieces of curves and update rule, with sizes, batches, rates and epochs reduced in proportion.

    Sizes are multiples of 8 px, batches of 4 images; rates go with the largest batch. The result names itself as shrunk
    and has no target, so that it cannot be taken for the recipe.
    """
    per_batch = LARGEST_BATCH / max(phase.global_batch_size for phase in recipe.phases)
    per_px = LARGEST_PX / max(size for sizes in recipe.image_sizes for size in sizes)
    per_epoch = TOTAL_EPOCHS / recipe.total_epochs
    epochs = [max(3 if phase.growth else 1, round(phase.epochs * per_epoch)) for phase in recipe.phases]
    moved = _epoch_map([phase.epochs for phase in recipe.phases], epochs)
    phases = tuple(
        _phase(phase, count, per_batch=min(1.0, per_batch), per_px=per_px, moved=moved)
        for phase, count in zip(recipe.phases, epochs, strict=True)
    )
    loss = recipe.loss
    if loss.divide_by is not None:
        loss = loss.model_copy(update={"divide_by": max(1, round(loss.divide_by * per_batch))})
    changes = {
        "name": f"{recipe.name}-shrunk",
        "provenance": Provenance(
            confidence="shrunk",
            source=recipe.name,
            changed="made small by --shrink demo: shows that the schedule runs, reproduces nothing",
        ),
        "phases": phases,
        "lr": _curve(recipe.lr, moved, min(1.0, per_batch)),
        "momentum": _curve(recipe.momentum, moved, 1.0),
        "model": recipe.model.model_copy(update={"num_classes": None}),
        "loss": loss,
        "average": recipe.average and Average(half_life_steps=4, validate_average=recipe.average.validate_average),
        "input": recipe.input.model_copy(
            update={"datasets": dict.fromkeys(recipe.input.datasets, "demo"), "num_train_images": None, "import_": None}
        ),
        "validation": Validation(),
        "checkpoint": Checkpointing(every_epochs=sum(epochs), keep=1),
        "target": Target(stop=False),
        "compute": recipe.compute.model_copy(update={"execution": "eager"}),
        "precision": "auto",
        "log_every_steps": 5,
    }
    return recipe.model_copy(update=changes)


def _epoch_map(before: Sequence[int], after: Sequence[int]) -> Callable[[float], float]:
    """Takes an epoch of the recipe to its place in the small one: straight lines between the ends of phases."""
    old, new = [0, *accumulate(before)], [0, *accumulate(after)]

    def moved(epoch: float) -> float:
        index = min(bisect_right(old, epoch), len(before)) - 1
        along = (epoch - old[index]) / before[index]
        return float(new[index + 1]) if along == 1 else new[index] + along * after[index]

    return moved


def _phase(phase: Phase, epochs: int, *, per_batch: float, per_px: float, moved: Callable[[float], float]) -> Phase:
    """One phase, small."""
    batch = max(SMALLEST_BATCH, 4 * round(phase.global_batch_size * per_batch / 4))
    view, growth = phase.validation, phase.growth
    image_size = _pixels(phase.image_size * per_px)
    if growth is not None:
        growth = growth.model_copy(
            update={
                "between": (moved(growth.between[0]), moved(growth.between[1])),
                "end": _pixels(growth.end * per_px),
                "step_px": PX_STEP,
            }
        )
    seen = None if view.image_size is None else _pixels(view.image_size * per_px)
    resize_px = None if view.resize_px is None else max(round(view.resize_px * per_px), seen or image_size)
    return phase.model_copy(
        update={
            "epochs": epochs,
            "image_size": image_size,
            "growth": growth,
            "global_batch_size": batch,
            "per_device_batch_size": batch // 2,
            "validation": view.model_copy(update={"image_size": seen, "resize_px": resize_px}),
        }
    )


def _pixels(size: float) -> int:
    """The nearest multiple of 8, 24 at least."""
    return max(SMALLEST_PX, PX_STEP * round(size / PX_STEP))


def _curve(curve: Curve, moved: Callable[[float], float], factor: float) -> Curve:
    """Every piece at its new place, values times `factor`."""
    constant = None if curve.constant is None else curve.constant * factor
    segments = tuple(_segment(segment, moved, factor) for segment in curve.segments)
    return curve.model_copy(update={"constant": constant, "segments": segments})


def _segment(segment: Segment, moved: Callable[[float], float], factor: float) -> Segment:
    """One piece; the end of steps follows from its start again."""
    ends = {} if segment.shape == "steps" else {"end": segment.end * factor}
    return Segment.model_validate(
        {
            **segment.model_dump(exclude={"end"}),
            "epochs": tuple(map(moved, segment.epochs)),
            "start": segment.start * factor,
            "at": tuple(map(moved, segment.at)),
            **ends,
        }
    )
