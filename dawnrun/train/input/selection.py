"""What every decoder is given: which images are in a micro-batch, through which windows, and what bad ones do.

Order and windows are functions of (seed, epoch, image), computed as arrays for each micro-batch; image size and batch
size are arguments of a step, so no epoch or phase boundary restarts anything.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
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

_Substitutes = Callable[[int], Iterator[tuple[int, Windows]]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rows:
    """Row i is image `images[i]` of `source` seen through window i; `substitutes(i)` may take its place, in order.

    `scaled_decoding`: see `decode_window`.
    """

    source: DatasetIndex
    split: Split
    images: NDArray[np.int64]
    windows: Windows
    shape: Shape
    substitutes: _Substitutes
    scaled_decoding: bool = True

    @property
    def num_images(self) -> int:
        """Rows."""
        return len(self.images)

    def write(self, row: int, pixels: NDArray[np.uint8], labels: NDArray[np.int64]) -> BadImage | None:
        """Fill pixels [height, width, 3] and labels[row] by Pillow; an image that could not be read is returned."""
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
                scaled=self.scaled_decoding,
            )
        except UnreadableImageError as error:
            return str(error)
        return None


Work = Callable[[], Rows]
"""Finds out what the rows of a micro-batch are; called in a thread of the decoder's."""


@dataclass(kw_only=True, slots=True)
class Selection:
    """One process's share of the images.

    `train_sets` by the name that `StepPlan.dataset` gives. `on_bad_image` is called from the thread that iterates, once
    for each image replaced; one more than `max_bad_images` of this process is a DataError.
    """

    train_sets: Mapping[str, DatasetIndex]
    validation_set: DatasetIndex
    seed: int
    flip: bool
    aspect_ratio: tuple[float, float]
    last_batch: LastBatch
    max_bad_images: int
    on_bad_image: Callable[[BadImage], None]
    rank: int
    world_size: int
    validation_batch_size: int
    scaled_decoding: bool = True
    _bad_paths: set[str] = field(default_factory=set)

    def training(self, plans: Iterable[StepPlan]) -> Iterator[Work]:
        """One for each micro-batch of this process, `plan.accumulate_steps` a step."""
        return (partial(self._training_rows, plan, index) for plan in plans for index in range(plan.accumulate_steps))

    def validation(self, view: View, image_size: int) -> Iterator[Work]:
        """One for each batch of the process's share of the validation images."""
        source = self.validation_set
        shares = validation_batches(
            view,
            image_size,
            widths=source.widths,
            heights=source.heights,
            batch_size=self.validation_batch_size,
            rank=self.rank,
            world_size=self.world_size,
        )
        return (partial(self._validation_rows, view, image_size, images, shape) for images, shape in shares)

    def seen(
        self, plan: StepPlan, source: DatasetIndex, positions: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], Windows]:
        """Images and their windows at positions of the epoch's order."""
        images, epochs = images_at(
            positions, epoch=plan.epoch, num_images=len(source), seed=self.seed, last_batch=self.last_batch
        )
        windows = draw_windows(
            seed=self.seed,
            epochs=epochs,
            images=images,
            widths=np.maximum(1, source.widths[images]),  # 0: unreadable, found out when it is decoded
            heights=np.maximum(1, source.heights[images]),
            min_area_fraction=plan.min_area_fraction,
            aspect_ratio=self.aspect_ratio,
            flip=self.flip,
        )
        return images, windows

    def note(self, bad: BadImage) -> None:
        """Count an unreadable image, once; raise DataError where it cannot or may not be replaced."""
        seen = len(self._bad_paths | {bad.path})
        if seen > self.max_bad_images or bad.replaced_by is None:
            limit = (
                "validation images are never replaced: mend or remove the file"
                if bad.split == "val"
                else f"input.max_bad_images allows {self.max_bad_images} to be replaced, this is number {seen}"
            )
            raise DataError(
                f"unreadable {bad.split} image {bad}\n    {limit}\n"
                "    list every unreadable image: dawnrun data check DIR"
            )
        if bad.path not in self._bad_paths:
            self._bad_paths.add(bad.path)
            self.on_bad_image(bad)

    def _training_rows(self, plan: StepPlan, index: int) -> Rows:
        """Micro-batch `index` of this process in a step."""
        source = self.train_sets[plan.dataset]
        part = micro_batch(plan, index, rank=self.rank, world_size=self.world_size)
        positions = plan.first_position + np.arange(part.start, part.stop)
        images, windows = self.seen(plan, source, positions)

        def substitutes(row: int) -> Iterator[tuple[int, Windows]]:
            """The next images of the order; more than allowed to be bad need not be tried."""
            for skip in range(1, self.max_bad_images + 1):
                image, window = self.seen(plan, source, positions[row : row + 1] + skip)
                yield int(image[0]), window

        return Rows(
            source=source,
            split="train",
            images=images,
            windows=windows,
            shape=(plan.image_size, plan.image_size),
            substitutes=substitutes,
            scaled_decoding=self.scaled_decoding,
        )

    def _validation_rows(self, view: View, image_size: int, images: NDArray[np.int64], shape: Shape) -> Rows:
        source = self.validation_set
        side, resize_px = resolve_view(view, image_size)
        windows = centre_windows(
            source.widths[images], source.heights[images], shape=shape, image_size=side, resize_px=resize_px
        )
        # A validation that leaves images out is not exact: nothing may stand in.
        return Rows(
            source=source,
            split="val",
            images=images,
            windows=windows,
            shape=shape,
            substitutes=lambda _: iter(()),
            scaled_decoding=self.scaled_decoding,
        )
