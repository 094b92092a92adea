"""Batches made ahead of the trainer by a decoder, in fixed buffers used in turn."""

import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

import torch

from dawnrun.dataset.decode import BadImage
from dawnrun.dataset.memory import NUM_BUFFERS, PREFETCH, Capacity
from dawnrun.train.input import Batch
from dawnrun.train.input.buffers import Slot, copy_stream
from dawnrun.train.input.selection import Rows, Work


@dataclass(kw_only=True, slots=True)
class Job:
    """A micro-batch in the making: `work` says what, `slot` takes it, `bad` the unreadable images by row.

    `stopped`: nobody waits for it any more. `done` resolves when no thread touches the slot any more.
    """

    work: Work
    slot: Slot
    bad: dict[int, BadImage] = field(default_factory=dict)
    stopped: threading.Event = field(default_factory=threading.Event)
    done: "Future[Rows]" = field(default_factory=Future)


class Decoder(Protocol):
    """Makes micro-batches, in threads of its own."""

    def start(self, job: Job) -> None:
        """Begin; fills and uploads the slot, then resolves `job.done`, with an exception if that failed."""
        ...

    def close(self) -> None:
        """End the threads; may be called twice."""
        ...


class ReadAhead:
    """A ring of buffers and one stream of batches through it at a time; a new stream ends the one before."""

    def __init__(self, decoder: Decoder, *, capacity: Capacity, device: torch.device) -> None:
        """Allocate every buffer."""
        self._decoder = decoder
        stream = copy_stream(device)
        self._slots = [
            Slot(
                num_bytes=3 * capacity.num_pixels,
                num_images=capacity.num_images,
                device=device,
                stream=stream,
                pinned=stream is not None,
            )
            for _ in range(NUM_BUFFERS)
        ]
        self._running: Generator[Batch, None, None] | None = None

    def batches(self, works: Iterator[Work], note: Callable[[BadImage], None]) -> Iterator[Batch]:
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

    def _run(self, works: Iterator[Work], note: Callable[[BadImage], None]) -> Generator[Batch, None, None]:
        free, ahead = deque(self._slots), deque[Job]()
        in_use: Slot | None = None
        try:
            while True:
                for work in islice(works, PREFETCH + 1 - len(ahead)):
                    ahead.append(Job(work=work, slot=free.popleft()))
                    self._decoder.start(ahead[-1])
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
