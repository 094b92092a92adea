"""Images decoded by Pillow on threads of this process; the same batches for any number of threads."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dawnrun.train.input.ahead import Job
from dawnrun.train.input.selection import Rows

_CHUNKS_PER_THREAD = 4
"""Parts of a micro-batch a thread gets, so that one large image holds up a small part only."""


@dataclass(kw_only=True, slots=True)
class _Parts:
    """How many parts of a job are still being written, and what went wrong in one of them."""

    left: int
    failure: BaseException | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


class PillowDecoder:
    """One task a micro-batch, split over the threads."""

    def __init__(self, num_threads: int) -> None:
        """Start `num_threads` threads."""
        self._pool = ThreadPoolExecutor(num_threads, thread_name_prefix="decode")
        self._num_chunks = num_threads * _CHUNKS_PER_THREAD

    def start(self, job: Job) -> None:
        """Begin a micro-batch."""
        self._pool.submit(self._prepare, job)

    def close(self) -> None:
        """End the threads; may be called twice."""
        self._pool.shutdown(cancel_futures=True)

    def _prepare(self, job: Job) -> None:
        """Find out what the rows are and split them over the threads."""
        try:
            rows = job.work()
            pixels, labels = job.slot.open(rows.num_images, *rows.shape)
            edges = np.linspace(0, rows.num_images, min(self._num_chunks, rows.num_images) + 1).astype(int).tolist()
            parts = _Parts(left=len(edges) - 1)
            for first, stop in pairwise(edges):
                self._pool.submit(self._write, job, rows, pixels, labels, range(first, stop), parts)
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            job.done.set_exception(error)

    def _write(
        self,
        job: Job,
        rows: Rows,
        pixels: NDArray[np.uint8],
        labels: NDArray[np.int64],
        part: range,
        parts: _Parts,
    ) -> None:
        """Fill a part of the rows; the thread that ends last hands the batch on."""
        try:
            for row in part:
                if job.stopped.is_set():
                    break
                bad = rows.write(row, pixels[row], labels)
                if bad is not None:
                    job.bad[row] = bad
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            parts.failure = error
            job.stopped.set()
        with parts.lock:
            parts.left -= 1
            is_last = parts.left == 0
        if is_last:
            self._finish(job, rows, parts.failure)

    def _finish(self, job: Job, rows: Rows, failure: BaseException | None) -> None:
        try:
            if failure is not None:
                raise failure
            if not job.stopped.is_set():
                job.slot.upload(rows.num_images, *rows.shape)
            job.done.set_result(rows)
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            job.done.set_exception(error)
