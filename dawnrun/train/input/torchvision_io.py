"""JPEGs decoded by torchvision, on an NVIDIA GPU by nvJPEG: where DALI is absent. Crop and resize follow on the device.

Whole images are decoded, a group at a time, then each window is taken out with two small matrices (see `taps`). Unlike
DALI's, this costs some lines of Python for an image. What is no plain three-colour JPEG, and every image of a group
that could not be decoded, goes to Pillow, which also finds out which one is at fault.
"""

import io
import queue
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from dawnrun.dataset.decode import UnreadableImageError
from dawnrun.train.input.ahead import Job
from dawnrun.train.input.buffers import copy_stream
from dawnrun.train.input.selection import Rows

GROUP = 32
"""Images decoded and resized together: 32 windows of 500 x 400 pixels are 77 MB in fp32."""
_END = b"\xff\xd9"
_TAIL_BYTES = 1024
"""A JPEG whose end mark is not in its last bytes may be cut, which the decoders here pass over in silence."""
Encoded = list[torch.Tensor | None]
"""For each row the file as uint8 [bytes]; None where Pillow has to look at it."""


def can_decode(device: torch.device) -> bool:
    """Whether the installed torchvision decodes JPEGs on `device`: tried, as it depends on how it was built."""
    file = io.BytesIO()
    Image.new("RGB", (16, 16), (200, 100, 50)).save(file, "JPEG")
    try:
        (pixels,) = _decode([torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)], device)
        return bool(pixels.shape == (3, 16, 16) and abs(int(pixels[0, 8, 8]) - 200) < 8)
    except (ImportError, RuntimeError, ValueError, AttributeError, NotImplementedError):
        return False


def taps(
    begin: torch.Tensor, length: torch.Tensor, *, num_in: torch.Tensor, most_in: int, num_out: int
) -> torch.Tensor:
    """Weights [n, num_out, most_in] fp32 that resample `length` pixels from `begin` on, both [n], to `num_out` pixels.

    Linear with antialiasing, as Pillow has it: a triangle around each output pixel's centre, as wide as a pixel of the
    output or of the input, whichever is larger, cut at the ends of the `num_in` [n] pixels that there are.
    """
    scale = (length / num_out)[:, None, None]
    centres = begin[:, None, None] + (torch.arange(num_out, device=begin.device)[:, None] + 0.5) * scale
    pixels = torch.arange(most_in, device=begin.device)
    weights = (1 - (pixels + 0.5 - centres).abs() / scale.clamp(min=1)).clamp(min=0)
    weights = weights * (pixels < num_in[:, None, None])
    return weights / weights.sum(dim=2, keepdim=True)


def seen_through(
    images: Sequence[torch.Tensor], boxes: NDArray[np.float64], mirrored: NDArray[np.bool_], shape: tuple[int, int]
) -> torch.Tensor:
    """Windows of images uint8 [3, height, width] as uint8 [n, height, width, 3], of `shape` (width, height).

    `boxes` float64 [n, 4]: left, top, right, bottom in pixels, never rounded; `mirrored` bool [n].
    """
    device = images[0].device
    sizes = np.array([[image.shape[2], image.shape[1]] for image in images])
    first, last = boxes[:, :2], boxes[:, 2:]
    reach = np.maximum(1, (last - first) / np.array(shape))
    low = np.clip(np.floor(first - reach), 0, sizes - 1).astype(np.int64)
    high = np.clip(np.ceil(last + reach), low + 1, sizes).astype(np.int64)
    used = high - low
    width, height = (int(side) for side in used.max(axis=0))
    source = torch.zeros((len(images), 3, height, width), dtype=torch.float32, device=device)
    for row, (image, (x, y), (right, bottom)) in enumerate(zip(images, low, high, strict=True)):
        source[row, :, : bottom - y, : right - x] = image[:, y:bottom, x:right]
    facts = torch.from_numpy(np.concatenate([first - low, last - first, used], axis=1)).to(device, torch.float32)
    begin, length, num_in = facts[:, :2], facts[:, 2:4], facts[:, 4:]
    across = taps(begin[:, 0], length[:, 0], num_in=num_in[:, 0], most_in=width, num_out=shape[0])
    down = taps(begin[:, 1], length[:, 1], num_in=num_in[:, 1], most_in=height, num_out=shape[1])
    turned = torch.from_numpy(mirrored).to(device)[:, None, None]
    across = torch.where(turned, across.flip(1), across)
    pixels = down[:, None] @ source @ across.transpose(1, 2)[:, None]
    return pixels.round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1)


class TorchvisionDecoder:
    """One thread that decodes, `num_threads` that read files and look at what Pillow has to do."""

    def __init__(self, *, num_threads: int, device: torch.device) -> None:
        """Start the threads."""
        self._device = device
        self._stream = copy_stream(device)
        self._pool = ThreadPoolExecutor(num_threads, thread_name_prefix="read")
        self._ahead = ThreadPoolExecutor(1, thread_name_prefix="prepare")
        self._jobs: queue.SimpleQueue[tuple[Job, Future[tuple[Rows, Encoded]]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="torchvision", daemon=True)
        self._thread.start()

    def start(self, job: Job) -> None:
        """Begin a micro-batch: its files are read while the one before is decoded."""
        self._jobs.put((job, self._ahead.submit(self._prepare, job)))

    def close(self) -> None:
        """End the threads; may be called twice."""
        if self._thread.is_alive():
            self._jobs.put(None)
            self._thread.join()
            self._ahead.shutdown()
            self._pool.shutdown()

    def _prepare(self, job: Job) -> tuple[Rows, Encoded]:
        rows = job.work()
        return rows, list(self._pool.map(lambda row: _read(rows, row), range(rows.num_images)))

    def _serve(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.set_device(self._device)  # a thread begins with the first one
        while (item := self._jobs.get()) is not None:
            job, prepared = item
            try:
                rows, encoded = prepared.result()
                if not job.stopped.is_set():
                    self._fill(job, rows, encoded)
                job.done.set_result(rows)
            except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
                job.done.set_exception(error)

    def _fill(self, job: Job, rows: Rows, encoded: Encoded) -> None:
        """Decode a micro-batch into its slot."""
        host, labels = job.slot.open(rows.num_images, *rows.shape)
        labels[:] = rows.source.labels[rows.images]
        on_host = torch.from_numpy(host)
        with self._stream or nullcontext():
            pixels = on_host if self._stream is None else torch.empty_like(on_host, device=self._device)
            left = [row for row, data in enumerate(encoded) if data is None]
            plain = [row for row, data in enumerate(encoded) if data is not None]
            for at in range(0, len(plain), GROUP):
                left += self._group(rows, encoded, plain[at : at + GROUP], pixels)
            found = self._pool.map(lambda row: rows.write(row, host[row], labels), left)
            job.bad.update((row, bad) for row, bad in zip(left, found, strict=True) if bad is not None)
            if self._stream is not None:
                for row in left:
                    pixels[row].copy_(on_host[row])
        if self._stream is None:
            job.slot.upload(rows.num_images, *rows.shape)
        else:
            self._stream.synchronize()  # of this thread's stream alone; the trainer's goes on
            job.slot.take(pixels, rows.num_images)

    def _group(self, rows: Rows, encoded: Encoded, group: list[int], pixels: torch.Tensor) -> list[int]:
        """Decode some rows into `pixels` uint8 [n, height, width, 3]; returns those that could not be decoded."""
        try:
            images = _decode([data for row in group if (data := encoded[row]) is not None], self._device)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:  # it does not say which image
            return group
        boxes = np.array([rows.windows.box(row) for row in group])
        pixels[torch.tensor(group, device=self._device)] = seen_through(
            images, boxes, rows.windows.mirrored[group], rows.shape
        )
        return []


def _read(rows: Rows, row: int) -> torch.Tensor | None:
    """The file of a row, if it is a whole JPEG of three colours and of the size that the index says."""
    image, source = int(rows.images[row]), rows.source
    try:
        data = source.read(image)
        with Image.open(io.BytesIO(data), formats=("JPEG",)) as header:
            is_plain = header.mode == "RGB" and header.info.get("adobe_transform", 1) == 1
            is_plain &= header.size == (int(source.widths[image]), int(source.heights[image]))
    except (UnreadableImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    if not is_plain or data.find(_END, -_TAIL_BYTES) < 0:
        return None
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def _decode(files: list[torch.Tensor], device: torch.device) -> list[torch.Tensor]:
    """Images uint8 [3, height, width] on `device`. Raises RuntimeError, ImportError where torchvision has no decoder any more."""
    from torchvision.io import ImageReadMode, decode_jpeg

    images: list[torch.Tensor] = decode_jpeg(files, mode=ImageReadMode.RGB, device=device)
    return images
