"""A run's parts tried out for a moment on the processes that it would have: memory, exchange and input.

Writes `probe-rank-NNN.json` into the attempt's folder; `dawnrun doctor` starts it and judges what it found.
"""

import json
import resource
import socket
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import cycle, islice, repeat, takewhile
from typing import Any

import torch
import torch.distributed as dist

from dawnrun.dataset.used import UsedSets
from dawnrun.recipe.schedule import Schedule, StepPlan
from dawnrun.record.rundir import RunDir
from dawnrun.train.build import build_state, initial_model
from dawnrun.train.data import find_data
from dawnrun.train.entry import Worker, enter
from dawnrun.train.input import Batch, open_input
from dawnrun.train.restore import precision_of
from dawnrun.train.startup import Startup
from dawnrun.train.step import Stepper

INPUT_S = 3.0
"""Time for measuring the input of one batch shape."""
SMALL_BYTES, LARGE_BYTES, LARGE_BYTES_ON_CPU = 4, 1 << 26, 1 << 23
NUM_SMALL, NUM_LARGE = 20, 5
NUM_STEPS = 3
LONG_STEP_S = 10.0
MOST_STEPS = 1000


def probe(run: RunDir, attempt: int, *, began: float) -> None:
    """Try everything out and write what was found. Raises what a run would raise, out of memory too."""
    worker = enter(run, attempt, began=began, startup=Startup(0.0))
    recipe, peers = worker.recipe.value, worker.peers
    data = find_data(worker)
    schedule = Schedule.compile(recipe, data.num_train_images, peers.world_size, document=worker.recipe)
    plans = _plans(schedule)
    shapes = _steps(worker, plans, num_classes=len(data.validation_set.classes))
    _measure_input(worker, data, schedule, plans, shapes)
    found = {"host": socket.gethostname(), "rank": peers.rank, "shapes": shapes, "exchange": _exchange(worker)}
    path = run.attempt_dir(attempt) / f"probe-rank-{peers.rank:03d}.json"
    aside = path.with_name(f".{path.name}")
    aside.write_text(json.dumps(found), encoding="utf-8")
    aside.replace(path)
    peers.barrier()
    peers.close()


def _plans(schedule: Schedule) -> list[StepPlan]:
    """The first step of each batch shape, those of the most pixels first."""
    first: dict[tuple[int, int], StepPlan] = {}
    for epoch in schedule.epochs():
        plan = schedule.at(epoch.first_step)
        first.setdefault((plan.image_size, plan.per_device_batch_size), plan)
    return sorted(first.values(), key=lambda plan: -plan.per_device_batch_size * plan.image_size**2)


def _steps(worker: Worker, plans: list[StepPlan], *, num_classes: int) -> list[dict[str, Any]]:
    """Whole updates on random images of each shape: seconds of one, and the most memory that was in use so far.

    On a CPU, where it takes long and allocates what it needs, the largest shape alone.
    """
    recipe, device, peers = worker.recipe.value, worker.device, worker.peers
    precision = precision_of(worker, None)
    state = build_state(worker, initial_model(worker, num_classes=num_classes), precision)
    stepper = Stepper(recipe, precision, device, rank=peers.rank, world_size=peers.world_size)
    found = []
    for plan in plans[:1] if device.type == "cpu" else plans:
        batches = repeat(_random_batch(plan, device))
        once = replace(plan, accumulate_steps=1)
        seconds = _step_s(partial(stepper.step, state, batches, once), device)
        used, total = _memory(device)
        found.append(
            {
                "image_size": plan.image_size,
                "batch_size": plan.per_device_batch_size,
                "step_s": seconds,
                "used_bytes": used,
                "total_bytes": total,
            }
        )
    return found


def _step_s(step: Callable[[], None], device: torch.device) -> float:
    """Seconds of a step. Kernels are chosen in the first, which counts only where it takes so long that this is little."""
    began = _now(device)
    step()
    first_s = _now(device) - began
    if first_s > LONG_STEP_S:
        return first_s
    began = _now(device)
    for _ in range(NUM_STEPS):
        step()
    return (_now(device) - began) / NUM_STEPS


def _random_batch(plan: StepPlan, device: torch.device) -> Batch:
    shape = (plan.per_device_batch_size, 3, plan.image_size, plan.image_size)
    images = torch.randint(0, 256, shape, dtype=torch.uint8, device=device)
    labels = torch.zeros(plan.per_device_batch_size, dtype=torch.long, device=device)
    images = images.contiguous(memory_format=torch.channels_last)
    return Batch(images=images, labels=labels, num_images=plan.per_device_batch_size, wait_s=0.0)


def _now(device: torch.device) -> float:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
    return time.perf_counter()


def _memory(device: torch.device) -> tuple[int, int]:
    """Most bytes in use by this process so far, and those that there are on the device or the machine."""
    if device.type == "cpu":
        with open("/proc/meminfo") as file:  # noqa: PTH123
            total = int(file.readline().split()[1]) * 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, total
    module = torch.get_device_module(device)
    return int(module.max_memory_reserved(device)), int(module.get_device_properties(device).total_memory)


def _exchange(worker: Worker) -> dict[str, dict[str, float]]:
    """All-reduce among all processes, and among those of a node where that is something else: latency and bandwidth.

    Bandwidth in bytes per second over each process's link, 2 (n - 1) / n of the sum's bytes in its time.
    """
    peers = worker.peers
    if peers.world_size == 1:
        return {}
    found = {"all": _all_reduce(worker.device, None)}
    local = peers.world_size // worker.site.nodes
    if worker.site.nodes > 1 and local > 1:
        group, _ = dist.new_subgroups(group_size=local)
        found["node"] = _all_reduce(worker.device, group)
    return found


def _all_reduce(device: torch.device, group: dist.ProcessGroup | None) -> dict[str, float]:
    count = dist.get_world_size(group)
    small = torch.zeros(SMALL_BYTES // 4, device=device)
    num_bytes = LARGE_BYTES_ON_CPU if device.type == "cpu" else LARGE_BYTES
    large = torch.zeros(num_bytes // 4, device=device)
    seconds = []
    for tensor, number in ((small, NUM_SMALL), (large, NUM_LARGE)):
        dist.all_reduce(tensor, group=group)
        taken = []
        for _ in range(number):
            began = _now(device)
            dist.all_reduce(tensor, group=group)
            taken.append(_now(device) - began)
        seconds.append(statistics.median(taken))
    return {
        "processes": count,
        "latency_s": seconds[0],
        "bytes_per_s": 2 * (count - 1) / count * num_bytes / seconds[1],
    }


def _measure_input(
    worker: Worker, data: UsedSets, schedule: Schedule, plans: list[StepPlan], shapes: list[dict[str, Any]]
) -> None:
    """Images per second that the input alone gives this process, for each shape that was tried."""
    recipe, peers = worker.recipe.value, worker.peers
    batches = open_input(
        recipe,
        train_sets=data.train_sets,
        validation_set=data.validation_set,
        rank=peers.rank,
        world_size=peers.world_size,
        num_threads=worker.decode_threads,
        device=worker.device,
        on_bad_image=lambda _image: None,
    )
    for plan, shape in zip(plans, shapes, strict=False):
        shape["input_images_per_s"] = _images_per_s(batches.train(cycle(_alike(schedule, plan))))
    batches.close()


def _alike(schedule: Schedule, plan: StepPlan) -> list[StepPlan]:
    """The steps from `plan` on that have its shape and data set, so many that reading ahead meets new images."""
    same = takewhile(
        lambda other: (
            (other.image_size, other.per_device_batch_size, other.dataset)
            == (plan.image_size, plan.per_device_batch_size, plan.dataset)
        ),
        schedule.steps(first=plan.step),
    )
    return list(islice(same, MOST_STEPS))


def _images_per_s(stream: Iterator[Batch]) -> float:
    next(stream)  # what is decoded ahead in the meantime is counted, for as long as it lasts
    began, images = time.perf_counter(), 0
    while time.perf_counter() - began < INPUT_S:
        images += next(stream).num_images
    return images / (time.perf_counter() - began)
