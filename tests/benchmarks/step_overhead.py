"""What the trainer costs beside forward, backward and update: `python tests/benchmarks/step_overhead.py`.

1. `dawnrun train`'s own loop with decoding against a bare PyTorch loop on ready tensors, in one process, in turns:
   images per CPU-second of ours over those of the bare loop, median of five turns. Validation and checkpoints left out.
2. The loop with forward, backward and update taken out, on ready batches: its time over that of a bare step.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))

import torch
import torch.nn.functional as F
from worker_runs import make_run, tiny_data

from dawnrun.train.build import build
from dawnrun.train.entry import enter
from dawnrun.train.input import Batch
from dawnrun.train.loop import Training, train
from dawnrun.train.model import build_model
from dawnrun.train.optim import build_optimizer
from dawnrun.train.startup import Startup
from dawnrun.train.step import Stepper, TrainState

IMAGE_SIZE, BATCH_SIZE, STEPS, TURNS = 64, 32, 8, 5
THREADS = len(os.sched_getaffinity(0))


class Bare:
    """A PyTorch loop as short as it gets: the same network, layout, optimizer and loss, on one ready batch."""

    def __init__(self, run: Training) -> None:
        self.model = build_model(run.recipe.model, num_classes=run.num_classes, seed=1)
        self.model.to(memory_format=torch.channels_last).train()
        self.optimizer = build_optimizer(self.model, run.recipe.optimizer)
        images = torch.randn(BATCH_SIZE, 3, IMAGE_SIZE, IMAGE_SIZE)
        self.images = images.contiguous(memory_format=torch.channels_last)
        self.labels = torch.randint(0, run.num_classes, (BATCH_SIZE,))

    def steps(self, number: int) -> float:
        """CPU-seconds of so many steps."""
        began = time.process_time()
        for _ in range(number):
            self.optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(self.model(self.images), self.labels).backward()
            self.optimizer.step()
        return time.process_time() - began


def training(root: Path, epochs: int) -> Training:
    """A run as `dawnrun train` builds it, of STEPS steps an epoch."""
    images = STEPS * BATCH_SIZE
    overrides = (
        f"phases[0].epochs={epochs}",
        f"phases[0].image_size={IMAGE_SIZE}",
        f"phases[0].global_batch_size={BATCH_SIZE}",
        f"phases[0].per_device_batch_size={BATCH_SIZE}",
        "log_every_steps=1000",
        f"validation.from_epoch={epochs}",
        f"checkpoint.every_epochs={epochs}",
        "input.last_batch=drop",
    )
    run = make_run(tiny_data(root, train_per_class=-(-images // 30)), overrides, threads=THREADS)
    return build(enter(run, run.new_attempt(), began=time.perf_counter(), startup=Startup(0.0)))


def with_decoding(root: Path) -> list[float]:
    """Ratio of each turn; a turn is an epoch of ours and as many bare steps, in the pause that its report makes."""
    run = training(root, TURNS + 2)
    bare = Bare(run)
    ratios: list[float] = []
    write, since = run.journal.write, [time.process_time()]
    bare.steps(2)

    def in_turn(kind: str, /, **data: object) -> None:
        write(kind, **data)
        if kind != "train.progress" or data["step"] - data["first_step"] < STEPS - 1:
            return
        time.sleep(1.0)  # what was decoded ahead is ours, not the bare loop's
        ours = (time.process_time() - since[0]) / (data["step"] - data["first_step"])
        if data["epoch"] > 0:
            ratios.append(bare.steps(STEPS) / STEPS / ours)
        since[0] = time.process_time()

    run.journal.write = in_turn
    train(run)
    run.batches.close()
    run.journal.close()
    return ratios[:TURNS]


class Empty(Stepper):
    """A stepper that does everything but forward, backward and update."""

    def _micro_batch(self, state: TrainState, batch: Batch, plan: object, number: int) -> None:
        self.normalize(batch.images)

    def _update(self, state: TrainState, plan: object) -> None:
        for group in state.optimizer.param_groups:
            group["lr"], group["momentum"] = plan.lr, plan.momentum


class Ready:
    """An input that has one batch, ready."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    def train(self, plans: Iterable[object]) -> Iterator[Batch]:
        return (self.batch for _ in plans)

    def validation(self, view: object, image_size: int) -> Iterator[Batch]:
        yield self.batch

    def close(self) -> None: ...


def outside(root: Path) -> float:
    """Seconds a step of everything but forward, backward and update."""
    run = training(root, 40)
    run.batches.close()
    images = torch.randint(0, 256, (BATCH_SIZE, 3, IMAGE_SIZE, IMAGE_SIZE), dtype=torch.uint8)
    images = images.contiguous(memory_format=torch.channels_last)
    run.batches = Ready(
        Batch(images=images, labels=torch.zeros(BATCH_SIZE, dtype=torch.long), num_images=32, wait_s=0.0)
    )
    run.stepper = Empty(run.recipe, run.precision, torch.device("cpu"))
    windows: list[float] = []
    write = run.journal.write

    def keep(kind: str, /, **data: object) -> None:
        write(kind, **data)
        if kind == "train.progress":
            windows.append(data["window_s"] / (data["step"] - data["first_step"]))

    run.journal.write = keep
    train(run)
    run.journal.close()
    return statistics.median(windows[1:])


def main() -> None:
    """Print both ratios with their limits."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        ratios = with_decoding(root)
        ratio = statistics.median(ratios)
        print(f"images per CPU-second, decoding included, over a bare loop: {ratio:.3f} (at least 0.95)")
        print("  turns:", " ".join(f"{value:.3f}" for value in ratios))
        overhead_s = outside(root)
        run = training(root, 1)
        run.batches.close()
        began = time.perf_counter()
        bare = Bare(run)
        bare.steps(2)
        began = time.perf_counter()
        bare.steps(STEPS)
        step_s = (time.perf_counter() - began) / STEPS
        print(
            f"outside forward, backward, update: {overhead_s * 1e3:.2f} ms a step, {100 * overhead_s / step_s:.2f} % of one (under 1 %)"
        )


if __name__ == "__main__":
    main()
