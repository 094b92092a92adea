"""Batches made ahead of the trainer on threads: one task a micro-batch, split over the threads, in fixed buffers."""

import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from dawnrun.dataset.decode import BadImage
from dawnrun.train.input import Batch
from dawnrun.train.input.buffers import Slot, copy_stream

PREFETCH = 2
"""Micro-batches made ahead of the one in use; one buffer more lets a copy to the device end meanwhile."""
_CHUNKS_PER_THREAD = 4
"""Parts of a micro-batch a thread gets, so that one large image holds up a small part only."""


class Rows(Protocol):
    """A micro-batch that can be written row by row, by several threads at once."""

    @property
    def num_images(self) -> int:
        """Rows."""
        ...

    @property
    def shape(self) -> tuple[int, int]:
        """Width and height in pixels."""
        ...

    def write(self, row: int, pixels: NDArray[np.uint8], labels: NDArray[np.int64]) -> BadImage | None:
        """Fill pixels [height, width, 3] and labels[row]; an image that could not be read is returned."""
        ...


class Capacity(NamedTuple):
    """The largest micro-batch: images * width * height, and images."""

    num_pixels: int
    num_images: int


@dataclass(kw_only=True, slots=True)
class _Job:
    """A micro-batch in the making; `done` resolves when no thread touches its slot any more."""

    slot: Slot
    rows: Rows | None = None
    bad: dict[int, BadImage] = field(default_factory=dict)
    failure: BaseException | None = None
    stopped: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    chunks_left: int = 0
    done: "Future[Rows]" = field(default_factory=Future)


class ReadAhead:
    """A ring of buffers and one stream of batches through it at a time; a new stream ends the one before."""

    def __init__(self, pool: ThreadPoolExecutor, *, capacity: Capacity, num_threads: int, device: torch.device) -> None:
        """Allocate every buffer; `num_threads` is the pool's."""
        self._pool, self._num_chunks = pool, num_threads * _CHUNKS_PER_THREAD
        stream = copy_stream(device)
        self._slots = [
            Slot(
                num_bytes=3 * capacity.num_pixels,
                num_images=capacity.num_images,
                device=device,
                stream=stream,
                pinned=stream is not None,
            )
            for _ in range(PREFETCH + 2)
        ]
        self._running: Generator[Batch, None, None] | None = None

    def batches(self, works: Iterator[Callable[[], Rows]], note: Callable[[BadImage], None]) -> Iterator[Batch]:
        """One Batch per work, in order. `note` is told of bad images, row by row, before their batch is handed over.

        What a work or `note` raises is raised here at the batch it belongs to.
        """
        self.stop()
        self._running = self._run(works, note)
        return self._running

    def stop(self) -> None:
        """End the running stream: afterwards no thread works for it."""
        if self._running is not None:
            self._running.close()
            self._running = None

    def _run(
        self, works: Iterator[Callable[[], Rows]], note: Callable[[BadImage], None]
    ) -> Generator[Batch, None, None]:
        free, ahead = deque(self._slots), deque[_Job]()
        in_use: Slot | None = None
        try:
            while True:
                for work in islice(works, PREFETCH + 1 - len(ahead)):
                    ahead.append(self._start(work, free.popleft()))
                if not ahead:
                    return
                asked_s = time.perf_counter()
                rows = ahead[0].done.result()
                wait_s = time.perf_counter() - asked_s
                job = ahead.popleft()
                in_use = job.slot
                for _, bad in sorted(job.bad.items()):
                    note(bad)
                images, labels = in_use.tensors(rows.num_images, *rows.shape)
                yield Batch(images=images, labels=labels, num_images=rows.num_images, wait_s=wait_s)
                in_use.release()
                free.append(in_use)
                in_use = None
        finally:
            if in_use is not None:
                in_use.release()
            for job in ahead:
                job.stopped.set()
            wait([job.done for job in ahead])

    def _start(self, work: Callable[[], Rows], slot: Slot) -> _Job:
        job = _Job(slot=slot)
        self._pool.submit(self._prepare, job, work)
        return job

    def _prepare(self, job: _Job, work: Callable[[], Rows]) -> None:
        """Find out what the rows are and split them over the threads."""
        try:
            job.rows = rows = work()
            pixels, labels = job.slot.open(rows.num_images, *rows.shape)
            edges = np.linspace(0, rows.num_images, min(self._num_chunks, rows.num_images) + 1).astype(int).tolist()
            job.chunks_left = len(edges) - 1
            for first, stop in pairwise(edges):
                self._pool.submit(self._write, job, rows, pixels, labels, range(first, stop))
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            job.done.set_exception(error)

    def _write(self, job: _Job, rows: Rows, pixels: NDArray[np.uint8], labels: NDArray[np.int64], part: range) -> None:
        """Fill a part of the rows; the thread that ends last hands the batch on."""
        try:
            for row in part:
                if job.stopped.is_set():
                    break
                bad = rows.write(row, pixels[row], labels)
                if bad is not None:
                    job.bad[row] = bad
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            job.failure = error
            job.stopped.set()
        with job.lock:
            job.chunks_left -= 1
            is_last = job.chunks_left == 0
        if is_last:
            self._finish(job, rows)

    def _finish(self, job: _Job, rows: Rows) -> None:
        try:
            if job.failure is not None:
                raise job.failure
            if not job.stopped.is_set():
                job.slot.upload(rows.num_images, *rows.shape)
            job.done.set_result(rows)
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            job.done.set_exception(error)
