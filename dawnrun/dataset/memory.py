"""Memory for batches: how large the largest is, what the buffers of a process take, and what a machine has left."""

from pathlib import Path
from typing import NamedTuple

from dawnrun.dataset.views import view_shapes
from dawnrun.recipe.schema import Recipe

PREFETCH = 2
"""Micro-batches made ahead of the one in use; one buffer more lets a copy to the device end meanwhile."""
NUM_BUFFERS = PREFETCH + 2
"""Of training batches, and again of validation batches."""


class Capacity(NamedTuple):
    """The largest micro-batch: images * width * height, and images."""

    num_pixels: int
    num_images: int

    @property
    def num_bytes(self) -> int:
        """uint8 pixels of three channels and int64 labels."""
        return 3 * self.num_pixels + 8 * self.num_images


def training_capacity(recipe: Recipe) -> Capacity:
    """Room for every training batch of the recipe."""
    phases = list(zip(recipe.phases, recipe.image_sizes, strict=True))
    return Capacity(
        max(phase.per_device_batch_size * max(sizes) ** 2 for phase, sizes in phases),
        max(phase.per_device_batch_size for phase, _ in phases),
    )


def validation_capacity(recipe: Recipe) -> Capacity:
    """Room for every validation batch of the recipe."""
    largest = max(
        width * height
        for phase, sizes in zip(recipe.phases, recipe.image_sizes, strict=True)
        for image_size in sizes
        for width, height in view_shapes(phase.validation, image_size)
    )
    return Capacity(recipe.validation.batch_size * largest, recipe.validation.batch_size)


def buffer_bytes(recipe: Recipe) -> int:
    """Of one process on the host; with an accelerator as much on the device. Allocated once, whatever is read ahead."""
    return NUM_BUFFERS * (training_capacity(recipe).num_bytes + validation_capacity(recipe).num_bytes)


def available_bytes(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Memory that this machine, or the container that this is, has left; None where the system does not tell."""
    found = []
    try:
        lines = (proc / "meminfo").read_text().splitlines()
        found += [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    except (OSError, ValueError, IndexError):
        pass
    try:
        limit, used = ((cgroup / name).read_text().strip() for name in ("memory.max", "memory.current"))
        cached = [
            int(line.split()[1])
            for line in (cgroup / "memory.stat").read_text().splitlines()
            if "inactive_file" in line
        ]
        found += [] if limit == "max" else [max(0, int(limit) - int(used) + sum(cached[:1]))]
    except (OSError, ValueError, IndexError):
        pass
    return min(found, default=None)
