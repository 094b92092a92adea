"""What a run's events mean to the person who watches: lines of text, how far it is, and how long it will take."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dawnrun.recipe.schema import Recipe
from dawnrun.record.events import Event
from dawnrun.text import count, duration, size

STAGES = {
    "initialise": "setting up the processes and the model",
    "data_setup": "reading the data set's index and the first batch",
    "training": "training",
    "validation": "validating",
    "checkpoint": "saving a checkpoint",
}


@dataclass(slots=True)
class Pace:
    """Seconds an image takes, by image size, as seen so far in this run."""

    images: dict[int, int] = field(default_factory=dict)
    train_s: dict[int, float] = field(default_factory=dict)
    validation_s: float | None = None

    def add(self, image_size: int, images: int, window_s: float) -> None:
        """A window of training at one size."""
        self.images[image_size] = self.images.get(image_size, 0) + images
        self.train_s[image_size] = self.train_s.get(image_size, 0.0) + window_s

    def seconds_per_image(self, image_size: int) -> float | None:
        """As seen, or as at the nearest size seen, by the number of pixels; None while nothing was seen."""
        seen = [known for known, images in self.images.items() if images]
        if not seen:
            return None
        near = min(seen, key=lambda known: abs(known - image_size))
        return self.train_s[near] / self.images[near] * (image_size / near) ** 2


def remaining_s(epochs: Sequence[Mapping[str, Any]], sizes: Sequence[int], step: int, pace: Pace) -> float | None:
    """Seconds to the end of the last epoch; None while nothing is known.

    `epochs` as in `run.started`, `sizes[i]` is the image size of phase i, `step` counts the updates done.
    """
    total, first = 0.0, 0
    for epoch in epochs:
        steps = epoch["steps"]
        left = min(steps, max(0, first + steps - step))
        first += steps
        each = pace.seconds_per_image(sizes[epoch["phase_index"]])
        if each is None:
            return None
        total += epoch["images"] * left / max(1, steps) * each
        if left and epoch["validates"] and pace.validation_s is not None:
            total += pace.validation_s
    return total


class Narrator:
    """Takes a trainer's events one by one; keeps what a display needs and returns lines worth keeping on screen."""

    def __init__(self, recipe: Recipe, *, now: Callable[[], float] = time.monotonic) -> None:
        """Time so far is counted from here."""
        self._recipe, self._now, self._started = recipe, now, now()
        self._sizes = [phase.image_size for phase in recipe.phases]
        self._epochs: Sequence[Mapping[str, Any]] = ()
        self._pace = Pace()
        self.span = "initialise"
        self.moved = now()
        """When something other than a heartbeat was last heard."""
        self.step, self.epoch, self.total_steps = 0, 0, 0
        self.status = ""
        self.stepped = False
        self.finished: str | None = None
        """Reason of `run.finished`, once it was told."""

    def tell(self, event: Event) -> list[str]:
        """Take in one event; the lines it is worth, often none."""
        if event.kind != "beat":
            self.moved = self._now()
        method = _TELLERS.get(event.kind)
        return [] if method is None else method(self, event.data)

    def quiet_s(self) -> float:
        """Seconds since the last sign of progress."""
        return self._now() - self.moved

    def so_far_s(self) -> float:
        """Seconds since the start of this command."""
        return self._now() - self._started

    def fraction(self) -> float:
        """Steps done, 0 to 1."""
        return self.step / self.total_steps if self.total_steps else 0.0

    def stage(self) -> str:
        """What the trainer is doing, in words."""
        return STAGES.get(self.span, self.span)

    def remaining_s(self) -> float | None:
        """Seconds to the last epoch's end, if known."""
        return remaining_s(self._epochs, self._sizes, self.step, self._pace) if self._epochs else None

    def _remark(self, data: Mapping[str, Any]) -> list[str]:
        return [f"note: {data['text']}"]

    def _span(self, data: Mapping[str, Any]) -> list[str]:
        self.span = data["span"]
        return []

    def _run_started(self, data: Mapping[str, Any]) -> list[str]:
        self._epochs, self.total_steps = data["epochs"], data["total_steps"]
        self.step = data["first_step"]
        execution = self._recipe.compute.execution
        how = data["precision"] if execution == "eager" else f"{data['precision']}, {execution}"
        lines = [
            f"{data['device_name'] or data['device']}, {how}, decoder {data['decoder']}: "
            f"{count(data['num_train_images'])} training and {count(data['num_val_images'])} validation images "
            f"of {count(data['num_classes'])} classes, {count(data['total_steps'])} steps"
        ]
        if data.get("resumed_from"):
            lines.append(f"resumed from {data['resumed_from']} at step {self.step}")
        return lines

    def _phase_started(self, data: Mapping[str, Any]) -> list[str]:
        return [
            f"phase {data['phase_index'] + 1} of {len(self._sizes)} from epoch {data['epoch'] + 1}: "
            f"{data['image_size']} px, batch {data['global_batch_size']}, data set {data['dataset']}"
        ]

    def _startup(self, data: Mapping[str, Any]) -> list[str]:
        parts = ", ".join(f"{name.removesuffix('_s').replace('_', ' ')} {value:.1f} s" for name, value in data.items())
        return [f"start-up: {parts}"]

    def _progress(self, data: Mapping[str, Any]) -> list[str]:
        self.step, self.epoch, self.stepped = data["step"], data["epoch"], True
        if data["window_s"] > 0:
            self._pace.add(data["image_size"], data["images"], data["window_s"])
        loss = "not finite" if data["loss"] is None else f"{data['loss']:.3f}"
        speed = data["images"] / data["window_s"] if data["window_s"] > 0 else 0.0
        self.status = (
            f"epoch {self.epoch + 1}/{self._recipe.total_epochs} phase {data['phase_index'] + 1} "
            f"{data['image_size']} px step {self.step}/{self.total_steps} loss {loss} lr {data['lr']:.4g} "
            f"{speed:.4g} images/s"
        )
        return []

    def _eval_finished(self, data: Mapping[str, Any]) -> list[str]:
        self._pace.validation_s = data["eval_s"]
        images = count(data["num_images"])
        where = f"validation after epoch {data['epoch'] + 1}: {images} images at {data['image_size']} px"
        if not data["valid"]:
            return [f"{where}: not valid, outputs are not finite"]
        top1, top5 = (100 * data[key] / data["num_images"] for key in ("top1_correct", "top5_correct"))
        return [f"{where}: top-1 {top1:.2f} %, top-5 {top5:.2f} %, {data['eval_s']:.1f} s"]

    def _checkpoint_saved(self, data: Mapping[str, Any]) -> list[str]:
        return [f"saved {data['path']}, {size(data['bytes'])} in {data['save_s']:.1f} s"]

    def _checkpoint_failed(self, data: Mapping[str, Any]) -> list[str]:
        return [f"checkpoint {data['path']} could not be saved: {data['error']}"]

    def _bad_image(self, data: Mapping[str, Any]) -> list[str]:
        instead = f"; replaced by {data['replaced_by']}" if data.get("replaced_by") else ""
        return [f"bad image {data['path']}: {data['reason']}{instead}"]

    def _run_finished(self, data: Mapping[str, Any]) -> list[str]:
        self.finished, self.step = data["reason"], data["step"]
        return []

    def progress_line(self) -> str:
        """The status with the time so far and to the end."""
        return f"{self.status}, {self.times()}"

    def times(self) -> str:
        """The time so far, and to the end where that can be told."""
        left = self.remaining_s()
        return f"{duration(self.so_far_s())} so far{'' if left is None else f', about {duration(left)} left'}"


_TELLERS: Mapping[str, Callable[[Narrator, Mapping[str, Any]], list[str]]] = {
    "span": Narrator._span,
    "run.started": Narrator._run_started,
    "startup": Narrator._startup,
    "phase.started": Narrator._phase_started,
    "train.progress": Narrator._progress,
    "eval.finished": Narrator._eval_finished,
    "checkpoint.saved": Narrator._checkpoint_saved,
    "checkpoint.failed": Narrator._checkpoint_failed,
    "data.bad_image": Narrator._bad_image,
    "remark": Narrator._remark,
    "run.finished": Narrator._run_finished,
}
