"""Whether a run's rows agree with its schedule and with their own counts; a record that does not is not reported."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dawnrun.errors import ReportError
from dawnrun.record.summary import EpochRow, RunSummary


def check_summary(summary: RunSummary) -> None:
    """Raise ReportError with every contradiction found; nothing is put right silently."""
    found = [*_order(summary), *_schedule(summary), *(why for row in summary.epochs for why in _accuracy(row))]
    if found:
        more = f"\n    and {len(found) - 10} more" if len(found) > 10 else ""
        lines = "".join(f"\n    {why}" for why in found[:10])
        raise ReportError(f"{summary.path}: the record contradicts itself, so it is not reported{lines}{more}")


def _order(summary: RunSummary) -> Iterator[str]:
    """Epochs must be 1, 2, 3, ... with none missing or doubled, and no more than were planned."""
    for expected, row in enumerate(summary.epochs, start=1):
        if row.epoch != expected:
            yield f"row {expected} is epoch {row.epoch}: epochs count from 1, one row each"
            break
    if len(summary.epochs) > summary.total_epochs:
        yield f"{len(summary.epochs)} rows for a schedule of {summary.total_epochs} epochs"
    if summary.reason == "all_epochs" and len(summary.epochs) < summary.total_epochs:
        yield f"all epochs were trained, but {len(summary.epochs)} rows are there for {summary.total_epochs} epochs"


def _schedule(summary: RunSummary) -> Iterator[str]:
    """Each row must end at its epoch's last planned step, and be validated if that was planned."""
    planned: Sequence[Mapping[str, Any]] = summary.started.get("epochs") or ()
    step = 0
    # The last row of a run that still goes on, or was stopped, may be waiting for its validation.
    pending = None if summary.status == "finished" or not summary.epochs else summary.epochs[-1].epoch
    for row, plan in zip(summary.epochs, planned, strict=False):
        step += int(plan["steps"])
        if row.step != step:
            yield f"epoch {row.epoch} ends at step {row.step}, the schedule says {step}"
        if plan.get("validates") and not row.validation and row.epoch != pending:
            yield f"epoch {row.epoch} was to be validated, but its row is missing"


def _accuracy(row: EpochRow) -> Iterator[str]:
    """Counts must be whole and in order, and accuracies must be the percentages that they give."""
    if row.top1 is None and row.top5 is None:
        return
    counts = (row.top1_correct, row.top5_correct, row.num_val_images)
    if not all(isinstance(count, int) for count in counts):
        yield f"epoch {row.epoch}: counts of images must be whole numbers, not {counts}"
        return
    top1, top5, images = (int(count or 0) for count in counts)
    if not 0 <= top1 <= top5 <= images or images == 0:
        yield f"epoch {row.epoch}: top-1 {top1}, top-5 {top5} of {images} images cannot be"
        return
    for name, value, correct in (("top-1", row.top1, top1), ("top-5", row.top5, top5)):
        if value is None or abs(value - 100.0 * correct / images) > 1e-6:
            yield (
                f"epoch {row.epoch}: {name} is {value}, but {correct} of {images} images are "
                f"{100.0 * correct / images:.3f} % (accuracies are percent from 0 to 100)"
            )
