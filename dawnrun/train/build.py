"""Set-up in a fixed order: device, peers, data, model, optimizer, checkpoint; the clock says which is which."""

import json
import os
import time
from collections.abc import Callable, Sequence

import torch

from dawnrun.clock import Clock
from dawnrun.recipe.course import Target
from dawnrun.recipe.schedule import Schedule
from dawnrun.record.remarks import TOP5_MEANINGLESS_CLASSES
from dawnrun.record.rundir import RunDir
from dawnrun.train.aggregate import Aggregated
from dawnrun.train.average import MovingAverage
from dawnrun.train.checkpoint_store import CheckpointStore
from dawnrun.train.data import find_data
from dawnrun.train.deferred import Deferred, Evaluators
from dawnrun.train.entry import Worker
from dawnrun.train.execution import EAGER, Eager, open_execution
from dawnrun.train.facts import data_facts, started_facts
from dawnrun.train.input import open_input
from dawnrun.train.journal import Journal
from dawnrun.train.loop import Training
from dawnrun.train.loss import LossFunction, build_loss
from dawnrun.train.model import RunningStatistics, build_model, weights_sha256
from dawnrun.train.optim import LossScale, build_optimizer
from dawnrun.train.precision import DTYPES
from dawnrun.train.progress import Progress
from dawnrun.train.restore import check_unchanged, find_checkpoint, precision_of, restore
from dawnrun.train.saver import Saver
from dawnrun.train.snapshots import Snapshots
from dawnrun.train.step import Stepper, TrainState
from dawnrun.train.trace import Trace, read_steps
from dawnrun.train.validation import validated_model


def build(worker: Worker) -> Training:
    """Everything that train() works with; on a resume the newest complete checkpoint is in it."""
    recipe, peers, startup, device = worker.recipe.value, worker.peers, worker.startup, worker.device
    journal = Journal(worker.run, worker.attempt, rank=peers.rank, t_s=lambda: time.perf_counter() - worker.began)
    clock = Clock(synchronize=_synchronize(device), started=worker.began, on_change=journal.span)
    with clock.span("data_setup"), startup.part("index_s"):
        data = find_data(worker)
    classes = data.validation_set.classes
    schedule = Schedule.compile(recipe, data.num_train_images, peers.world_size, document=worker.recipe)
    store = CheckpointStore(
        worker.run.checkpoints,
        keep=recipe.checkpoint.keep,
        classes=classes,
        best_by=_best_by(recipe.target, len(classes)),
    )
    checkpoint = find_checkpoint(store, peers, journal)
    facts = data_facts(data.train_sets, data.validation_set)
    if checkpoint is not None:
        check_unchanged(checkpoint, facts, schedule)
    precision = precision_of(worker, checkpoint)
    execution = _execution(worker, precision, schedule)
    # The input is opened before the model is built: the first batch is decoded meanwhile.
    batches = open_input(
        recipe,
        train_sets=data.train_sets,
        validation_set=data.validation_set,
        rank=peers.rank,
        world_size=peers.world_size,
        num_threads=worker.decode_threads,
        device=device,
        on_bad_image=journal.bad_image,
    )
    with startup.part("model_s"):
        model = initial_model(worker, num_classes=len(classes))
        initial_sha256 = weights_sha256(model.state_dict()) if peers.is_first else ""
        state = build_state(worker, model, precision, execution)
        stepper = Stepper(
            recipe,
            precision,
            device,
            rank=peers.rank,
            world_size=peers.world_size,
            execution=execution,
            loss=_loss(worker, precision, num_classes=len(classes)),
        )
    run = Training(
        recipe=recipe,
        schedule=schedule,
        state=state,
        stepper=stepper,
        batches=batches,
        progress=Progress(
            device,
            peers,
            log_every_steps=recipe.log_every_steps,
            max_consecutive_nonfinite=recipe.loss.max_consecutive_nonfinite,
        ),
        precision=precision,
        data_fingerprints=facts["data_fingerprints"],
        store=store,
        saver=Saver(store, journal, is_asynchronous=recipe.checkpoint.asynchronous),
        clock=clock,
        journal=journal,
        peers=peers,
        startup=startup,
        trace=_trace(worker, journal),
        num_classes=len(classes),
        is_deferred=recipe.validation.when == "after" or worker.site.evaluators > 0,
        num_evaluators=worker.site.evaluators,
    )
    restore(run, checkpoint)
    if peers.is_first:
        run.saver.prepare(state)
    if peers.is_first:
        _write_classes(worker.run, classes)
        journal.write(
            "run.started",
            **started_facts(
                recipe,
                worker.site,
                schedule,
                device,
                changes=worker.run.attempt_dir(worker.attempt) / "changes.json",
            ),
            **facts,
            run_id=worker.run.path.name,
            first_step=state.step,
            precision=precision,
            decoder=batches.decoder_name,
            initial_weights_sha256=initial_sha256,
            resumed_from=None if checkpoint is None else str(checkpoint.path.relative_to(worker.run.path)),
        )
        _remark_on_precision(run, recipe.precision, precision, device)
        for verdict in data.verdicts():
            journal.remark(verdict)
    if peers.is_first:
        _defer(run, worker, classes)
    run.has_left = not run.is_deferred and peers.share(run.deferred is not None)
    clock.change("data_setup")
    return run


def _defer(run: Training, worker: Worker, classes: Sequence[str]) -> None:
    """Have validation done elsewhere or later; what an earlier attempt left without a result is taken up in any case."""
    weights = validated_model(run.state, run.recipe).state_dict()
    snapshots = Snapshots(worker.run.snapshots, weights, classes=classes)
    results = None
    if run.is_deferred and run.num_evaluators and run.recipe.validation.when == "during":
        results = Evaluators(
            worker.run.attempt_dir(worker.attempt),
            run.num_evaluators,
            address=os.environ.get("MASTER_ADDR", "127.0.0.1"),
            facts={"precision": run.precision},
        )
    deferred = Deferred(snapshots, results)
    left = deferred.take_up(up_to_step=run.state.step)
    run.deferred = deferred if run.is_deferred or left else None


def initial_model(worker: Worker, *, num_classes: int) -> torch.nn.Module:
    """The recipe's network before any update. RecipeError at its line if an imported one cannot be had."""
    recipe = worker.recipe.value
    with worker.recipe.told():
        return build_model(recipe.model, num_classes=recipe.model.num_classes or num_classes, seed=recipe.seed)


def _execution(worker: Worker, precision: str, schedule: Schedule) -> Eager:
    """RecipeError at its line where the recipe's cannot work here."""
    with worker.recipe.told():
        return open_execution(
            worker.recipe.value.compute.execution,
            worker.device,
            precision=precision,
            world_size=worker.peers.world_size,
            num_shapes=len(schedule.shapes()),
        )


def _loss(worker: Worker, precision: str, *, num_classes: int) -> LossFunction:
    """RecipeError at its line if an imported one cannot be had."""
    recipe, dtype = worker.recipe.value, torch.float64 if precision == "fp64" else torch.float32
    with worker.recipe.told():
        outputs = recipe.model.num_classes or num_classes
        return build_loss(recipe.loss, num_classes=outputs, device=worker.device, dtype=dtype)


def build_state(worker: Worker, model: torch.nn.Module, precision: str, execution: Eager = EAGER) -> TrainState:
    """The model on its device in channels-last memory, wrapped for the exchange, with its optimizer."""
    recipe, device = worker.recipe.value, worker.device
    dtype = torch.float64 if precision == "fp64" else torch.float32
    model = model.to(device=device, dtype=dtype).to(memory_format=torch.channels_last)
    model.train()
    return TrainState(
        model=Aggregated(model, recipe.aggregation, worker.peers, device, execution),
        optimizer=build_optimizer(model, recipe.optimizer, numbers_on_device=execution.numbers_on_device),
        statistics=RunningStatistics(model),
        loss_scale=LossScale(device, recipe.loss_scale) if DTYPES[precision] == torch.float16 else None,
        average=MovingAverage(model, recipe.average) if recipe.average else None,
    )


def _synchronize(device: torch.device) -> Callable[[], None]:
    """What the clock does before a reading: nothing on a CPU, which has done what it returned from."""
    return (lambda: None) if device.type == "cpu" else (lambda: torch.accelerator.synchronize(device))


def _trace(worker: Worker, journal: Journal) -> Trace | None:
    """The trace that this attempt was asked for; rank 0 makes it."""
    steps = read_steps(worker.run.attempt_dir(worker.attempt) / "profile.json") if worker.peers.is_first else None
    return None if steps is None else Trace(steps, worker.run.logs / str(worker.attempt), journal.remark)


def _best_by(target: Target, num_classes: int) -> str:
    """The accuracy by which a checkpoint is the best: the target's, else top-5 where that says anything."""
    if target.top5 is None and target.top1 is not None:
        return "top1"
    return "top5" if num_classes > TOP5_MEANINGLESS_CLASSES else "top1"


def _write_classes(run: RunDir, classes: tuple[str, ...]) -> None:
    """The class list, one name a line in the order of the labels, as text and beside every report."""
    aside = run.path / ".classes.json"
    aside.write_text(json.dumps(list(classes), indent=0, ensure_ascii=True), encoding="utf-8")
    aside.replace(run.path / "classes.json")


def _remark_on_precision(run: Training, asked: str, precision: str, device: torch.device) -> None:
    """Half precision on a CPU was asked for: obeyed, and said once a run."""
    if device.type == "cpu" and precision in ("bf16", "fp16") and asked != "auto":
        run.journal.remark(f"precision {precision} on a CPU: most CPUs compute it several times slower than fp32")
