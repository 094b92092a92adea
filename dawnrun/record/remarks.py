"""What a reader must know beside the figures of a run."""

from collections.abc import Iterator, Mapping
from typing import Any

from dawnrun.record.rows import Attempt, Crossing, EpochRow
from dawnrun.text import count, plural, seconds

ILSVRC2012 = {"num_classes": 1_000, "num_train_images": 1_281_167, "num_val_images": 50_000}
"""Classes and images of the full set (https://image-net.org/challenges/LSVRC/2012)."""

WITHOUT_BLACKLISTED = 48_238
"""Validation images that remain without the 1,762 that ILSVRC2014's development kit lists."""

TOP5_MEANINGLESS_CLASSES = 5
TOP5_WEAK_CLASSES = 10


def top5_means_something(num_classes: int | None) -> bool:
    """Five guesses among five classes or fewer are always right."""
    return num_classes is None or num_classes > TOP5_MEANINGLESS_CLASSES


def data_remarks(started: Mapping[str, Any]) -> Iterator[str]:
    """What the data set was, where it is not the one of the records."""
    if not ILSVRC2012.keys() <= started.keys():
        return
    classes, train, val = (started[key] for key in ILSVRC2012)
    if {key: started[key] for key in ILSVRC2012} != ILSVRC2012:
        yield f"not the full ILSVRC2012 set ({count(classes)} classes, {count(train)} and {count(val)} images)"
    left_out = (started.get("recipe", {}).get("validation") or {}).get("blacklist_file")
    if left_out is not None or (classes, val) == (ILSVRC2012["num_classes"], WITHOUT_BLACKLISTED):
        yield f"validated without the blacklisted images{f' ({left_out})' if left_out else ''}: {count(val)} remain"
    if not top5_means_something(classes):
        yield f"top-5 means nothing with {plural(classes, 'class', 'classes')}: it claims no target"
    elif classes <= TOP5_WEAK_CLASSES:
        yield f"top-5 tests little with {classes} classes: {500 / classes:.0f} % is reached by guessing"


def row_remarks(rows: tuple[EpochRow, ...], part_recorded: list[int]) -> Iterator[str]:
    """Epochs whose record is not whole, because the log of an attempt was cut before its steps were lost."""
    known = {row.epoch for row in rows}
    lost = [epoch for epoch in range(1, max(known, default=0)) if epoch not in known]
    if lost:
        yield f"no row for {_epochs(lost)}: the log of the attempt that trained it ends before it does"
    if part_recorded:
        yield f"some steps of {_epochs(part_recorded)} are not recorded: loss and speed are those of the others"


def validation_remarks(rows: tuple[EpochRow, ...]) -> Iterator[str]:
    """At which size accuracy was measured, where it is not the training size; results that are not valid."""
    views: dict[tuple[int, int], list[int]] = {}
    for row in rows:
        size = row.validation.get("image_size")
        if size is not None and size != row.image_size:
            views.setdefault((size, row.image_size), []).append(row.epoch)
    for (size, trained), epochs in views.items():
        yield f"validated at {size} px after training at {trained} px in {_epochs(epochs)}"
    flipped = [row.epoch for row in rows if row.validation.get("flip_average")]
    if flipped:
        yield f"validated with the mean of each image and its mirror image in {_epochs(flipped)}"
    invalid = [row.epoch for row in rows if row.validation and not row.validation["valid"]]
    if invalid:
        yield f"the validation of {_epochs(invalid)} is not valid: the network's outputs were not finite"


def late_remarks(rows: tuple[EpochRow, ...], crossing: Crossing | None, steps_done: int) -> Iterator[str]:
    """How late results were known, where the training did not wait for them."""
    late = {row.epoch: row for row in rows if row.known_spent is not None and (row.known_step or 0) > row.step}
    if not late:
        return
    waits = [sum((row.known_spent or {}).values()) - sum(row.spent.values()) for row in late.values()]
    span = seconds(max(waits)) if len(waits) == 1 else f"{seconds(min(waits))} to {seconds(max(waits))}"
    yield f"the training did not wait for validation: results were known {span} after the weights were frozen"
    if crossing is not None and crossing.epoch in late:
        known = late[crossing.epoch].known_step or 0
        yield (
            f"the target was reached by the weights of step {crossing.step} (epoch {crossing.epoch}), which was known at step"
            f" {known}; {plural(steps_done - crossing.step, 'step')} of the run came after them"
        )


def attempt_remarks(attempts: tuple[Attempt, ...], sites: list[Mapping[str, Any]]) -> Iterator[str]:
    """Resumes, what they cost, and what they changed."""
    if len(attempts) > 1:
        lost = sum(attempt.lost_steps for attempt in attempts)
        yield f"resumed: {plural(len(attempts), 'attempt')}, {plural(lost, 'step')} done again; their seconds count"
    for attempt in attempts:
        for key, (before, after) in attempt.changes.items():
            yield f"attempt {attempt.number} changed {key} from {before} to {after}"
    if len({(site.get("usd_per_node_hour"), site.get("nodes")) for site in sites}) > 1:
        yield "the attempts ran on sites of different prices: costs are at the price of the last one"


def trouble_remarks(skipped_steps: int, num_bad_images: int, failures: tuple[Mapping[str, Any], ...]) -> Iterator[str]:
    """Steps, images and saves that went wrong."""
    if skipped_steps:
        yield f"{plural(skipped_steps, 'step')} skipped because gradients overflowed"
    if num_bad_images:
        yield f"{plural(num_bad_images, 'unreadable image')} replaced by others"
    for failure in failures:
        if failure["kind"] == "checkpoint.failed":
            yield f"the checkpoint of step {failure['step']} was not saved: {failure['error']}"


def _epochs(epochs: list[int]) -> str:
    """`epoch 3`, `epochs 1 to 4`, `epochs 1, 3, 4`."""
    if len(epochs) == 1:
        return f"epoch {epochs[0]}"
    if epochs == list(range(epochs[0], epochs[-1] + 1)):
        return f"epochs {epochs[0]} to {epochs[-1]}"
    return f"epochs {', '.join(map(str, epochs))}"
