"""A run's curves as a TensorBoard event file, written afterwards; needs the extra `tensorboard`, and no torch."""

import io
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from dawnrun.clock import RULES, elapsed_s
from dawnrun.errors import ReportError
from dawnrun.record.summary import RunSummary

FILE_VERSION = "brain.Event:2"
"""First record of every such file (tensorboard/compat/proto/event.proto)."""

Scalar = tuple[float, int, str, float]
"""Seconds since 1970, step, tag, value."""


def tensorboard_bytes(summary: RunSummary) -> bytes:
    """The event file of a run, the same bytes for the same run. ReportError without the extra."""
    try:
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.record_writer import RecordWriter
    except ImportError as error:
        raise ReportError(
            f"--format tensorboard needs TensorBoard's package ({error}); install it with: pip install 'dawnrun[tensorboard]'"
        ) from error

    file = io.BytesIO()
    writer = RecordWriter(file)
    began = _began(summary)
    writer.write(event_pb2.Event(wall_time=began, file_version=FILE_VERSION).SerializeToString())
    for wall_s, step, tag, value in sorted(scalars(summary, began), key=lambda scalar: scalar[:3]):
        shown = summary_pb2.Summary(value=[summary_pb2.Summary.Value(tag=tag, simple_value=value)])
        writer.write(event_pb2.Event(wall_time=wall_s, step=step, summary=shown).SerializeToString())
    writer.flush()
    return file.getvalue()


def file_name(summary: RunSummary) -> str:
    """TensorBoard finds files by the part before the number."""
    return f"events.out.tfevents.{round(_began(summary))}.dawnrun"


def scalars(summary: RunSummary, began: float) -> Iterator[Scalar]:
    """Loss, rates, sizes and speed of each window, accuracies of each validated epoch; wall time from training time."""
    offset = began + sum(summary.spent.get(kind, 0.0) for kind in ("initialise", "data_setup"))
    for point in summary.progress:
        values: dict[str, Any] = {
            "train/loss": point.loss,
            "train/top1": point.train_top1,
            "train/images_per_second": point.images_per_second,
            "schedule/lr": point.lr,
            "schedule/momentum": point.momentum,
            "schedule/image_size": point.image_size,
            "train/loss_scale": point.loss_scale,
        }
        yield from ((offset + point.training_s, point.step, tag, v) for tag, v in values.items() if v is not None)
    for row in summary.epochs:
        wall_s = began + sum(row.spent.values())
        values = {"val/top5": row.top5, "val/top1": row.top1, "val/loss": row.validation_loss, "epoch": row.epoch}
        values |= {f"clock/{rule}_s": elapsed_s(row.spent, rule) for rule in RULES}
        values["schedule/global_batch_size"] = row.global_batch_size
        yield from ((wall_s, row.step, tag, v) for tag, v in values.items() if v is not None)


def _began(summary: RunSummary) -> float:
    started = next((attempt.started_utc for attempt in summary.attempts if attempt.started_utc), None)
    return 0.0 if started is None else datetime.fromisoformat(started).timestamp()
