"""Going on from a checkpoint: which one, in which arithmetic, and whether recipe and data are those it was made with."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dawnrun.errors import DataError, TrainError, UsageError
from dawnrun.recipe.schedule import Schedule
from dawnrun.train.checkpoint import Checkpoint
from dawnrun.train.checkpoint_store import CheckpointStore
from dawnrun.train.entry import Worker
from dawnrun.train.journal import Journal
from dawnrun.train.loop import Training
from dawnrun.train.peers import Peers
from dawnrun.train.precision import resolve_precision


def find_checkpoint(store: CheckpointStore, peers: Peers, journal: Journal) -> Checkpoint | None:
    """The newest whole checkpoint, the same on all processes; None at a first start.

    Newer damaged ones are named and put aside, so that they do not count as the newest when others are dropped.
    Raises TrainError where all are damaged: to start from the first step again has to be the user's decision.
    """
    found: tuple[str | None, list[str]] = (None, [])
    if peers.is_first:
        store.remove_leftovers()
        newest, damaged = store.latest()
        found = (None if newest is None else str(newest.path), damaged)
    path, damaged = peers.share(found)
    if path is None and damaged:
        raise TrainError(
            "\n".join(["every checkpoint is damaged:", *damaged, f"remove {store.folder} to start from the first step"])
        )
    for trouble in damaged:
        journal.remark(f"damaged checkpoint not used: {trouble}")
    if peers.is_first and path is not None:
        store.put_aside_newer_than(Path(path))
    return None if path is None else store.at(Path(path))


def check_unchanged(checkpoint: Checkpoint, facts: Mapping[str, Any], schedule: Schedule) -> None:
    """Raise unless the recipe reaches beyond the checkpoint, and the data are those that it was trained on.

    `facts`: see data_facts. UsageError for a recipe that ends earlier, DataError for other data.
    """
    if checkpoint.step > schedule.total_steps:
        raise UsageError(
            f"{checkpoint.path}: {checkpoint.step:,} steps are done and the recipe now has {schedule.total_steps:,};"
            " give it at least as many epochs as are done, or start a new run"
        )
    before, now = checkpoint.manifest["data_fingerprints"], facts["data_fingerprints"]
    changed = [
        f"{name}/{split}" for name in now for split in now[name] if before.get(name, {}).get(split) != now[name][split]
    ]
    if changed:
        raise DataError(
            f"data changed since {checkpoint.path} was saved ({', '.join(changed)}): names, sizes or number of images"
            " are others; restore them, or start a new run"
        )


def precision_of(worker: Worker, checkpoint: Checkpoint | None) -> str:
    """The recipe's; where that is auto, what the run began with, else rank 0's finding, which is timed."""
    asked = worker.recipe.value.precision
    if asked != "auto":
        return asked
    if checkpoint is not None:
        return str(checkpoint.manifest["precision"])
    found = resolve_precision(asked, worker.device) if worker.peers.is_first else ""
    return worker.peers.share(found)


def restore(run: Training, checkpoint: Checkpoint | None) -> None:
    """Go on from a checkpoint."""
    if checkpoint is None:
        return
    for lacking in run.store.load(checkpoint, run.state):
        run.journal.remark(lacking)
    # A target that was changed since is reached by validations from here on, or not at all.
    same_target = checkpoint.manifest["target"] == run.recipe.target.model_dump(exclude={"stop"})
    run.reached = same_target and bool(checkpoint.manifest["target_reached"])
    run.progress.resume(run.state)
