"""Validation as a run does it: at once, by evaluators beside the training, or after the last step."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from torch import nn

from dawnrun.recipe.schedule import StepPlan
from dawnrun.recipe.schema import Recipe, View
from dawnrun.train.checkpoint import Checkpoint, load_model
from dawnrun.train.deferred import frozen_copy
from dawnrun.train.evaluate import EvalResult, evaluate
from dawnrun.train.model import RunningStatistics
from dawnrun.train.peers import Peers
from dawnrun.train.step import TrainState

if TYPE_CHECKING:
    from dawnrun.train.loop import Training

WAIT_S = 0.2
"""Between two looks for results after the last step."""


def freeze(state: TrainState, peers: Peers) -> None:
    """Average BatchNorm's statistics over processes, in place: what is validated and saved is what trains on."""
    for statistics in [state.statistics, *([RunningStatistics(state.average.model)] if state.average else [])]:
        peers.average_(statistics.buffers())
        statistics.set_steps(state.step)


def validated_model(state: TrainState, recipe: Recipe) -> nn.Module:
    """The weights that are trained, or their average where the recipe validates that."""
    if state.average is not None and recipe.average is not None and recipe.average.validate_average:
        return state.average.model
    return state.bare


def view_of(recipe: Recipe, epoch: int) -> tuple[View, int]:
    """How images are seen after epoch `epoch`, from 0, with no size left open, and the size."""
    phase, image_size = recipe.phase_of(epoch)
    view = phase.validation.resolved(image_size)
    assert view.image_size is not None
    return view, view.image_size


def meets_target(recipe: Recipe, result: EvalResult, num_classes: int) -> bool:
    """Whether every accuracy that the target names holds, on unrounded values; top-5 of five classes says nothing."""
    target = recipe.target
    if not result.valid or (target.top5 is None and target.top1 is None):
        return False
    if target.top5 is not None and num_classes <= 5:
        return False
    top1, top5 = (100 * count / result.num_images for count in (result.top1_correct, result.top5_correct))
    return (target.top5 is None or top5 >= target.top5) and (target.top1 is None or top1 >= target.top1)


def validate_epoch(run: "Training", plan: StepPlan) -> tuple[EvalResult | None, bool]:
    """Freeze the weights and validate them, now or elsewhere: the result, and whether it is the first at the target."""
    freeze(run.state, run.peers)
    run.journal.write("snapshot.taken", step=run.state.step, epoch=plan.epoch)
    if run.is_deferred:
        if run.deferred is not None:
            run.deferred.submit(step=run.state.step, epoch=plan.epoch, extra=snapshot_facts(run))
        return None, False
    with run.clock.span("validation"):
        return _validate_now(run, validated_model(run.state, run.recipe), step=run.state.step, epoch=plan.epoch)


def snapshot_facts(run: "Training") -> dict[str, object]:
    """What the manifest of a snapshot says beside its place."""
    is_average = validated_model(run.state, run.recipe) is not run.state.bare
    return {"precision": run.precision, "weights": "average" if is_average else "model"}


def _validate_now(run: "Training", model: nn.Module, *, step: int, epoch: int) -> tuple[EvalResult, bool]:
    """Validate with all processes and write the facts; whether the target is reached for the first time."""
    view, image_size = view_of(run.recipe, epoch)
    batches = run.batches.validation(view, image_size)
    result = evaluate(model, batches, run.stepper, run.peers, flip_average=view.flip_average)
    return result, _note(run, result, step=step, epoch=epoch, by="training")


def _note(run: "Training", result: EvalResult, *, step: int, epoch: int, by: Literal["training", "evaluators"]) -> bool:
    """Write a result into the log; whether it is the first to reach the target."""
    run.journal.evaluation(
        result,
        view_of(run.recipe, epoch)[0],
        step=step,
        epoch=epoch,
        num_classes=run.num_classes,
        batch_size=run.recipe.validation.batch_size,
        num_processes=run.peers.world_size if by == "training" else run.num_evaluators,
        by=by,
        weights=str(snapshot_facts(run)["weights"]),
    )
    first = not run.reached and meets_target(run.recipe, result, run.num_classes)
    run.reached = run.reached or first
    return first


def collect(run: "Training") -> None:
    """Rank 0: take the results that evaluators have sent; a first crossing is passed on with the window's sums."""
    if run.deferred is None:
        return
    was_lost = run.deferred.lost
    for snapshot, result, bad_images in run.deferred.arrived():
        for image in bad_images:
            run.journal.bad_image(image)
        first = _note(run, result, step=snapshot.step, epoch=snapshot.epoch, by="evaluators")
        _settle(run, snapshot, result, crosses=first)
    run.progress.reached = run.reached
    if run.deferred.lost and not was_lost:
        run.journal.remark(f"{run.deferred.lost}: the snapshots from there on were validated after the last step")


def _settle(run: "Training", snapshot: Checkpoint, result: EvalResult, *, crosses: bool) -> None:
    """Let a snapshot go whose result is written; the crossing's stays, as the checkpoint that the claim rests on."""
    assert run.deferred is not None
    value = (result.top1_correct if run.recipe.target.top5 is None else result.top5_correct) if result.valid else -1
    run.deferred.settle(snapshot, value=value, crosses=crosses)
    if crosses:
        run.journal.saved(snapshot, save_s=0.0, blocked_s=0.0, why=["target"])


def validate_the_rest(run: "Training") -> None:
    """Wait for evaluators, then validate with all processes what nobody has validated."""
    with run.clock.span("validation"):
        while run.peers.share(run.deferred is not None and _still_waits(run)):
            time.sleep(WAIT_S)
        model = frozen_copy(run.state.bare)
        for snapshot in _left(run):
            load_model(snapshot, model)
            result, first = _validate_now(run, model, step=snapshot.step, epoch=snapshot.epoch)
            if run.deferred is not None:
                _settle(run, snapshot, result, crosses=first)
        run.reached = run.peers.share(run.reached)


def forget_the_rest(run: "Training") -> None:
    """Snapshots behind the crossing are of no use: the run ends with it."""
    if run.deferred is not None:
        run.deferred.forget()


def _still_waits(run: "Training") -> bool:
    assert run.deferred is not None
    waits = run.deferred.waits()
    collect(run)
    return waits


def _left(run: "Training") -> Iterator[Checkpoint]:
    """The same snapshots on every process."""
    paths = run.peers.share([str(s.path) for s in run.deferred.left()] if run.deferred is not None else [])
    for path in paths:
        yield run.store.at(run.store.folder.parent / "snapshots" / path.rpartition("/")[2])
