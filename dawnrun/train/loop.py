"""The training loop: step, progress, validate, checkpoint, stop."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import Any

from dawnrun.clock import Clock
from dawnrun.errors import DataError, NonFiniteLossError
from dawnrun.recipe.schedule import Schedule, StepPlan
from dawnrun.recipe.schema import Recipe
from dawnrun.train.checkpoint_store import CheckpointStore
from dawnrun.train.deferred import Deferred
from dawnrun.train.evaluate import EvalResult
from dawnrun.train.input import Batch, InputPipeline
from dawnrun.train.journal import Journal
from dawnrun.train.peers import Peers
from dawnrun.train.progress import Progress, Window
from dawnrun.train.saver import Saver
from dawnrun.train.startup import Startup
from dawnrun.train.step import Stepper, TrainState
from dawnrun.train.trace import Trace
from dawnrun.train.validation import (
    collect,
    forget_the_rest,
    freeze,
    validate_epoch,
    validate_the_rest,
    validated_model,
)
from dawnrun.train.warmup import wants_warm_up, warm_up


class FinishReason(StrEnum):
    """Why a run ended in good order."""

    TARGET_REACHED = "target_reached"
    ALL_EPOCHS = "all_epochs"
    PREEMPTED = "preempted"


@dataclass(kw_only=True, slots=True)
class Training:
    """Everything the loop works with, built by build.py. `reached`: a validation of this run met the target.

    `is_deferred`: the training does not stop to validate; rank 0 then keeps `deferred`. `has_left`: it does, and an
    earlier attempt that did not has left snapshots without a result.
    """

    recipe: Recipe
    schedule: Schedule
    state: TrainState
    stepper: Stepper
    batches: InputPipeline
    progress: Progress
    precision: str
    data_fingerprints: Mapping[str, Any]
    store: CheckpointStore
    saver: Saver
    clock: Clock
    journal: Journal
    peers: Peers
    startup: Startup
    num_classes: int
    is_deferred: bool = False
    has_left: bool = False
    num_evaluators: int = 0
    deferred: Deferred | None = None
    trace: Trace | None = None
    reached: bool = False


def train(run: Training) -> FinishReason:
    """Make the updates that are left. Raises NonFiniteLossError on divergence, DataError on too many bad images."""
    with ExitStack() as at_the_end:
        at_the_end.callback(_settle, run)
        if run.trace is not None:
            at_the_end.callback(run.trace.close)
        return _train(run)


def _settle(run: Training) -> None:
    """Wait for the checkpoint that is being written."""
    if run.saver.is_writing:
        with run.clock.span("checkpoint"):
            run.saver.settle()


def _train(run: Training) -> FinishReason:
    if run.has_left:
        validate_the_rest(run)
    if run.reached and run.recipe.target.stop:
        return FinishReason.TARGET_REACHED
    _warm_up(run)
    batches = _first_batch(run)
    for plan in run.schedule.steps(first=run.state.step):
        run.journal.phase(plan)
        ends_window = run.progress.due(plan) or _saves_by_steps(run, plan)
        with run.trace.around(plan.step + 1) if run.trace else nullcontext():
            run.stepper.step(run.state, batches, plan, timed=ends_window)
        run.progress.add(run.stepper.loss, plan)
        if not ends_window:
            continue
        collect(run)
        window = _flush(run, plan)
        if window.reached and run.recipe.target.stop:
            return _stop_late(run, plan)
        if plan.ends_epoch:
            _finish_epoch(run, plan, stopping=window.stop_asked)
        elif window.stop_asked or _saves_by_steps(run, plan):
            _save(run, plan, [*["signal"] * window.stop_asked, *["steps"] * _saves_by_steps(run, plan)])
        if run.reached and run.recipe.target.stop:
            return FinishReason.TARGET_REACHED
        if window.stop_asked and plan.step + 1 < run.schedule.total_steps:
            return FinishReason.PREEMPTED
        run.progress.start(run.state.step)
    if run.is_deferred:
        validate_the_rest(run)
    return FinishReason.ALL_EPOCHS


def _stop_late(run: Training, plan: StepPlan) -> FinishReason:
    """An evaluator's result has reached the target: the steps made meanwhile are kept, and nothing more is validated."""
    run.reached = True
    forget_the_rest(run)
    _save(run, plan, ["last"])
    return FinishReason.TARGET_REACHED


def _warm_up(run: Training) -> None:
    """What the first step of each shape would take longer for is done now, as part of the start."""
    if wants_warm_up(run.recipe.compute.warm_up, run.stepper.loss.device):
        with run.clock.span("initialise"), run.startup.part("warm_up_s"):
            model = validated_model(run.state, run.recipe)
            warm_up(run.state, run.stepper, run.schedule, model, run.peers, num_classes=run.num_classes)
            run.clock.synchronize()


def _first_batch(run: Training) -> Iterator[Batch]:
    """The batches that are left, the first of them made: from there on the clock runs in training."""
    with run.startup.part("first_batch_s"):
        batches = run.batches.train(run.schedule.steps(first=run.state.step))
        first = next(batches, None)
    run.journal.write("startup", **run.startup.seconds)
    run.clock.change("training")
    run.progress.start(run.state.step)
    return chain([] if first is None else [first], batches)


def _saves_by_steps(run: Training, plan: StepPlan) -> bool:
    every = run.recipe.checkpoint.every_steps
    return every is not None and (plan.step + 1) % every == 0


def _flush(run: Training, plan: StepPlan) -> Window:
    """End a window: one exchange, one event; the run fails here if it has diverged or lost too many images."""
    window = run.progress.flush(run.state, run.stepper, plan, run.journal.num_bad_images)
    run.journal.write("train.progress", **window.fields)
    if window.diverged:
        scale = window.fields["loss_scale"]
        raise NonFiniteLossError(
            f"the loss was not finite in {run.recipe.loss.max_consecutive_nonfinite} steps in a row, up to step"
            f" {run.state.step} of epoch {plan.epoch + 1} (learning rate {plan.lr:g}, loss scale"
            f" {scale if scale is not None else 'not used'}); lower lr, or raise loss.max_consecutive_nonfinite"
        )
    if window.bad_images > run.recipe.input.max_bad_images:
        raise DataError(
            f"{window.bad_images} images could not be read, input.max_bad_images allows"
            f" {run.recipe.input.max_bad_images}; `dawnrun data check` lists them all"
        )
    return window


def _finish_epoch(run: Training, plan: StepPlan, *, stopping: bool) -> None:
    """Snapshot, validate, checkpoint; the clock says what each took."""
    epoch = plan.epoch + 1
    is_last = plan.step + 1 == run.schedule.total_steps
    why, result = ["signal"] * stopping + ["last"] * is_last, None
    if run.schedule.epochs()[plan.epoch].validates:
        result, reaches = validate_epoch(run, plan)
        why += ["target"] * reaches
    if epoch % run.recipe.checkpoint.every_epochs == 0:
        why.append("epoch")
    if why or _saves_by_steps(run, plan):
        _save(run, plan, why or ["steps"], result)


def _save(run: Training, plan: StepPlan, why: list[str], result: EvalResult | None = None) -> None:
    """Freeze the state, which rank 0 writes beside the steps that follow; a save that fails is an event."""
    with run.clock.span("checkpoint"):
        freeze(run.state, run.peers)
        if not run.peers.is_first:
            return
        counts = ("num_images", "top1_correct", "top5_correct")
        extra = {
            "target_reached": run.reached,
            "target": run.recipe.target.model_dump(exclude={"stop"}),
            "validation": {name: getattr(result, name) for name in counts} if result and result.valid else None,
            "precision": run.precision,
            "data_fingerprints": run.data_fingerprints,
        }
        run.saver.save(run.state, epoch=plan.epoch, why=why, extra=extra)
