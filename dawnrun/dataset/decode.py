"""Encoded image files to pixels with Pillow: by content, always three channels, orientation tags ignored."""

import io
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from dawnrun.text import escaped

FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP")
"""Formats that are decoded whatever the file's name says; text-like formats are kept out on purpose."""
_RESIZED_AS_STORED = ("RGB", "L", "CMYK")
"""Modes that are resized first and converted after, which touches fewer pixels."""

Box = tuple[float, float, float, float]


class UnreadableImageError(Exception):
    """An image that cannot be decoded; the text is the reason, without the path."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BadImage:
    """An unreadable image met in training or found by a check; `replaced_by` is the path of the image used instead."""

    path: str
    class_name: str
    reason: str
    split: str
    replaced_by: str | None = None

    def __str__(self) -> str:
        """`path (class a): reason`."""
        return f"{self.path} (class {self.class_name}): {self.reason}"


def printable(path: str | os.PathLike[str]) -> str:
    """A path as text that can be printed and stored: control characters and bytes that are no UTF-8 as escapes."""
    return escaped(os.fsdecode(path))


def read_file(path: str) -> bytes:
    """The bytes of an image's file. Raises UnreadableImageError."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a Path for each image costs as much as the read
            return file.read()
    except OSError as error:
        raise UnreadableImageError(error.strerror or str(error)) from error


def read_size(source: Path | str | bytes) -> tuple[int, int]:
    """Width and height in pixels as stored, from the header of a file or of its bytes. Raises UnreadableImageError."""
    try:
        with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source, formats=FORMATS) as image:
            return image.size
    except Exception as error:
        raise UnreadableImageError(reason_of(error, source)) from error


def check_image(data: bytes) -> None:
    """Decode every byte of an encoded image at full size. Raises UnreadableImageError."""
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            image.load()
    except Exception as error:
        raise UnreadableImageError(reason_of(error, data)) from error


def decode_window(
    data: bytes, *, size: tuple[int, int], box: Box, mirrored: bool, out: NDArray[np.uint8], scaled: bool = True
) -> None:
    """Write the pixels of `box` (left, top, right, bottom in source pixels) to `out`, uint8 [height, width, 3].

    If `scaled`, JPEGs are decoded at 1/2, 1/4 or 1/8 where that still has a pixel for each one written; the box is
    scaled with it and never rounded. `size` is what the index says; a file with another one has changed since and is an error.
    Raises UnreadableImageError.
    """
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            if image.size != size:
                raise UnreadableImageError(f"is {image.size[0]} x {image.size[1]} pixels, was {size[0]} x {size[1]}")
            pixels = np.asarray(_window(image, box, (out.shape[1], out.shape[0]), scaled))
    except UnreadableImageError:
        raise
    except Exception as error:
        raise UnreadableImageError(reason_of(error, data)) from error
    out[:] = pixels[:, ::-1] if mirrored else pixels


def _window(image: Image.Image, box: Box, out_size: tuple[int, int], scaled: bool) -> Image.Image:
    """The window in RGB at `out_size` (width, height), bilinear with antialiasing."""
    zoom = min((box[2] - box[0]) / out_size[0], (box[3] - box[1]) / out_size[1])
    scale = next(scale for scale in (8, 4, 2, 1) if scale <= zoom or scale == 1)
    if scaled and scale > 1 and image.format == "JPEG":
        width, height = image.size
        if image.draft("", (width // scale, height // scale)):
            # A draft of 1/s keeps source pixel x at x / s exactly; its own size is rounded up.
            box = (box[0] / scale, box[1] / scale, box[2] / scale, box[3] / scale)
    if image.mode not in _RESIZED_AS_STORED:
        image = to_rgb(image)
    small = image.resize(out_size, Image.Resampling.BILINEAR, box=box)
    return small if small.mode == "RGB" else small.convert("RGB")


def to_rgb(image: Image.Image) -> Image.Image:
    """Any other mode to RGB: transparency is dropped, 16 bits a channel become 8."""
    if image.mode.startswith("I"):
        deep = np.asarray(image).astype(np.int64)
        return Image.fromarray(np.clip(deep >> 8, 0, 255).astype(np.uint8)).convert("RGB")
    image.load()
    image.info.pop("transparency", None)  # Pillow warns where it cannot keep it
    return image.convert("RGB")


def reason_of(error: Exception, data: bytes | str | Path) -> str:
    """Why Pillow or the system refused a file, without the path; memory that ran out is not the file's fault."""
    if isinstance(error, MemoryError):
        raise error
    if isinstance(error, UnidentifiedImageError):
        return _unidentified(data if isinstance(data, bytes) else Path(data).read_bytes()[:8])
    if isinstance(error, Image.DecompressionBombError):
        return "too large: over Pillow's limit against decompression bombs"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"{error}" or type(error).__name__


def _unidentified(head: bytes) -> str:
    """Why a file that begins with `head` was not recognised."""
    if not head:
        return "empty file (0 bytes)"
    for magic, kind in ((b"\xff\xd8", "JPEG"), (b"\x89PNG", "PNG")):
        if head.startswith(magic):
            return f"{kind} with a damaged header"
    return f"not an image of a known format ({', '.join(FORMATS)})"
