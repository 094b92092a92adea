"""Thins the curve of a long run out to what a chart can show, in bounded memory, without losing a spike."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dawnrun.record.rows import ProgressPoint

MAX_POINTS = 2_000
_MAX_EPOCH_ENDS = 200
_POINTS_PER_BUCKET = 5
_MAX_UNSORTED = 64
"""Windows that the newest stretch gathers before it is thinned: ranking them one by one took 2.5 times as long."""
_MAX_BUCKETS = (MAX_POINTS - _MAX_EPOCH_ENDS) // _POINTS_PER_BUCKET

Window = tuple[int, float, float, Mapping[str, Any]]
"""Place in the run, training seconds and fractional epochs at its end, the fields of the event."""


class Thinned:
    """At most MAX_POINTS windows of all that were added: of each stretch its last, and the extremes of loss and speed;
    and the last of each epoch (of every few, where there are over 200 epochs).
    """

    def __init__(self) -> None:
        self._num_windows = 0
        self._stride = 1
        self._buckets: list[list[Window]] = []
        self._epoch_ends: dict[int, Window] = {}

    def add(self, training_s: float, epoch: float, data: Mapping[str, Any]) -> None:
        """Take the next window of steps."""
        window = (self._num_windows, training_s, epoch, data)
        if self._num_windows % self._stride == 0:
            self._open_bucket()
        bucket = self._buckets[-1]
        bucket.append(window)
        if len(bucket) > _MAX_UNSORTED:
            bucket[:] = _kept(bucket)
        self._num_windows += 1
        self._epoch_ends[data["epoch"]] = window

    def _open_bucket(self) -> None:
        if self._buckets:
            self._buckets[-1] = _kept(self._buckets[-1])
        if len(self._buckets) == _MAX_BUCKETS:
            self._halve()
        self._buckets.append([])

    def _halve(self) -> None:
        """Join neighbours; `_MAX_BUCKETS` is even, so the next window starts a stretch of the new length too."""
        pairs = zip(self._buckets[::2], self._buckets[1::2], strict=True)
        self._buckets = [_kept([*first, *second]) for first, second in pairs]
        self._stride *= 2

    def points(self) -> Sequence[ProgressPoint]:
        """The windows kept, in order."""
        ends = list(self._epoch_ends.values())
        every = -(-len(ends) // _MAX_EPOCH_ENDS) or 1
        kept = {window[0]: window for bucket in self._buckets for window in _kept(bucket)}
        kept.update((window[0], window) for window in ends[::-1][::every])
        return [_point(kept[place]) for place in sorted(kept)]


def _kept(windows: Sequence[Window]) -> list[Window]:
    """The last window, and those of lowest and highest loss and speed, in order."""
    chosen = {windows[-1][0]: windows[-1]}
    for values in (_losses(windows), _speeds(windows)):
        ranked = sorted(values, key=lambda pair: pair[0])
        chosen.update((window[0], window) for _, window in (*ranked[:1], *ranked[-1:]))
    return [chosen[place] for place in sorted(chosen)]


def _losses(windows: Iterable[Window]) -> list[tuple[float, Window]]:
    return [(window[3]["loss"], window) for window in windows if window[3]["loss"] is not None]


def _speeds(windows: Iterable[Window]) -> list[tuple[float, Window]]:
    return [(_images_per_second(window[3]), window) for window in windows]


def _images_per_second(data: Mapping[str, Any]) -> float:
    return float(data["images"] / data["window_s"]) if data["window_s"] > 0 else 0.0


def _point(window: Window) -> ProgressPoint:
    _, training_s, epoch, data = window
    return ProgressPoint(
        step=data["step"],
        epoch=epoch,
        training_s=training_s,
        loss=data["loss"],
        lr=data["lr"],
        momentum=data["momentum"],
        image_size=data["image_size"],
        images_per_second=_images_per_second(data),
        loss_scale=data.get("loss_scale"),
        train_top1=None if data.get("top1_correct") is None else 100 * data["top1_correct"] / data["images"],
    )
