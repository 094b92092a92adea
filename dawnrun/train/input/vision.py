"""Images decoded by Pillow on threads of this process; the same batches for any number of threads and processes.

Order and windows are functions of (seed, epoch, image), computed as arrays for each micro-batch; image size and batch
size are arguments of a step, so no epoch or phase boundary restarts anything.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from dawnrun.dataset.crops import Windows, draw_windows
from dawnrun.dataset.decode import BadImage, UnreadableImageError, decode_window, printable
from dawnrun.dataset.folder import Split
from dawnrun.dataset.index import DatasetIndex
from dawnrun.dataset.order import LastBatch, images_at, micro_batch
from dawnrun.dataset.views import Shape, centre_windows, resolve_view, validation_batches
from dawnrun.errors import DataError
from dawnrun.recipe.schedule import StepPlan
from dawnrun.recipe.schema import View
from dawnrun.train.input import Batch
from dawnrun.train.input.ahead import Capacity, ReadAhead

_Substitutes = Callable[[int], Iterator[tuple[int, Windows]]]


@dataclass(frozen=True, kw_only=True, slots=True)
class _ImageRows:
    """Row i is image `images[i]` of `source` seen through window i; `substitutes(i)` may take its place, in order."""

    source: DatasetIndex
    split: Split
    images: NDArray[np.int64]
    windows: Windows
    shape: Shape
    substitutes: _Substitutes

    @property
    def num_images(self) -> int:
        return len(self.images)

    def write(self, row: int, pixels: NDArray[np.uint8], labels: NDArray[np.int64]) -> BadImage | None:
        image = int(self.images[row])
        reason = self._decode(image, self.windows, row, pixels)
        if reason is None:
            labels[row] = self.source.labels[image]
            return None
        replaced_by = None
        for other, window in self.substitutes(row):
            if self._decode(other, window, 0, pixels) is None:
                labels[row] = self.source.labels[other]
                replaced_by = printable(self.source.path(other))
                break
        return BadImage(
            path=printable(self.source.path(image)),
            class_name=self.source.class_name(image),
            reason=reason,
            split=self.split,
            replaced_by=replaced_by,
        )

    def _decode(self, image: int, windows: Windows, row: int, pixels: NDArray[np.uint8]) -> str | None:
        """Write one image's pixels; the reason if it cannot be read."""
        size = int(self.source.widths[image]), int(self.source.heights[image])
        try:
            decode_window(
                self.source.read(image),
                size=size,
                box=windows.box(row),
                mirrored=bool(windows.mirrored[row]),
                out=pixels,
            )
        except UnreadableImageError as error:
            return str(error)
        return None


class VisionInput:
    """The InputPipeline of the CPU; see `InputPipeline` for its methods."""

    def __init__(
        self,
        *,
        train_sets: Mapping[str, DatasetIndex],
        validation_set: DatasetIndex,
        seed: int,
        flip: bool,
        aspect_ratio: tuple[float, float],
        last_batch: LastBatch,
        max_bad_images: int,
        on_bad_image: Callable[[BadImage], None],
        rank: int,
        world_size: int,
        num_threads: int,
        device: torch.device,
        validation_batch_size: int,
        training_capacity: Capacity,
        validation_capacity: Capacity,
    ) -> None:
        """Allocate all buffers and start `num_threads` decode threads.

        `train_sets` by the name that `StepPlan.dataset` gives. `on_bad_image` is called from the thread that
        iterates, once for each image replaced; one more than `max_bad_images` of this process is a DataError.
        """
        self._train_sets, self._validation_set = train_sets, validation_set
        self._seed, self._flip, self._aspect_ratio = seed, flip, aspect_ratio
        self._last_batch: LastBatch = last_batch
        self._max_bad_images, self._on_bad_image = max_bad_images, on_bad_image
        self._rank, self._world_size = rank, world_size
        self._validation_batch_size = validation_batch_size
        self._bad_paths: set[str] = set()
        self._pool = ThreadPoolExecutor(num_threads, thread_name_prefix="decode")
        # Two rings: batches read ahead for training keep their buffers while a validation runs in between.
        self._training, self._validation = (
            ReadAhead(self._pool, capacity=capacity, num_threads=num_threads, device=device)
            for capacity in (training_capacity, validation_capacity)
        )

    def train(self, plans: Iterable[StepPlan]) -> Iterator[Batch]:
        """One Batch per micro-batch of this process, read ahead across steps, epochs and phases. Raises DataError."""
        works = (partial(self._training_rows, plan, index) for plan in plans for index in range(plan.accumulate_steps))
        return self._training.batches(works, self._note)

    def validation(self, view: View, image_size: int) -> Iterator[Batch]:
        """The process's share of the validation images, each once. Raises DataError at an unreadable one."""
        source = self._validation_set
        shares = validation_batches(
            view,
            image_size,
            widths=source.widths,
            heights=source.heights,
            batch_size=self._validation_batch_size,
            rank=self._rank,
            world_size=self._world_size,
        )
        works = (partial(self._validation_rows, view, image_size, images, shape) for images, shape in shares)
        return self._validation.batches(works, self._note)

    def close(self) -> None:
        """Stop the threads; may be called twice."""
        self._training.stop()
        self._validation.stop()
        self._pool.shutdown(cancel_futures=True)

    def _training_rows(self, plan: StepPlan, index: int) -> _ImageRows:
        """Micro-batch `index` of this process in a step."""
        source = self._train_sets[plan.dataset]
        part = micro_batch(plan, index, rank=self._rank, world_size=self._world_size)
        positions = plan.first_position + np.arange(part.start, part.stop)
        images, windows = self._seen(plan, source, positions)

        def substitutes(row: int) -> Iterator[tuple[int, Windows]]:
            """The next images of the order; more than allowed to be bad need not be tried."""
            for skip in range(1, self._max_bad_images + 1):
                image, window = self._seen(plan, source, positions[row : row + 1] + skip)
                yield int(image[0]), window

        return _ImageRows(
            source=source,
            split="train",
            images=images,
            windows=windows,
            shape=(plan.image_size, plan.image_size),
            substitutes=substitutes,
        )

    def _seen(
        self, plan: StepPlan, source: DatasetIndex, positions: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], Windows]:
        """Images and their windows at positions of the epoch's order."""
        images, epochs = images_at(
            positions, epoch=plan.epoch, num_images=len(source), seed=self._seed, last_batch=self._last_batch
        )
        windows = draw_windows(
            seed=self._seed,
            epochs=epochs,
            images=images,
            widths=np.maximum(1, source.widths[images]),  # 0: unreadable, found out when it is decoded
            heights=np.maximum(1, source.heights[images]),
            min_area_fraction=plan.min_area_fraction,
            aspect_ratio=self._aspect_ratio,
            flip=self._flip,
        )
        return images, windows

    def _validation_rows(self, view: View, image_size: int, images: NDArray[np.int64], shape: Shape) -> _ImageRows:
        source = self._validation_set
        side, resize_px = resolve_view(view, image_size)
        windows = centre_windows(
            source.widths[images], source.heights[images], shape=shape, image_size=side, resize_px=resize_px
        )
        # A validation that leaves images out is not exact: nothing may stand in.
        return _ImageRows(
            source=source,
            split="val",
            images=images,
            windows=windows,
            shape=shape,
            substitutes=lambda _: iter(()),
        )

    def _note(self, bad: BadImage) -> None:
        """Count an unreadable image, once; raise DataError where it cannot or may not be replaced."""
        seen = len(self._bad_paths | {bad.path})
        if seen > self._max_bad_images or bad.replaced_by is None:
            limit = (
                "validation images are never replaced: mend or remove the file"
                if bad.split == "val"
                else f"input.max_bad_images allows {self._max_bad_images} to be replaced, this is number {seen}"
            )
            raise DataError(
                f"unreadable {bad.split} image {bad}\n    {limit}\n"
                "    list every unreadable image: dawnrun data check DIR"
            )
        if bad.path not in self._bad_paths:
            self._bad_paths.add(bad.path)
            self._on_bad_image(bad)
