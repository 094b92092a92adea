"""Curves over epochs: what a learning rate or a momentum is at any point of a run. Pure functions."""

import math
from bisect import bisect_right
from collections.abc import Iterator

from dawnrun.recipe.pieces import Curve, Segment, stepped


def value_at(curve: Curve, position: float, *, within: float | None = None) -> float:
    """The curve's value at `position` in epochs, read in the piece that holds `within` (default: `position`).

    Beyond the ends of that piece its first or last value is taken, so that a step which begins before a boundary
    and ends behind it keeps to the piece it began in. A boundary belongs to the piece that starts there.
    """
    if not curve.segments:
        assert curve.constant is not None
        return curve.constant
    held = position if within is None else within
    return _in_segment(curve.segments[piece_at(curve, held)], position, held)


def piece_at(curve: Curve, position: float) -> int:
    """Index of the piece that holds `position` in epochs; 0 for a constant curve."""
    return max(0, bisect_right(curve.segments, position, key=lambda segment: segment.epochs[0]) - 1)


def value_in_step(curve: Curve, epoch: int, step_in_epoch: int, steps_in_epoch: int) -> float:
    """A number's or a list's value for step k of n of an epoch, both from 0: at e + (k + 1) / n, or e + k / n by `read_at`."""
    begins = epoch + step_in_epoch / steps_in_epoch
    if curve.read_at == "step_start":
        return value_at(curve, begins)
    return value_at(curve, epoch + (step_in_epoch + 1) / steps_in_epoch, within=begins)


def momentum_in_step(momentum: Curve, lr: Curve, epoch: int, step_in_epoch: int, steps_in_epoch: int) -> float:
    """As `value_in_step`; a mirror is high - (high - low) (r - r_min) / (r_max - r_min) with r the rate of the step."""
    if momentum.mirror is None:
        return value_in_step(momentum, epoch, step_in_epoch, steps_in_epoch)
    lowest, highest = bounds(lr)
    low, high = momentum.mirror.low, momentum.mirror.high
    along = (value_in_step(lr, epoch, step_in_epoch, steps_in_epoch) - lowest) / (highest - lowest)
    return high * (1 - along) + low * along


def bounds(curve: Curve) -> tuple[float, float]:
    """Lowest and highest value; every shape has them at the ends of its pieces."""
    values = [value for segment in curve.segments for value in (segment.start, segment.end)]
    values += [] if curve.constant is None else [curve.constant]
    return min(values), max(values)


def _in_segment(segment: Segment, position: float, held: float) -> float:
    """Value of one piece, of which `held` says what steps are behind; with f from 0 to 1 along it, s its start and e its end:

    linear: s (1 - f) + e f;
    cosine: e + (s - e) (1 + cos(pi f)) / 2 (Loshchilov and Hutter, SGDR, ICLR 2017, one period);
    linear_cosine: e + (s - e) (1 - f) (1 + cos(pi f)) / 2 (linear cosine decay of Bello et al., Neural Optimizer
    Search, ICML 2017, with half a period and alpha 0; its constant beta is left out so that the piece ends at e);
    polynomial: e + (s - e) (1 - f)^power; exponential: s (e / s)^f;
    steps: s factor^m, with m the number of epochs in `at` that have been reached.
    """
    first, last = segment.epochs
    start, end = segment.start, segment.end
    along = (position - first) / (last - first)
    if along <= 0:
        return start
    if along >= 1:
        return end
    match segment.shape:
        case "constant":
            return start
        case "linear":
            return start * (1 - along) + end * along
        case "cosine":
            return end + (start - end) * (1 + math.cos(math.pi * along)) / 2
        case "linear_cosine":
            return end + (start - end) * (1 - along) * (1 + math.cos(math.pi * along)) / 2
        case "polynomial":
            return float(end + (start - end) * (1 - along) ** segment.power)
        case "exponential":
            return float(start * (end / start) ** along)
        case "steps":
            return stepped(start, segment.factor, bisect_right(segment.at, held))


def seam_faults(curve: Curve) -> Iterator[tuple[int, str]]:
    """(index of a piece, what is wrong) wherever a piece does not begin where the ones before it end."""
    reached = 0.0
    for index, segment in enumerate(curve.segments):
        first, last = segment.epochs
        if first > reached:
            yield index, f"no piece covers epochs {reached:g} to {first:g}"
        elif first < reached:
            yield index, f"epochs {first:g} to {min(reached, last):g} are covered twice; pieces follow one another"
        reached = max(reached, last)


def end_fault(curve: Curve, total_epochs: int) -> str | None:
    """What is wrong if the pieces do not end with the last of `total_epochs`."""
    reached = max((segment.epochs[1] for segment in curve.segments), default=float(total_epochs))
    if reached < total_epochs:
        return f"no piece covers epochs {reached:g} to {total_epochs}, the last of the phases"
    if reached > total_epochs:
        return f"ends at epoch {reached:g}, but the phases have {total_epochs} epochs together"
    return None
