"""Set-up in a fixed order: device, peers, data, model, optimizer, checkpoint; the clock says which is which."""

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from dawnrun.clock import Clock
from dawnrun.dataset.used import UsedSets, index_used
from dawnrun.errors import LaunchError, RecipeError
from dawnrun.recipe.reader import Document, read
from dawnrun.recipe.schedule import Schedule
from dawnrun.recipe.schema import Recipe, Site
from dawnrun.record.rundir import RunDir
from dawnrun.train.aggregate import Aggregated
from dawnrun.train.average import MovingAverage
from dawnrun.train.checkpoint import Checkpoint, CheckpointStore
from dawnrun.train.facts import data_facts, started_facts
from dawnrun.train.input import open_input
from dawnrun.train.journal import Journal
from dawnrun.train.loop import Training
from dawnrun.train.model import RunningStatistics, build_model, weights_sha256
from dawnrun.train.optim import LossScale, build_optimizer
from dawnrun.train.peers import Peers, connect
from dawnrun.train.precision import DTYPES, resolve_precision
from dawnrun.train.progress import Progress
from dawnrun.train.startup import Startup
from dawnrun.train.step import Stepper, TrainState


@dataclass(frozen=True, kw_only=True, slots=True)
class Worker:
    """One process of one attempt. `began`: reading of time.perf_counter when it was entered."""

    run: RunDir
    attempt: int
    began: float
    recipe: Document[Recipe]
    site: Site
    device: torch.device
    peers: Peers
    startup: Startup

    @property
    def decode_threads(self) -> int:
        """Threads that decode images: all of the process's where a GPU computes, half where the CPU does that too."""
        threads = threads_of(self.site)
        return threads if self.device.type != "cpu" else max(1, threads // 2)


def attempt_file(run: RunDir, attempt: int, name: str) -> Path:
    """A recipe or site that this attempt uses: its own where a resume changed it, else the run's."""
    own = run.attempt_dir(attempt) / name
    return own if own.exists() else run.path / name


def choose_device(asked: str) -> torch.device:
    """The device of this process: LOCAL_RANK counts devices of one kind on a machine."""
    if asked == "auto":
        found = torch.accelerator.current_accelerator(check_available=True)
        asked = found.type if found else "cpu"
    if asked == "cpu":
        return torch.device("cpu")
    found = torch.accelerator.current_accelerator(check_available=True)
    index = int(os.environ.get("LOCAL_RANK", "0"))
    if found is None or found.type != asked or index >= torch.accelerator.device_count():
        there = f"{torch.accelerator.device_count()} x {found.type}" if found else "only the CPU"
        raise LaunchError(f"device {asked}, number {index} of this machine, is not there: torch finds {there}")
    torch.accelerator.set_device_index(index)
    return torch.device(asked, index)


def enter(run: RunDir, attempt: int, *, began: float, startup: Startup) -> Worker:
    """Read what this attempt is to do, take the device, join the others."""
    recipe = read(attempt_file(run, attempt, "resolved.yaml"), Recipe)
    site = read(attempt_file(run, attempt, "site.yaml"), Site).value
    device = choose_device(site.device)
    torch.set_num_threads(threads_of(site))
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = recipe.value.compute.tf32
    torch.backends.cudnn.benchmark = recipe.value.compute.cudnn_benchmark
    with startup.part("process_group_s"):
        peers = connect(device, site.comm_timeout_s)
    return Worker(
        run=run,
        attempt=attempt,
        began=began,
        recipe=recipe,
        site=site,
        device=device,
        peers=peers,
        startup=startup,
    )


def threads_of(site: Site) -> int:
    """CPU threads of a process: the site's, or this machine's cores over its processes."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return site.threads_per_process or max(1, cores // max(1, site.world_size // site.nodes))


def find_data(worker: Worker) -> UsedSets:
    """Index what the recipe reads. Raises DataError or RecipeError."""
    if not worker.peers.is_first:
        worker.peers.barrier()  # rank 0 reads the headers and leaves them in the cache
    data = index_used(worker.recipe, worker.site.data_root)
    if worker.peers.is_first:
        worker.peers.barrier()
    return data


def build(worker: Worker) -> Training:
    """Everything that train() works with; on a resume the newest complete checkpoint is in it."""
    recipe, peers, startup, device = worker.recipe.value, worker.peers, worker.startup, worker.device
    journal = Journal(
        worker.run,
        worker.attempt,
        rank=peers.rank,
        world_size=peers.world_size,
        t_s=lambda: time.perf_counter() - worker.began,
    )
    clock = Clock(synchronize=_synchronize(device), started=worker.began, on_change=journal.span)
    with clock.span("data_setup"), startup.part("index_s"):
        data = find_data(worker)
    classes = data.validation_set.classes
    schedule = Schedule.compile(recipe, data.num_train_images, peers.world_size, document=worker.recipe)
    store = CheckpointStore(worker.run.checkpoints, keep=recipe.checkpoint.keep, classes=classes)
    checkpoint = _find_checkpoint(store, peers, journal)
    precision = _precision(worker, checkpoint)
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
        state = build_state(worker, model, precision)
    run = Training(
        recipe=recipe,
        schedule=schedule,
        state=state,
        stepper=Stepper(recipe, precision, device),
        batches=batches,
        progress=Progress(
            device,
            peers,
            log_every_steps=recipe.log_every_steps,
            max_consecutive_nonfinite=recipe.loss.max_consecutive_nonfinite,
        ),
        precision=precision,
        store=store,
        clock=clock,
        journal=journal,
        peers=peers,
        startup=startup,
        num_classes=len(classes),
    )
    _restore(run, checkpoint)
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
            **data_facts(data.train_sets, data.validation_set),
            run_id=worker.run.path.name,
            first_step=state.step,
            precision=precision,
            decoder="vision",
            initial_weights_sha256=initial_sha256,
            resumed_from=None if checkpoint is None else str(checkpoint.path.relative_to(worker.run.path)),
        )
        _remark_on_precision(run, recipe.precision, precision, device)
    clock.change("data_setup")
    return run


def initial_model(worker: Worker, *, num_classes: int) -> torch.nn.Module:
    """The recipe's network before any update. RecipeError at its line if an imported one cannot be had."""
    recipe = worker.recipe.value
    try:
        return build_model(recipe.model, num_classes=recipe.model.num_classes or num_classes, seed=recipe.seed)
    except RecipeError as error:
        problems = [worker.recipe.locate(problem) for problem in error.problems]
        raise RecipeError(problems, subject=worker.recipe.source) from error


def build_state(worker: Worker, model: torch.nn.Module, precision: str) -> TrainState:
    """The model on its device in channels-last memory, wrapped for the exchange, with its optimizer."""
    recipe, device = worker.recipe.value, worker.device
    dtype = torch.float64 if precision == "fp64" else torch.float32
    model = model.to(device=device, dtype=dtype).to(memory_format=torch.channels_last)
    model.train()
    return TrainState(
        model=Aggregated(model, recipe.aggregation, worker.peers, device),
        optimizer=build_optimizer(model, recipe.optimizer),
        statistics=RunningStatistics(model),
        loss_scale=LossScale(device, recipe.loss_scale) if DTYPES[precision] == torch.float16 else None,
        average=MovingAverage(model, recipe.average) if recipe.average else None,
    )


def _synchronize(device: torch.device) -> Callable[[], None]:
    """What the clock does before a reading: nothing on a CPU, which has done what it returned from."""
    return (lambda: None) if device.type == "cpu" else (lambda: torch.accelerator.synchronize(device))


def _find_checkpoint(store: CheckpointStore, peers: Peers, journal: Journal) -> Checkpoint | None:
    """The newest complete checkpoint, the same on all processes; None at a first start."""
    found: tuple[str | None, list[str]] = (None, [])
    if peers.is_first:
        store.remove_leftovers()
        newest, damaged = store.latest()
        found = (None if newest is None else str(newest.path), damaged)
    path, damaged = peers.share(found)
    for trouble in damaged:
        journal.remark(f"checkpoint not used: {trouble}")
    return None if path is None else store.at(Path(path))


def _precision(worker: Worker, checkpoint: Checkpoint | None) -> str:
    """The recipe's; where that is auto, what the run began with, else rank 0's finding, which is timed."""
    asked = worker.recipe.value.precision
    if asked != "auto":
        return asked
    if checkpoint is not None:
        return str(checkpoint.manifest["precision"])
    found = resolve_precision(asked, worker.device) if worker.peers.is_first else ""
    return worker.peers.share(found)


def _restore(run: Training, checkpoint: Checkpoint | None) -> None:
    """Go on from a checkpoint."""
    if checkpoint is None:
        return
    for lacking in run.store.load(checkpoint, run.state):
        run.journal.remark(lacking)
    run.reached = bool(checkpoint.manifest["target_reached"])
    run.progress.resume(run.state)


def _write_classes(run: RunDir, classes: tuple[str, ...]) -> None:
    """The class list, one name a line in the order of the labels, as text and beside every report."""
    aside = run.path / ".classes.json"
    aside.write_text(json.dumps(list(classes), indent=0, ensure_ascii=True), encoding="utf-8")
    aside.replace(run.path / "classes.json")


def _remark_on_precision(run: Training, asked: str, precision: str, device: torch.device) -> None:
    """Half precision on a CPU was asked for: obeyed, and said once a run."""
    if device.type == "cpu" and precision in ("bf16", "fp16") and asked != "auto":
        run.journal.remark(f"precision {precision} on a CPU: most CPUs compute it several times slower than fp32")
