"""`--rescale`: a recipe on another number of processes with batches and rates changed, instead of accumulation."""

import math

from dawnrun.recipe.pieces import Curve
from dawnrun.recipe.schema import Recipe


def rescale(recipe: Recipe, world_size: int) -> Recipe:
    """Global batches times `world_size` over the recipe's own number of processes; the rate goes with them.

    The recipe's number of processes is the largest that has no use for accumulation in every phase. Rates are
    multiplied by the same factor for SGD (linear rule, Goyal et al., 2017), by its root for LARS and LAMB (You et al.,
    ICLR 2020). Images per forward pass, momentum, decay and warm-up stay.
    """
    own = math.gcd(*(phase.global_batch_size // phase.per_device_batch_size for phase in recipe.phases))
    if own == world_size:
        return recipe
    factor = world_size / own
    rate = factor if recipe.optimizer.name == "sgd" else math.sqrt(factor)
    phases = tuple(
        phase.model_copy(update={"global_batch_size": phase.global_batch_size // own * world_size})
        for phase in recipe.phases
    )
    loss = recipe.loss
    if loss.divide_by is not None:
        loss = loss.model_copy(update={"divide_by": max(1, round(loss.divide_by * factor))})
    rule = "linear rule" if recipe.optimizer.name == "sgd" else "square-root rule"
    told = f"rescaled from {own} to {world_size} processes: batches x {factor:.6g}, rates x {rate:.6g} ({rule})"
    return recipe.model_copy(
        update={
            "phases": phases,
            "loss": loss,
            "lr": _times(recipe.lr, rate),
            "provenance": recipe.provenance.model_copy(update={"changed": told}),
        }
    )


def _times(curve: Curve, factor: float) -> Curve:
    """The same curve with every value multiplied."""
    segments = tuple(
        segment.model_copy(update={"start": segment.start * factor, "end": segment.end * factor})
        for segment in curve.segments
    )
    constant = None if curve.constant is None else curve.constant * factor
    return curve.model_copy(update={"constant": constant, "segments": segments})
