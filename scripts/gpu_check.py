"""What one machine with a GPU does: step, input and both together, each against the machine's own limit.

Called by gpu_check.sh. Every part that fails or finds no time left is written down as such; the files are written anew
after each part, so what was measured is kept whatever comes after.
"""

import argparse
import importlib.metadata
import io
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn
from torchvision.models import resnet50

from dawnrun.dataset.decoders import choose_decoder
from dawnrun.dataset.index import build_index
from dawnrun.recipe.schedule import Schedule
from dawnrun.recipe.schema import Recipe
from dawnrun.train.input import Batch, open_input

BUDGET_S = 450.0
MULTIPLY_ADDS = 4.089e9
"""ResNet-50's forward pass of one image at 224 px, from torchvision's table of its weights."""
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
Json = dict[str, Any]


class Report:
    """What was found so far, in two files."""

    def __init__(self, folder: Path, began_s: float) -> None:
        self.folder, self.began_s, self.parts = folder, began_s, dict[str, Json]()

    def add(self, name: str, measure: Callable[[], Json], *, needs_s: float) -> None:
        """Carry out one part and write the files."""
        left_s = BUDGET_S - (time.monotonic() - self.began_s)
        if left_s < needs_s:
            self.parts[name] = {"left_out": f"{left_s:.0f} s left, needs about {needs_s:.0f}"}
        else:
            try:
                self.parts[name] = measure()
            except Exception as error:  # noqa: BLE001 - whatever goes wrong is a finding
                self.parts[name] = {
                    "failed": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
                }
        (self.folder / "gpu-check.json").write_text(json.dumps(self.parts, indent=1))
        line = f"{name:34s} " + "  ".join(f"{key} {_short(value)}" for key, value in self.parts[name].items())
        print(line, flush=True)
        with (self.folder / "gpu-check.txt").open("a") as file:
            file.write(line + "\n")


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def synchronize(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def facts(device: torch.device) -> Json:
    found: Json = {"python": sys.version.split()[0], "torch": torch.__version__, "cuda": str(torch.version.cuda)}
    for name in ("torchvision", "nvidia-dali-cuda120", "nvidia-dali-cuda130", "Pillow"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    choice = choose_decoder("auto", device=str(device))
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return found | {"device": name, "cores": os.cpu_count(), "decoder": choice.name, "because": choice.reason}


def matmul_flops(device: torch.device, precision: str, side: int) -> float:
    """FLOP/s of a large matrix product: the machine's practical limit."""
    a, b = (torch.randn(side, side, device=device, dtype=DTYPES[precision]) for _ in range(2))
    return 2 * side**3 * per_second(lambda: torch.mm(a, b), device, 1.0)


def per_second(action: Callable[[], object], device: torch.device, seconds: float) -> float:
    """How often a second `action` is done, after a few times for nothing."""
    for _ in range(3):
        action()
    synchronize(device)
    began, number = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        action()
        number += 1
        if number % 4 == 0:
            synchronize(device)
    synchronize(device)
    return number / (time.perf_counter() - began)


class Step:
    """Normalise, forward, backward, update: the work of a training step on images that are on the device."""

    def __init__(self, device: torch.device, precision: str, *, compiled: bool) -> None:
        self.device, self.precision = device, precision
        model = resnet50().to(device).to(memory_format=torch.channels_last)
        self.model: Any = torch.compile(model) if compiled else model
        self.optimizer = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9, fused=device.type == "cuda")
        self.scaler = torch.amp.GradScaler(device.type, enabled=precision == "fp16")

    def __call__(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        """One update."""
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device.type, DTYPES[self.precision], enabled=self.precision != "fp32"):
            logits = self.model((images.float() - 117) / 58)
        self.scaler.scale(nn.functional.cross_entropy(logits.float(), labels)).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()


def step_speed(
    device: torch.device, size: int, batch: int, precision: str, compiled: bool, seconds: float, limit: float
) -> Json:
    step = Step(device, precision, compiled=compiled)
    images = torch.randint(0, 255, (batch, size, size, 3), dtype=torch.uint8, device=device).permute(0, 3, 1, 2)
    labels = torch.randint(0, 1000, (batch,), device=device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    speed = batch * per_second(lambda: step(images, labels), device, seconds)
    found: Json = {"images_per_second": speed, "batch": batch, "roofline": speed * flops(size) / limit}
    if device.type == "cuda":
        found["memory_mib"] = torch.cuda.max_memory_allocated(device) / 2**20
    return found


def flops(size: int) -> float:
    """Of a forward and a backward pass of one image: three times two a multiply-add."""
    return 6 * MULTIPLY_ADDS * (size / 224) ** 2


def loss_scale(device: torch.device, size: int, batch: int) -> Json:
    """Scale of fp16's loss after some steps, and how many were skipped."""
    step, scales = Step(device, "fp16", compiled=False), []
    images = torch.randint(0, 255, (batch, 3, size, size), dtype=torch.uint8, device=device)
    for _ in range(30):
        step(images, torch.zeros(batch, dtype=torch.int64, device=device))
        scales.append(step.scaler.get_scale())
    return {"first": scales[0], "last": scales[-1], "skipped": sum(b < a for a, b in itertools.pairwise(scales))}


def make_images(root: Path, num_images: int) -> None:
    """JPEGs of 500 x 400 pixels with noise over a slope: about 120 KB, as ImageNet's."""
    rng = np.random.default_rng(0)
    for number in range(num_images):
        coarse = Image.fromarray(rng.integers(0, 255, (40, 50, 3), np.uint8)).resize(
            (500, 400), Image.Resampling.BICUBIC
        )
        noise = rng.integers(-12, 13, (400, 500, 3))
        file = io.BytesIO()
        Image.fromarray(np.clip(np.asarray(coarse) + noise, 0, 255).astype(np.uint8)).save(file, "JPEG", quality=90)
        for split in ("train", "val") if number < 2 else ("train",):
            path = root / split / str(number % 2) / f"{number}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.getvalue())


def batches(root: Path, device: torch.device, size: int, batch: int) -> tuple[Any, Iterator[Batch]]:
    recipe = Recipe.model_validate(
        {
            "name": "check",
            "lr": 0.1,
            "phases": [
                {"epochs": 1000, "image_size": size, "global_batch_size": batch, "per_device_batch_size": batch}
            ],
            "validation": {"batch_size": 1},
        }
    )
    train = build_index(root, "train", cache_dir=root)
    pipeline = open_input(
        recipe,
        train_sets={"full": train},
        validation_set=build_index(root, "val", cache_dir=root),
        rank=0,
        world_size=1,
        num_threads=os.cpu_count() or 1,
        device=device,
        on_bad_image=lambda _: None,
    )
    return pipeline, iter(pipeline.train(Schedule.compile(recipe, len(train), 1).steps()))


def input_speed(
    root: Path, device: torch.device, size: int, batch: int, step: Step | None, seconds: float, limit: float
) -> Json:
    pipeline, stream = batches(root, device, size, batch)

    def one() -> None:
        made = next(stream)
        if step is not None:
            step(made.images, made.labels)

    try:
        speed = batch * per_second(one, device, seconds)
        roofline = {} if step is None else {"roofline": speed * flops(size) / limit}
        return {"images_per_second": speed, "decoder": pipeline.decoder_name, **roofline}
    finally:
        pipeline.close()


def demo_run(root: Path) -> Json:
    dawnrun = [sys.executable, "-m", "dawnrun"]
    subprocess.run([*dawnrun, "data", "demo", str(root / "demo")], check=True, capture_output=True)
    began = time.monotonic()
    arguments = ["train", "--config", "demo", "--data-root", str(root), "--run-root", str(root / "runs")]
    done = subprocess.run([*dawnrun, *arguments], capture_output=True, text=True, timeout=150, check=False)
    return {"exit_code": done.returncode, "wall_s": time.monotonic() - began, "last_line": done.stdout.strip()[-120:]}


def main() -> None:
    """Measure everything that time allows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--reduced", action="store_true", help="small shapes and short times; works on a CPU")
    arguments = parser.parse_args()
    began_s = time.monotonic()
    device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if device is None and not arguments.reduced:
        sys.exit("gpu_check: no accelerator here; --reduced runs on the CPU")
    device = device or torch.device("cpu")
    reduced = arguments.reduced
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "gpu-check.txt").write_text("")
    report = Report(arguments.out, began_s)
    report.add("machine", lambda: facts(device), needs_s=0)
    precisions = ("fp32",) if reduced else ("bf16", "fp16")
    shapes = {32: 4} if reduced else {96: 512, 128: 512, 224: 256, 288: 128}
    seconds = 0.1 if reduced else 3.0
    limits = {name: matmul_flops(device, name, 256 if reduced else 8192) for name in precisions}
    report.add("matrix product, FLOP/s", lambda: dict(limits), needs_s=0)
    for precision, (size, batch) in itertools.product(precisions, shapes.items()):
        measure = partial(step_speed, device, size, batch, precision, False, seconds, limits[precision])
        report.add(f"step {size} px {precision} eager", measure, needs_s=3 * seconds)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make_images(root, 8 if reduced else 1024)
        for size, batch in shapes.items():
            for name, step in (("input", None), ("input and step", Step(device, precisions[0], compiled=False))):
                measure = partial(input_speed, root, device, size, batch, step, seconds, limits[precisions[0]])
                report.add(f"{name} {size} px", measure, needs_s=4 * seconds)
        size, batch = next(iter(shapes.items()))
        if not reduced:
            report.add("loss scale fp16", partial(loss_scale, device, size, batch), needs_s=10)
            report.add("demo run", partial(demo_run, root), needs_s=160)
            for precision, (size, batch) in itertools.product(precisions, shapes.items()):
                measure = partial(step_speed, device, size, batch, precision, True, seconds, limits[precision])
                report.add(f"step {size} px {precision} compiled", measure, needs_s=60)
    print(f"{time.monotonic() - began_s:.0f} s; {arguments.out / 'gpu-check.json'}, {arguments.out / 'gpu-check.txt'}")


if __name__ == "__main__":
    main()
