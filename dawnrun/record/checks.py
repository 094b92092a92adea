"""What makes a record contradict itself. Such a record is refused with the reason; nothing in it is repaired."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from dawnrun.errors import ReportError
from dawnrun.record.events import Event
from dawnrun.record.rows import PARTS

PHASE_FIELDS = ("image_size", "global_batch_size", "per_device_batch_size", "accumulate_steps")
_PART_FIELDS = tuple(f"{name}_s" for name in PARTS)
_WINDOW_FIELDS = ("images", "window_s", "input_wait_s", "skipped_steps", "lr", "momentum", "image_size")
_values, _values_of_timed = itemgetter(*_WINDOW_FIELDS), itemgetter(*_WINDOW_FIELDS, *_PART_FIELDS)


def refuse(event: Event, reason: str) -> ReportError:
    """The error that names the event and says that no figure is taken from the record."""
    data = event.data
    where = f" at step {data['step']} (epoch {data['epoch'] + 1})" if {"step", "epoch"} <= data.keys() else ""
    return ReportError(
        f"attempt {event.attempt}, {event.writer}: {event.kind}{where}: {reason}; "
        "the record contradicts itself, so nothing is reported from it"
    )


def check_not_negative(event: Event, keys: Sequence[str]) -> None:
    """These fields are there, and are numbers from 0 up; TypeError or KeyError where they are not."""
    for key in keys:
        if event.data[key] < 0:
            raise refuse(event, f"{key} is {event.data[key]}, below 0")


def check_window(event: Event, steps_done: int, end_step: int) -> None:
    """A window of steps must go on where the one before ended, inside its epoch, with possible figures."""
    data = event.data
    if data["first_step"] != steps_done:
        raise refuse(event, f"its first step follows {data['first_step']}, but {steps_done} were recorded before")
    if not data["first_step"] < data["step"] <= end_step:
        raise refuse(event, f"its steps do not lie in its epoch, which ends at step {end_step}")
    # A long run has a million windows, so all fields are looked at in one go.
    timed = data.get("forward_s") is not None
    if min(_values_of_timed(data) if timed else _values(data)) < 0:
        check_not_negative(event, (*_WINDOW_FIELDS, *_PART_FIELDS) if timed else _WINDOW_FIELDS)
    correct = data.get("top1_correct")
    if correct is not None and not 0 <= correct <= data["images"]:
        raise refuse(event, f"{correct} right in top-1 of {data['images']} training images is impossible")


def check_evaluation(event: Event, end_step: int, steps_done: int, num_val_images: int | None) -> None:
    """A validation belongs to the end of an epoch that was trained; its counts are whole and possible."""
    data = event.data
    if data["step"] != end_step:
        raise refuse(event, f"its epoch ends at step {end_step}")
    if data["step"] > steps_done:
        raise refuse(event, f"training is recorded up to step {steps_done} only")
    if not data["valid"]:
        return
    for key in ("num_images", "top1_correct", "top5_correct"):
        if not isinstance(data[key], int) or isinstance(data[key], bool):
            raise refuse(
                event, f"{key} is {data[key]!r}: a count of images is a whole number, never a fraction or a percentage"
            )
    if not 0 <= data["top1_correct"] <= data["top5_correct"] <= data["num_images"] or data["num_images"] == 0:
        raise refuse(
            event,
            f"{data['top1_correct']} right in top-1 and {data['top5_correct']} in top-5 of {data['num_images']} images is impossible",
        )
    if num_val_images is not None and data["num_images"] != num_val_images:
        raise refuse(event, f"{data['num_images']} images were validated, the set has {num_val_images}")


def check_rows(
    *,
    attempt: int,
    plan: Sequence[Mapping[str, Any]],
    ends: Sequence[int],
    first_step: int,
    steps_done: int,
    validated: set[int],
    complete: bool,
) -> None:
    """Every epoch that an attempt trained to its end has its validation, where the schedule has one.

    The last one may miss in an attempt that was cut short, not in one that is `complete`.
    """  # fmt: skip
    due = [epoch for epoch, end in enumerate(ends) if first_step < end <= steps_done and plan[epoch]["validates"]]
    missing = [epoch + 1 for epoch in (due if complete else due[:-1]) if epoch not in validated]
    if missing:
        raise ReportError(
            f"attempt {attempt}: the schedule validates after epoch {missing[0]}, which was trained, but the record has no "
            f"such row; a row was removed or the record damaged, so nothing is reported from it"
        )
