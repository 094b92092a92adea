"""Input, images per CPU-second, as ratios to the way of pytorch/examples (PIL, v1 transforms, default_collate).

    python tests/benchmarks/input.py [--images 192] [--rounds 5] [--sizes 128,224]

Everything runs in turn within a round, in one process with one decode thread, so a busy machine disturbs all alike; the
medians of the rounds are compared. Images are made from photographs that scikit-learn and matplotlib ship, in the sizes of
ImageNet's. Methods whose package is missing are named and left out.
"""

import argparse
import itertools
import os
import resource
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import matplotlib.cbook
import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_sample_images
from torchvision import transforms

from dawnrun.dataset.decoders import has_dali
from dawnrun.dataset.index import DatasetIndex, build_index
from dawnrun.dataset.resize import Settings, resize_image
from dawnrun.recipe.schedule import Schedule
from dawnrun.recipe.schema import Recipe
from dawnrun.train.input import InputPipeline, open_input

BATCH = 64
IMAGENET_TRAIN = 1_281_167
CPU = torch.device("cpu")
Method = Callable[[int], int]
"""Makes the batches of one round, which has a number; returns how many images these were."""


def cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def memory_mib(what: str) -> float:
    """VmRSS (now) or VmHWM (peak) of this process."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(what))
    return int(line.split()[1]) / 1024


def make_images(root: Path, num_images: int) -> None:
    """`num_images` JPEGs of about 475 x 406 pixels and 110 KB, every fortieth grey, below `root`/train and one in val."""
    rng = np.random.default_rng(0)
    pictures = [Image.fromarray(picture) for picture in load_sample_images().images]
    with matplotlib.cbook.get_sample_data("grace_hopper.jpg") as file:
        pictures.append(Image.open(file).convert("RGB"))
    for split, number in itertools.chain((("train", k) for k in range(num_images)), [("val", 0)]):
        picture = pictures[number % len(pictures)]
        fraction = rng.uniform(0.6, 1.0)
        width, height = int(picture.width * fraction), int(picture.height * fraction)
        left, top = rng.integers(0, picture.width - width + 1), rng.integers(0, picture.height - height + 1)
        size = (500, round(500 * height / width)) if number % 4 else (round(500 * width / height), 500)
        image = picture.crop((left, top, left + width, top + height)).resize(size, Image.Resampling.LANCZOS)
        path = root / split / f"{number % 2}" / f"{number:05d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        (image if number % 40 else image.convert("L")).save(path, quality=95)
    (root / "val/1").mkdir()
    (root / "val/1/0.jpg").write_bytes(path.read_bytes())


def make_copy(root: Path, target: Path, short_side: int) -> None:
    for path in root.rglob("*.jpg"):
        copy = target / path.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(resize_image(path.read_bytes(), path.name, Settings(short_side=short_side)))


def examples_way(paths: list[str], size: int) -> Method:
    transform = transforms.Compose(
        [
            transforms.RandomResizedCrop(size),
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )

    def load(path: str) -> tuple[torch.Tensor, int]:
        with Path(path).open("rb") as file:
            return transform(Image.open(file).convert("RGB")), 0

    def run(number: int) -> int:
        for first in range(0, len(paths), BATCH):
            torch.utils.data.default_collate([load(path) for path in paths[first : first + BATCH]])
        return len(paths)

    return run


def opened(root: Path, decoder: str, size: int, *, rounds: int, threads: int = 1) -> tuple[InputPipeline, Schedule]:
    recipe = Recipe.model_validate(
        {
            "name": "benchmark",
            "lr": 0.1,
            "input": {"decoder": decoder, "last_batch": "drop"},
            "validation": {"batch_size": 1},
            "phases": [
                {"epochs": rounds, "image_size": size, "global_batch_size": BATCH, "per_device_batch_size": BATCH},
                {"epochs": 1, "image_size": 96, "global_batch_size": BATCH // 2, "per_device_batch_size": BATCH // 2},
            ],
        }
    )
    train, val = build_index(root, "train"), build_index(root, "val")
    return open_of(recipe, train, val, threads), Schedule.compile(recipe, len(train), 1)


def open_of(recipe: Recipe, train: DatasetIndex, val: DatasetIndex, threads: int) -> InputPipeline:
    return open_input(
        recipe,
        train_sets={"full": train},
        validation_set=val,
        rank=0,
        world_size=1,
        num_threads=threads,
        device=CPU,
        on_bad_image=lambda bad: None,
    )


def dawnrun_way(root: Path, decoder: str, size: int, rounds: int) -> tuple[Method, InputPipeline]:
    pipeline, schedule = opened(root, decoder, size, rounds=rounds)

    def run(number: int) -> int:
        plans = [plan for plan in schedule.steps() if plan.epoch == number]
        return sum(batch.num_images for batch in pipeline.train(plans))

    return run, pipeline


def plain_dali(paths: list[str], size: int) -> Method:
    """A file reader, DALI's own random crops, resize, mirror: uint8 as ours."""
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=BATCH, num_threads=1, device_id=None, exec_dynamic=True, prefetch_queue_depth=1)
    def graph():
        encoded, _ = fn.readers.file(files=paths, random_shuffle=False)
        pixels = fn.decoders.image_random_crop(encoded, random_area=[0.08, 1.0], output_type=types.RGB)
        pixels = fn.resize(pixels, size=[size, size], interp_type=types.INTERP_LINEAR, antialias=True)
        return fn.flip(pixels, horizontal=fn.random.coin_flip())

    pipeline = graph()
    pipeline.build()
    pipeline.run()

    def run(number: int) -> int:
        for _ in range(len(paths) // BATCH):
            pipeline.run()
        return len(paths) // BATCH * BATCH

    return run


def compare(methods: dict[str, Method], rounds: int) -> dict[str, float]:
    """Images per CPU-second of each, median of the rounds; the first round warms up."""
    speeds: dict[str, list[float]] = {name: [] for name in methods}
    for number in range(rounds + 1):
        for name, run in methods.items():
            began = cpu_s()
            images = run(number)
            if number:
                speeds[name].append(images / (cpu_s() - began))
    return {name: statistics.median(each) for name, each in speeds.items()}


def throughput(root: Path, size: int, copy_px: int, rounds: int) -> None:
    paths = [str(path) for path in sorted((root / "full/train").rglob("*.jpg"))]
    decoders = ["vision", *(["dali"] if has_dali() else [])]
    methods = {"examples": examples_way(paths, size)}
    pipelines = []
    for decoder, name in itertools.product(decoders, ("full", str(copy_px))):
        label = decoder if name == "full" else f"{decoder}, {name} px copies"
        methods[label], pipeline = dawnrun_way(root / name, decoder, size, rounds + 1)
        pipelines.append(pipeline)
    if has_dali():
        methods["plain DALI file reader"] = plain_dali(paths, size)
    speeds = compare(methods, rounds)
    for name, speed in speeds.items():
        print(f"{size} px  {name:28s} {speed / speeds['examples']:5.2f}  ({speed:5.0f} images per CPU-second)")
    for pipeline in pipelines:
        pipeline.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=192)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", default="128,224")
    arguments = parser.parse_args()
    if not has_dali():
        print("dali: left out, not installed")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        os.environ["DAWNRUN_CACHE"] = folder
        make_images(root / "full", arguments.images)
        sizes = [path.stat().st_size for path in (root / "full/train").rglob("*.jpg")]
        print(f"load {os.getloadavg()[0]:.1f}; {len(sizes)} images, {sum(sizes) / len(sizes) / 1000:.0f} KB on average")
        for size in map(int, arguments.sizes.split(",")):
            copy_px = 160 if size <= 128 else 352
            make_copy(root / "full", root / str(copy_px), copy_px)
            throughput(root, size, copy_px, arguments.rounds)


if __name__ == "__main__":
    main()
