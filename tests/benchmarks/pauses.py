"""What pauses cost the training: `python tests/benchmarks/pauses.py`.

1. A checkpoint, written beside the training and not: the time of a block of steps that lasts until its save is written,
   less that of as many steps of the block before, which has no save; in such steps. Blocks in turns, medians.
2. A change of phase: from the end of the last step of a phase to the end of the first step of the next, less one step
   of the next phase, in such steps. Sizes in turns, so that each has been seen; medians; first sightings apart.
3. A validation that the training does not stop for: the time of a block of steps with a snapshot taken at its beginning
   over that of a block without, in steps; first with nobody who validates it (only what the training does itself), then
   with a real evaluator at work, which shares the cores. Blocks in turns, the result waited for outside; medians.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))

from worker_runs import make_run, tiny_data, worker_command, worker_environment

from dawnrun.recipe.schedule import StepPlan
from dawnrun.record.rundir import RunDir
from dawnrun.train.build import build
from dawnrun.train.checkpoint import Checkpoint
from dawnrun.train.entry import enter
from dawnrun.train.input import Batch
from dawnrun.train.loop import Training, train
from dawnrun.train.saver import Saver
from dawnrun.train.startup import Startup
from dawnrun.train.step import TrainState
from dawnrun.train.validation import freeze, snapshot_facts

THREADS = len(os.sched_getaffinity(0))
SIZES, BATCH_SIZE = (32, 48, 64), 16
STEPS, TURNS = 12, 9
WAYS = ("beside", "waiting")
EXTRA = {"target_reached": False, "validation": None}


def training(
    root: Path, epochs: int, sizes: tuple[int, ...], steps: int, *, when: str = "during", evaluators: int = 0
) -> Training:
    """The demo's network and batches, in phases of so many epochs of so many steps."""
    data = tiny_data(root, train_per_class=-(-steps * BATCH_SIZE // 30), val_per_class=10)
    phases = ", ".join(
        f"{{epochs: {epochs}, image_size: {size}, global_batch_size: {BATCH_SIZE}, per_device_batch_size: {BATCH_SIZE},"
        " min_area_fraction: 0.8}"
        for size in sizes
    )
    last = epochs * len(sizes)
    overrides = (
        f"phases=[{phases}]",
        f"validation.from_epoch={last}",
        f"checkpoint.every_epochs={last}",
        "input.last_batch=drop",
        "log_every_steps=1000",
        f"validation.when={when}",
    )
    run = make_run(data, overrides, threads=THREADS, evaluators=evaluators)
    return build(enter(run, run.new_attempt(), began=time.perf_counter(), startup=Startup(0.0)))


class Ended(threading.Event):
    """Set when a save has ended."""

    def saved(self, checkpoint: Checkpoint, *, save_s: float, blocked_s: float) -> None:
        self.set()

    def save_failed(self, error: OSError, *, step: int, epoch: int, why: Sequence[str], num_bytes: int) -> None:
        raise error


class Blocks:
    """Blocks of steps of one run, each with at most one save at its beginning; lengths in steps without one."""

    def __init__(self, run: Training) -> None:
        self.run, self.plans, self.ended = run, run.schedule.steps(), Ended()
        self.batches: Iterator[Batch] = run.batches.train(run.schedule.steps())
        self.savers = {way: Saver(run.store, self.ended, is_asynchronous=way == "beside") for way in WAYS}
        for saver in self.savers.values():
            saver.prepare(run.state)

    def block(self, way: str | None) -> tuple[float, float, int]:
        """Save in this way, step until it is written, STEPS times at least; seconds, CPU-seconds, steps made."""
        began, cpu_began, steps = time.perf_counter(), time.process_time(), 0
        self.ended.clear()
        if way:
            self.savers[way].save(self.run.state, epoch=0, why=("steps",), extra=EXTRA)
        while steps < STEPS or (way and not self.ended.is_set()):
            self.run.stepper.step(self.run.state, self.batches, next(self.plans))
            steps += 1
        return time.perf_counter() - began, time.process_time() - cpu_began, steps


def checkpoints(root: Path, size: int) -> None:
    """Print what a save costs."""
    run = training(root, 400, (size,), STEPS)
    blocks = Blocks(run)
    blocks.block(None)
    lost: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    step_s: list[float] = []
    for _ in range(TURNS):
        for way in WAYS:
            seconds, cpu_s, steps = blocks.block(None)
            own_s, own_cpu_s = seconds / steps, cpu_s / steps
            step_s.append(own_s)
            seconds, cpu_s, steps = blocks.block(way)
            lost[way].append((seconds / own_s - steps, cpu_s / own_cpu_s - steps))
    run.batches.close()
    run.journal.close()
    print(f"one step of {BATCH_SIZE} images of {size} px: {1e3 * statistics.median(step_s):.0f} ms")
    for way, limit in (("beside", " (under 1)"), ("waiting", "")):
        wall, cpu = (statistics.median(values) for values in zip(*lost[way], strict=True))
        doing = "goes on" if way == "beside" else "waits"
        print(f"lost by a checkpoint, training {doing}: {wall:.2f} steps{limit}; in CPU-seconds {cpu:.2f} steps")
        print("  turns:", " ".join(f"{value:.2f}" for value, _ in lost[way]))


def phase_changes(root: Path) -> None:
    """Print what a change of phase costs."""
    sizes = SIZES * 4
    run = training(root, 1, sizes, STEPS)
    ends: list[tuple[int, int, float]] = []
    step = run.stepper.step

    def timed(state: TrainState, batches: Iterator[Batch], plan: StepPlan, **options: bool) -> None:
        step(state, batches, plan, **options)
        ends.append((plan.phase_index, plan.image_size, time.perf_counter()))

    run.stepper.step = timed  # type: ignore[method-assign]
    train(run)
    run.batches.close()
    run.journal.close()
    first, again = [], []
    for number, size in enumerate(sizes[1:], 1):
        last = max(end for phase, _, end in ends if phase == number - 1)
        own = [end for phase, _, end in ends if phase == number]
        step_s = statistics.median(later - earlier for earlier, later in pairwise(own))
        (again if size in sizes[:number] else first).append((own[0] - last - step_s) / step_s)
    print(f"lost by a change of phase: {statistics.median(again):.2f} steps of the new phase (under 2)")
    print("  changes:", " ".join(f"{value:.2f}" for value in again))
    print("  to a size seen for the first time:", " ".join(f"{value:.2f}" for value in first))


def validations(root: Path) -> None:
    """Print what a snapshot costs, with an evaluator and without."""
    for evaluators, who in ((0, "nobody validating"), (1, "an evaluator at work on the same cores")):
        folder = root / str(evaluators)
        folder.mkdir()
        when = "during" if evaluators else "after"
        run = training(folder, (TURNS + 1) * 2, (64,), STEPS, when=when, evaluators=evaluators)
        words = [*worker_command(RunDir(run.store.folder.parent), 1), "--evaluator", "0"]
        process = subprocess.Popen(words, env=worker_environment()) if evaluators else None
        try:
            plain, with_ = validation_blocks(run)
        finally:
            if process:
                process.kill()
                process.wait()
        run.batches.close()
        run.journal.close()
        step_s = statistics.median(plain) / STEPS
        lost = [(long - short) / step_s for long, short in zip(with_, plain, strict=True)]
        limit = "" if evaluators else " (under 1)"
        print(f"lost by a validation elsewhere, {who}: {statistics.median(lost):.2f} steps{limit}")
        print("  turns:", " ".join(f"{value:.2f}" for value in lost))


def validation_blocks(run: Training) -> tuple[list[float], list[float]]:
    """Seconds of blocks without and with a snapshot, in turns; the first turn is left out."""
    assert run.deferred is not None
    plans, batches = run.schedule.steps(), run.batches.train(run.schedule.steps())
    found: tuple[list[float], list[float]] = ([], [])
    for block in range(2 * (TURNS + 1)):
        began = time.perf_counter()
        if block % 2:
            freeze(run.state, run.peers)
            run.deferred.submit(step=run.state.step, epoch=0, extra=snapshot_facts(run))
        for _ in range(STEPS):
            run.stepper.step(run.state, batches, next(plans))
        if block > 1:
            found[block % 2].append(time.perf_counter() - began)
        while run.deferred.waits():
            run.deferred.arrived()
            time.sleep(0.05)
    return found


def main() -> None:
    """All parts, each in a folder of its own."""
    parts = (
        lambda root: checkpoints(root, SIZES[0]),
        lambda root: checkpoints(root, SIZES[-1]),
        phase_changes,
        validations,
    )
    for part in parts:
        with tempfile.TemporaryDirectory() as folder:
            part(Path(folder))


if __name__ == "__main__":
    main()
