"""Memory for batches, allocated once and used in turn: a pixel buffer on the host and, with an accelerator, one there."""

import numpy as np
import torch
from numpy.typing import NDArray


def copy_stream(device: torch.device) -> torch.Stream | None:
    """A stream for copies to `device` beside its other work; None where there is nothing to gain or no such thing."""
    if device.type in ("cpu", "mps"):  # these share the host's memory
        return None
    try:
        return torch.Stream(device=device)
    except (RuntimeError, NotImplementedError, TypeError):
        return None


class Slot:
    """Room for one micro-batch. Its life: `open` - rows are written - `upload` - `tensors` - used - `release` - `open`.

    `open` and `upload` run on decode threads, `tensors` and `release` on the trainer's. With a copy stream two
    events keep the order: `_uploaded` (the copy read the host buffer to its end) and `_used` (the trainer's
    kernels queued before the next batch was asked for have read the device buffer).
    """

    def __init__(
        self, *, num_bytes: int, num_images: int, device: torch.device, stream: torch.Stream | None, pinned: bool
    ) -> None:
        """Allocate `num_bytes` of pixels and `num_images` labels; `pinned` host memory is copied beside other work."""
        self._pixels = torch.empty(num_bytes, dtype=torch.uint8, pin_memory=pinned)
        self._labels = torch.empty(num_images, dtype=torch.int64, pin_memory=pinned)
        self._on_host = device.type == "cpu"
        self._device_pixels = self._pixels if self._on_host else torch.empty_like(self._pixels, device=device)
        self._device_labels = self._labels if self._on_host else torch.empty_like(self._labels, device=device)
        self._device, self._stream = device, stream
        self._uploaded: torch.Event | None = None
        self._used: torch.Event | None = None

    def open(self, num_images: int, width: int, height: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Host arrays to write: pixels uint8 [n, height, width, 3] and labels int64 [n]."""
        if self._uploaded is not None:
            self._uploaded.synchronize()  # the copy of the batch before may still read the host buffer
        pixels: NDArray[np.uint8] = self._pixels[: num_images * height * width * 3].numpy()
        labels: NDArray[np.int64] = self._labels[:num_images].numpy()
        return pixels.reshape(num_images, height, width, 3), labels

    def upload(self, num_images: int, width: int, height: int) -> None:
        """Start the copy to the device; every row has been written."""
        if self._on_host:
            return
        num_bytes = num_images * height * width * 3
        if self._stream is None:
            self._copy(num_bytes, num_images, non_blocking=False)
            return
        if self._used is not None:
            self._stream.wait_event(self._used)
        with self._stream:
            self._copy(num_bytes, num_images, non_blocking=True)
        self._uploaded = self._record(self._stream)

    def take(self, pixels: torch.Tensor, num_images: int) -> None:
        """In place of `upload` where pixels, uint8 [n, height, width, 3], are on the device; returns when they were read."""
        if self._stream is None:
            self._device_pixels[: pixels.numel()].copy_(pixels.reshape(-1))
            self._device_labels[:num_images].copy_(self._labels[:num_images])
            return
        if self._used is not None:
            self._stream.wait_event(self._used)
        with self._stream:
            self._device_pixels[: pixels.numel()].copy_(pixels.reshape(-1), non_blocking=True)
            self._device_labels[:num_images].copy_(self._labels[:num_images], non_blocking=True)
        self._uploaded = self._record(self._stream)
        self._uploaded.synchronize()

    def tensors(self, num_images: int, width: int, height: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Images uint8 [n, 3, height, width] in channels-last memory and labels int64 [n], on the device, uncopied."""
        if self._uploaded is not None:
            torch.accelerator.current_stream(self._device).wait_event(self._uploaded)
        flat = self._device_pixels[: num_images * height * width * 3]
        return flat.view(num_images, height, width, 3).permute(0, 3, 1, 2), self._device_labels[:num_images]

    def release(self) -> None:
        """Say that no more work will be queued on these tensors."""
        if self._stream is not None:
            self._used = self._record(torch.accelerator.current_stream(self._device))

    def _copy(self, num_bytes: int, num_images: int, *, non_blocking: bool) -> None:
        self._device_pixels[:num_bytes].copy_(self._pixels[:num_bytes], non_blocking=non_blocking)
        self._device_labels[:num_images].copy_(self._labels[:num_images], non_blocking=non_blocking)

    def _record(self, stream: torch.Stream) -> torch.Event:
        """An event at the end of what `stream` has been given; a thread that waits for it sleeps."""
        event = torch.Event(device=self._device, blocking=True)
        event.record(stream)
        return event
