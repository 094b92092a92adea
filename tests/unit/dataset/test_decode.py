"""Pixels of one image: colour spaces, orientation, scaled decoding, and the reasons of what cannot be read."""

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from dawnrun.dataset.decode import UnreadableImageError, check_image, decode_window, printable, read_file, read_size


def decoded(path: Path, *, side: int = 8, mirrored: bool = False) -> NDArray[np.uint8]:
    """The whole image at side x side."""
    size = read_size(path)
    out = np.zeros((side, side, 3), np.uint8)
    decode_window(path.read_bytes(), size=size, box=(0, 0, *map(float, size)), mirrored=mirrored, out=out)
    return out


def saved(image: Image.Image, path: Path, kind: str, **options: object) -> Path:
    image.save(path, kind, **options)
    return path


def test_cmyk_decodes_to_the_right_colour(tmp_path: Path) -> None:
    """C13: ink (0, 255, 255, 0) is red within 10."""
    path = saved(Image.new("CMYK", (16, 16), (0, 255, 255, 0)), tmp_path / "x.jpg", "JPEG", quality=95)
    assert np.abs(decoded(path).astype(int) - (255, 0, 0)).max() <= 10


def test_grey_has_three_equal_channels(tmp_path: Path) -> None:
    """C13."""
    picture = Image.fromarray(np.arange(256, dtype=np.uint8).reshape(16, 16))
    pixels = decoded(saved(picture, tmp_path / "x.jpg", "JPEG"), side=16)
    assert (pixels[..., 0] == pixels[..., 1]).all() and (pixels[..., 0] == pixels[..., 2]).all()
    assert np.ptp(pixels) > 200


def test_png_named_jpeg(tmp_path: Path) -> None:
    """C13: the content decides."""
    path = saved(Image.new("RGB", (9, 9), (1, 2, 3)), tmp_path / "x.JPEG", "PNG")
    assert (decoded(path) == (1, 2, 3)).all()


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "1", "I;16", "PA"])
def test_other_modes_have_three_channels(tmp_path: Path, mode: str) -> None:
    """C13: transparent, palette, bilevel and 16-bit images; white stays white, alpha is dropped."""
    if mode == "I;16":
        picture = Image.fromarray(np.full((9, 9), 65535, np.uint16))
    elif mode in ("P", "PA"):
        picture = Image.new("RGBA", (9, 9), (255, 255, 255, 0)).convert("P")
    elif mode == "1":
        picture = Image.new("1", (9, 9), 1)
    else:
        picture = Image.new("RGBA", (9, 9), (255, 255, 255, 0)).convert(mode)
    options = {"transparency": bytes(256)} if mode == "PA" else {}
    path = saved(picture, tmp_path / "x.png", "PNG", **options)
    assert (decoded(path) == 255).all()


def test_sixteen_bits_are_scaled_not_clipped(tmp_path: Path) -> None:
    path = saved(Image.fromarray(np.full((9, 9), 128 << 8, np.uint16)), tmp_path / "x.png", "PNG")
    assert (decoded(path) == 128).all()


def test_orientation_tags_are_ignored(tmp_path: Path) -> None:
    """C14: a 24 x 16 JPEG with orientation 6 stays a landscape, in the index and in the pixels."""
    picture = Image.new("RGB", (24, 16))
    picture.paste((255, 255, 255), (0, 0, 12, 16))
    exif = Image.Exif()
    exif[0x0112] = 6
    path = saved(picture, tmp_path / "x.jpg", "JPEG", exif=exif, quality=95)
    pixels = decoded(path, side=16)
    assert read_size(path) == (24, 16) and pixels[:, :6].min() > 240 and pixels[:, 10:].max() < 15


def test_mirrored(tmp_path: Path) -> None:
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (20, 20, 3), np.uint8))
    path = saved(picture, tmp_path / "x.png", "PNG")
    assert (decoded(path, mirrored=True) == decoded(path)[:, ::-1]).all()


def test_the_window_is_the_part_of_the_image(tmp_path: Path) -> None:
    values = np.random.default_rng(1).integers(0, 256, (40, 30, 3), np.uint8)
    path = saved(Image.fromarray(values), tmp_path / "x.png", "PNG")
    out = np.zeros((10, 12, 3), np.uint8)
    decode_window(path.read_bytes(), size=(30, 40), box=(5.0, 20.0, 17.0, 30.0), mirrored=False, out=out)
    assert (out == values[20:30, 5:17]).all()


@pytest.mark.parametrize("size", [(500, 375), (375, 501), (333, 333), (97, 1031)])
@pytest.mark.parametrize("side", [16, 30, 64])
def test_scaled_decoding_sees_the_same_window(tmp_path: Path, size: tuple[int, int], side: int) -> None:
    """A smooth slope decoded at 1/2 to 1/8 is the full decode's within 3 levels: the box is never rounded.

    The slope is 2 levels a source pixel, so a box that is off by 8 source pixels would be off by 16 levels.
    """
    width, height = size
    across, down = np.meshgrid(np.arange(width), np.arange(height))
    wave = [np.abs((2 * way + shift) % 510 - 255) for way, shift in ((across, 0), (down, 100), (across + down, 50))]
    path = saved(Image.fromarray(np.stack(wave, axis=2).astype(np.uint8)), tmp_path / "x.jpg", "JPEG", quality=100)
    box = (3.3, 1.7, width - 2.9, height - 11.1)
    out = np.zeros((side, side, 3), np.uint8)
    decode_window(path.read_bytes(), size=size, box=box, mirrored=False, out=out)
    with Image.open(path) as image:
        full = np.asarray(image.resize((side, side), Image.Resampling.BILINEAR, box=box))
    assert np.abs(out.astype(int) - full).mean() < 3


def test_decoding_is_scaled_only_where_no_detail_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """1/s needs s source pixels for each pixel written, both ways."""
    from PIL import JpegImagePlugin

    path = saved(Image.new("RGB", (160, 160)), tmp_path / "x.jpg", "JPEG")
    sizes: list[tuple[int, int]] = []
    real = JpegImagePlugin.JpegImageFile.draft

    def spy(self: Image.Image, mode: str, size: tuple[int, int]) -> object:
        answer = real(self, mode, size)
        sizes.append(self.size)
        return answer

    monkeypatch.setattr(JpegImagePlugin.JpegImageFile, "draft", spy)
    for box_side, expected in ((160.0, (20, 20)), (159.0, (40, 40)), (40.0, (80, 80)), (39.9, None)):
        sizes.clear()
        out = np.zeros((20, 20, 3), np.uint8)
        decode_window(path.read_bytes(), size=(160, 160), box=(0, 0, box_side, 160.0), mirrored=False, out=out)
        assert sizes == ([expected] if expected else [])


def png_that_claims(width: int, height: int, *, data: bytes = zlib.compress(b"")) -> bytes:
    """A PNG whose header announces a size that too few data follow."""
    chunks = (b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0), b"IDAT" + data, b"IEND")
    framed = (struct.pack(">I", len(c) - 4) + c + struct.pack(">I", zlib.crc32(c)) for c in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(framed)


def jpeg_bytes() -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)).save(file, "JPEG")
    return file.getvalue()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty file"),
        (b"hello, I am text\n", "not an image of a known format"),
        (png_that_claims(20_000, 20_000), "too large"),
        (jpeg_bytes()[:1500], "truncated"),
        (png_that_claims(20, 20), "truncated|broken|cannot"),
        (png_that_claims(20, 20)[:33], "PNG with a damaged header"),
        (jpeg_bytes()[:20], "JPEG with a damaged header|Truncated"),
    ],
    ids=["empty", "text", "bomb", "cut JPEG", "no data", "cut PNG header", "cut JPEG header"],
)
def test_reasons_of_unreadable_files(tmp_path: Path, data: bytes, reason: str) -> None:
    """C12: zero bytes, text, a header that claims 20,000 x 20,000 pixels, a file cut in the middle."""
    path = tmp_path / "x.JPEG"
    path.write_bytes(data)
    with pytest.raises(UnreadableImageError, match=reason):
        check_image(data)
    out = np.zeros((8, 8, 3), np.uint8)
    size = (64, 64) if data[:2] == b"\xff\xd8" else (20, 20)
    with pytest.raises(UnreadableImageError, match=reason):
        decode_window(path.read_bytes(), size=size, box=(0, 0, *map(float, size)), mirrored=False, out=out)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UnreadableImageError, match="No such file"):
        read_size(tmp_path / "gone.jpg")
    with pytest.raises(UnreadableImageError, match="No such file"):
        read_file(str(tmp_path / "gone.jpg"))


def test_a_file_that_changed_since_the_index(tmp_path: Path) -> None:
    path = saved(Image.new("RGB", (9, 7)), tmp_path / "x.png", "PNG")
    with pytest.raises(UnreadableImageError, match="is 9 x 7 pixels, was 20 x 20"):
        decode_window(
            path.read_bytes(), size=(20, 20), box=(0, 0, 20, 20), mirrored=False, out=np.zeros((4, 4, 3), np.uint8)
        )


def test_memory_that_ran_out_is_not_the_files_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    path = saved(Image.new("RGB", (9, 7)), tmp_path / "x.png", "PNG")
    monkeypatch.setattr(Image, "open", fail)
    with pytest.raises(MemoryError):
        read_size(path)


def test_printable() -> None:
    assert printable("a/\udcff\u00e9.jpg") == "a/\\xff\u00e9.jpg"
