"""What input costs beside decoding: threads, changes of size and batch, a set as large as ImageNet, files that are opened.

    python tests/benchmarks/input_store.py [--images 192] [--rounds 5]

Ratios of things measured in turn in one run, medians of the rounds. Wall time, so a busy machine shows in them.
"""

import argparse
import hashlib
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from input import BATCH, IMAGENET_TRAIN, cpu_s, make_images, memory_mib, open_of, opened

from dawnrun.dataset.decoders import has_dali
from dawnrun.dataset.index import build_index
from dawnrun.dataset.pack import write_shards
from dawnrun.dataset.shards import ShardTable, index_name
from dawnrun.recipe.schedule import Schedule, StepPlan
from dawnrun.recipe.schema import Recipe
from dawnrun.train.input import InputPipeline


class Silent:
    """No progress."""

    def __enter__(self):
        return lambda number: None

    def __exit__(self, *error: object) -> None:
        pass


def seconds_of(pipeline: InputPipeline, plans: Iterable[StepPlan]) -> float:
    """All batches of the plans."""
    began = time.perf_counter()
    for _ in pipeline.train(plans):
        pass
    return time.perf_counter() - began


def hashing_s(pool: ThreadPoolExecutor) -> float:
    """Work of C that waits for nobody: what the machine gives so many threads at this moment."""
    data = bytes(2**20)
    began = time.perf_counter()
    list(pool.map(lambda _: hashlib.sha256(data).digest(), range(256)))
    return time.perf_counter() - began


def threads(root: Path, decoder: str, rounds: int) -> None:
    """One epoch with one thread and with two, beside hashing, which would be twice as fast with a second idle core."""
    runs = {number: opened(root, decoder, 128, rounds=rounds + 1, threads=number) for number in (1, 2)}
    pools = {number: ThreadPoolExecutor(number) for number in runs}
    gains: dict[str, list[float]] = {decoder: [], "hashing": []}
    for epoch in range(rounds + 1):
        plans = [plan for plan in runs[1][1].steps() if plan.epoch == epoch]
        one, two = (seconds_of(pipeline, plans) for pipeline, _ in runs.values())
        gains[decoder].append(one / two)
        one, two = (hashing_s(pool) for pool in pools.values())
        gains["hashing"].append(one / two)
    for number, (pipeline, _) in runs.items():
        pipeline.close()
        pools[number].shutdown()
    told = ", ".join(f"{name} {statistics.median(each[1:]):.2f}" for name, each in gains.items())
    print(f"two threads, speed as a multiple of one: {told}")


def boundaries(root: Path, decoder: str, rounds: int) -> None:
    """The first batch of 64 images at 128 px, by what came before it."""
    pipeline, schedule = opened(root, decoder, 128, rounds=2)
    timed = schedule.at(0)
    half = {"per_device_batch_size": BATCH // 2, "global_batch_size": BATCH // 2}
    before = {
        "the same": timed,
        "another epoch": replace(timed, epoch=1),
        "another size": replace(timed, image_size=96),
        "another batch size": replace(timed, **half),
        "both": replace(timed, image_size=96, **half),
    }
    times: dict[str, list[float]] = {name: [] for name in before}
    for _, (name, plan) in itertools.product(range(rounds + 1), before.items()):
        seconds_of(pipeline, [plan])
        began = time.perf_counter()
        next(pipeline.train([timed]))
        times[name].append(time.perf_counter() - began)
    pipeline.close()
    same, *others = ((name, statistics.median(each[1:])) for name, each in times.items())
    told = ", ".join(f"{name} {seconds / same[1]:.2f}" for name, seconds in others)
    print(f"first batch after, {decoder}: {told} of that after the same ({same[1]:.2f} s)")


def files_opened(folders: Path, shards: Path) -> None:
    """One epoch with Pillow, contents of files out of the page cache: how many files Python opens, and how long it takes."""
    counted = Counter[str]()
    sys.addaudithook(lambda event, arguments: counted.update([str(arguments[0])]) if event == "open" else None)
    for name, root in (("class folders", folders), ("shards", shards)):
        pipeline, schedule = opened(root, "vision", 128, rounds=1)
        for path in root.rglob("*"):
            if path.is_file():
                with path.open("rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        counted.clear()
        seconds = seconds_of(pipeline, [plan for plan in schedule.steps() if plan.epoch == 0])
        number = sum(times for path, times in counted.items() if path.startswith(str(root)))
        pipeline.close()
        print(f"{name}: {number} files opened in an epoch, {seconds:.2f} s with a cold page cache")


def write_large(shards: Path, target: Path) -> None:
    """A packed set of ImageNet's size: names of its own length, all images those of one small shard."""
    target.mkdir()
    for path in shards.iterdir():
        (target / path.name).hardlink_to(path)
    table = ShardTable.load(shards / index_name("train"))
    (target / index_name("train")).unlink()
    repeat = -(-IMAGENET_TRAIN // len(table.names))
    columns = ("labels", "shards", "offsets", "sizes", "widths", "heights")
    large = {name: np.tile(getattr(table, name), repeat)[:IMAGENET_TRAIN] for name in columns}
    names = (
        f"n{1_440_764 + k % 1000:08d}/n{1_440_764 + k % 1000:08d}_{k % 100_000}.JPEG" for k in range(IMAGENET_TRAIN)
    )
    replace(table, names=tuple(names), **large).save(target / index_name("train"))


def large_set(root: Path, decoder: str) -> None:
    """In a process of its own: from nothing to the index, and from there to the first batch."""
    start_mib, began, began_cpu = memory_mib("VmRSS"), time.perf_counter(), cpu_s()
    train, val = build_index(root, "train"), build_index(root, "val")
    indexed_s, indexed_cpu_s, indexed_mib = time.perf_counter() - began, cpu_s() - began_cpu, memory_mib("VmRSS")
    phase = {"epochs": 1, "image_size": 128, "global_batch_size": BATCH, "per_device_batch_size": BATCH}
    values = {"name": "benchmark", "lr": 0.1, "input": {"decoder": decoder}, "validation": {"batch_size": 1}}
    recipe = Recipe.model_validate(values | {"phases": [phase]})
    plan = Schedule.compile(recipe, len(train), 1).at(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    began, began_cpu = time.perf_counter(), cpu_s()
    pipeline = open_of(recipe, train, val, 1)
    next(pipeline.train([plan]))
    first_s, first_cpu_s = time.perf_counter() - began, cpu_s() - began_cpu
    pipeline.close()
    print(
        f"{len(train):,} images in shards, {decoder}: index {indexed_s:.1f} s ({indexed_cpu_s:.1f} CPU-s) and {indexed_mib - start_mib:.0f} MiB; "
        f"open_input to first batch {first_s:.1f} s ({first_cpu_s:.1f} CPU-s), +{memory_mib('VmHWM') - indexed_mib:.0f} MiB at the peak"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=192)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--large", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.large:
        large_set(Path(arguments.large[0]), arguments.large[1])
        return
    decoders = ["vision", *(["dali"] if has_dali() else [])]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        os.environ["DAWNRUN_CACHE"] = folder
        make_images(root / "full", arguments.images)
        write_shards(root / "full", root / "shards", seed=0, shard_bytes=2**23, progress=lambda total: Silent())
        write_large(root / "shards", root / "large")
        print(f"load {os.getloadavg()[0]:.1f}, {len(os.sched_getaffinity(0))} cores")
        for decoder in decoders:
            threads(root / "full", decoder, arguments.rounds)
            boundaries(root / "full", decoder, arguments.rounds)
            sys.stdout.flush()
            subprocess.run([sys.executable, __file__, "--large", str(root / "large"), decoder], check=True)
        files_opened(root / "full", root / "shards")


if __name__ == "__main__":
    main()
