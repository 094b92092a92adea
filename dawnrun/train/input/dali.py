"""Images decoded by NVIDIA DALI, on CPUs or a GPU: ONE pipeline for the whole run, fed for each micro-batch.

Encoded bytes (or paths), windows and output size are inputs of the pipeline, one array of each for a micro-batch, taken
over without a copy; so batch and image size change from step to step and nothing is built anew. What DALI cannot
decode is given to Pillow, a whole micro-batch at a time, which also finds out which image is at fault.
"""

import os
import queue
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.dlpack import from_dlpack

from dawnrun.dataset.crops import Windows
from dawnrun.dataset.decode import UnreadableImageError
from dawnrun.dataset.index import DatasetIndex
from dawnrun.train.input.ahead import Job
from dawnrun.train.input.selection import Rows

_DEPTH = 2
"""Micro-batches that DALI has at a time: it decodes the second while the first one's last image is finished."""
_READERS = 8
Feed = tuple[Any, NDArray[np.int32], NDArray[np.int32], NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]
"""Bytes or paths; start and shape of what is decoded, width first; both ends of what is resized, and its size, height
first."""


def regions(
    windows: Windows, widths: NDArray[np.int32], heights: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]:
    """Windows as DALI takes them, [n, 2] each.

    First corner and size (width first) of the whole pixels that a window touches, which are decoded; then the window
    itself in these (height first), never rounded, its ends exchanged where it is mirrored.
    """
    first = np.stack([windows.left, windows.top], axis=1)
    last = first + np.stack([windows.width, windows.height], axis=1)
    outer = np.floor(first)
    limit = np.stack([widths, heights], axis=1)
    shape = np.maximum(1, np.minimum(np.ceil(last), limit) - outer)
    begin, end = first - outer, np.minimum(last - outer, shape)
    mirrored = np.stack([windows.mirrored, np.zeros_like(windows.mirrored)], axis=1)
    begin, end = np.where(mirrored, end, begin), np.where(mirrored, begin, end)
    roi = [np.ascontiguousarray(corner[:, ::-1], np.float32) for corner in (begin, end)]
    return outer.astype(np.int32), shape.astype(np.int32), roi[0], roi[1]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Running:
    """A micro-batch that DALI has; the arrays are kept because DALI reads them where they are."""

    job: Job
    rows: Rows
    feed: Feed


class DaliDecoder:
    """One thread that feeds DALI and takes its batches; DALI has `num_threads` of its own."""

    def __init__(self, *, num_threads: int, device: torch.device, max_batch_size: int, by_path: bool) -> None:
        """Build the pipeline; `by_path`: every image is a file of its own, which DALI reads itself."""
        self._num_threads, self._max_batch_size, self._by_path = num_threads, max_batch_size, by_path
        self._gpu = _nvidia_gpu(device)
        self._fed = deque[Feed]()
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="read")
        self._buffers = deque(np.empty(0, np.uint8) for _ in range(_DEPTH + 1))
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._pipeline = self._build()
        self._thread = threading.Thread(target=self._serve, name="dali", daemon=True)
        self._thread.start()

    def start(self, job: Job) -> None:
        """Begin a micro-batch."""
        self._jobs.put(job)

    def close(self) -> None:
        """End the thread; may be called twice."""
        if self._thread.is_alive():
            self._jobs.put(None)
            self._thread.join()
            self._readers.shutdown()
            self._pipeline = None

    def _build(self) -> Any:
        """The pipeline, which asks `self._fed` for each micro-batch."""
        from nvidia.dali import fn, pipeline_def, types

        @pipeline_def(  # type: ignore[untyped-decorator]
            batch_size=self._max_batch_size,
            num_threads=self._num_threads,
            device_id=self._gpu,
            exec_dynamic=True,
            prefetch_queue_depth=_DEPTH,
        )
        def graph() -> Any:
            encoded, start, shape, begin, end, size = fn.external_source(
                source=lambda: self._fed.popleft(),  # DALI inspects it, and a bound method of C defeats that
                num_outputs=6,
                batch=True,
                no_copy=True,
                dtype=[types.UINT8, types.INT32, types.INT32, types.FLOAT, types.FLOAT, types.FLOAT],
                ndim=[1] * 6,
            )
            if self._by_path:
                # A memory map would end the process by SIGBUS where a file is cut while it is read.
                encoded = fn.io.file.read(encoded, dont_use_mmap=True)
            pixels = fn.decoders.image_slice(
                encoded,
                start=start,
                shape=shape,
                device="cpu" if self._gpu is None else "mixed",
                output_type=types.RGB,
                adjust_orientation=False,
            )
            return fn.resize(
                pixels, size=size, roi_start=begin, roi_end=end, interp_type=types.INTERP_LINEAR, antialias=True
            )

        self._fed.clear()
        self._is_fresh = True
        pipeline = graph()
        pipeline.build()
        return pipeline

    def _serve(self) -> None:
        """Take jobs in order; a second one is begun before the first is waited for."""
        running = deque[_Running]()
        if self._gpu is not None:
            torch.cuda.set_device(self._gpu)  # a thread begins with the first one
        while True:
            try:
                job = self._jobs.get(block=not running)
            except queue.Empty:
                self._end(running)
                continue
            if job is None:
                while running:
                    self._end(running)
                return
            self._begin(job, running)
            if len(running) == _DEPTH:
                self._end(running)

    def _begin(self, job: Job, running: deque[_Running]) -> None:
        """Feed a micro-batch, unless nobody waits for it."""
        try:
            rows = job.work()
            if job.stopped.is_set():
                job.done.set_result(rows)
                return
            try:
                feed = self._feed(rows)
            except UnreadableImageError:
                self._by_pillow(job, rows)
                return
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            job.done.set_exception(error)
            return
        running.append(_Running(job=job, rows=rows, feed=feed))
        try:
            self._schedule(feed)
        except Exception:  # noqa: BLE001 - DALI has a class for each reason
            self._start_again(running)

    def _end(self, running: deque[_Running]) -> None:
        """Hand over the oldest micro-batch."""
        try:
            (output,) = self._pipeline.share_outputs()
        except Exception:  # noqa: BLE001 - DALI has a class for each reason
            self._start_again(running)
            return
        each = running.popleft()
        try:
            if not each.job.stopped.is_set():
                self._hand_over(output.as_tensor(), each.job, each.rows)
            each.job.done.set_result(each.rows)
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            each.job.done.set_exception(error)
        finally:
            self._pipeline.release_outputs()

    def _start_again(self, running: deque[_Running]) -> None:
        """After a failure the pipeline is of no use: a new one, and what the old one had by Pillow."""
        try:
            self._pipeline = self._build()
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            while running:
                running.popleft().job.done.set_exception(error)
            return
        while running:
            each = running.popleft()
            self._by_pillow(each.job, each.rows)

    def _schedule(self, feed: Feed) -> None:
        """Have DALI begin. A new pipeline takes all it can hold at once, so a single image goes before the first batch."""
        if self._is_fresh:
            self._is_fresh = False
            self._fed.extend([tuple(array[:1] for array in feed)] * (_DEPTH - 1))  # type: ignore[list-item]
            self._fed.append(feed)
            self._pipeline.schedule_run()
            for _ in range(_DEPTH - 1):
                self._pipeline.share_outputs()
                self._pipeline.release_outputs()
        else:
            self._fed.append(feed)
            self._pipeline.schedule_run()

    def _feed(self, rows: Rows) -> Feed:
        """The arrays of a micro-batch. Raises UnreadableImageError."""
        source, images = rows.source, rows.images
        encoded = _paths(source, images) if self._by_path else self._read(source, images)
        size = np.tile(np.array(rows.shape[::-1], np.float32), (len(images), 1))
        return encoded, *regions(rows.windows, source.widths[images], source.heights[images]), size

    def _read(self, source: DatasetIndex, images: NDArray[np.int64]) -> list[NDArray[np.uint8]]:
        """The bytes of images, by positioned reads into a buffer that is used again. Raises UnreadableImageError."""
        if source.shards is None:
            return [np.frombuffer(data, np.uint8) for data in self._readers.map(source.read, images.tolist())]
        shards, sizes = source.shards, source.sizes[images]
        ends = np.cumsum(sizes)
        if len(self._buffers[0]) < ends[-1]:
            self._buffers[0] = np.empty(int(1.25 * ends[-1]), np.uint8)
        buffer = self._buffers[0]
        self._buffers.rotate(-1)
        parts = [buffer[end - size : end] for end, size in zip(ends.tolist(), sizes.tolist(), strict=True)]

        def read(chunk: range) -> None:
            for row in chunk:
                shards.read_into(int(images[row]), parts[row].data)

        step = -(-len(parts) // _READERS)
        list(self._readers.map(read, (range(at, min(at + step, len(parts))) for at in range(0, len(parts), step))))
        return parts

    def _hand_over(self, pixels: Any, job: Job, rows: Rows) -> None:
        """Copy a batch out of DALI's memory."""
        host, labels = job.slot.open(rows.num_images, *rows.shape)
        labels[:] = rows.source.labels[rows.images]
        if self._gpu is None:
            host[:] = np.asarray(pixels)
            job.slot.upload(rows.num_images, *rows.shape)
        else:
            job.slot.take(from_dlpack(pixels), rows.num_images)

    def _by_pillow(self, job: Job, rows: Rows) -> None:
        """Decode a micro-batch row by row."""
        try:
            pixels, labels = job.slot.open(rows.num_images, *rows.shape)
            found = self._readers.map(lambda row: rows.write(row, pixels[row], labels), range(rows.num_images))
            job.bad.update((row, bad) for row, bad in enumerate(found) if bad is not None)
            job.slot.upload(rows.num_images, *rows.shape)
            job.done.set_result(rows)
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            job.done.set_exception(error)


def _nvidia_gpu(device: torch.device) -> int | None:
    """Number of the device if it is a GPU that DALI can decode on."""
    if device.type != "cuda" or torch.version.cuda is None:
        return None
    return torch.cuda.current_device() if device.index is None else device.index


def _paths(source: DatasetIndex, images: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Paths of images as uint8 [n, longest], zeros behind them."""
    paths = np.array([os.fsencode(source.path(image)) for image in images.tolist()])
    return paths.view(np.uint8).reshape(len(images), -1)
