"""Smaller copies: sizes, modes, tags; stopped and continued; what is refused."""

import io
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dawnrun.cli.data import data
from dawnrun.dataset import resize as module
from dawnrun.dataset.decode import decode_window, read_size
from dawnrun.dataset.index import build_index
from dawnrun.dataset.resize import Settings, resize_image, resized_size
from dawnrun.errors import DataError

SMALL = Settings(short_side=16)


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)  # type: ignore[arg-type]
    return file.getvalue()


def smaller(image: Image.Image, kind: str = "JPEG", name: str = "x.jpg", **options: object) -> Image.Image:
    copy = Image.open(io.BytesIO(resize_image(encoded(image, kind, **options), name, SMALL)))
    copy.load()
    return copy


def slope(width: int, height: int) -> Image.Image:
    """Darker to the left."""
    return Image.fromarray(np.tile(np.linspace(0, 255, width).astype(np.uint8), (height, 1))).convert("RGB")


@given(st.integers(1, 5000), st.integers(1, 5000), st.integers(8, 600))
def test_sizes(width: int, height: int, short_side: int) -> None:
    w, h = resized_size(width, height, short_side)
    if min(width, height) <= short_side:
        assert (w, h) == (width, height)
    else:
        assert min(w, h) == short_side
        assert abs(max(w, h) - max(width, height) * short_side / min(width, height)) <= 0.5


def test_the_copy_is_the_picture_made_smaller() -> None:
    copy = smaller(slope(128, 64))
    assert copy.size == (32, 16) and copy.format == "JPEG" and copy.mode == "RGB"
    wanted = np.linspace(0, 255, 32)
    assert np.abs(np.asarray(copy)[..., 0].mean(axis=0) - wanted).max() < 8


def test_smaller_images_keep_their_size() -> None:
    assert smaller(slope(12, 40)).size == (12, 40)


def test_quality_and_filter_change_the_bytes() -> None:
    data = encoded(Image.effect_noise((64, 64), 80), "PNG")
    copies = {
        resize_image(data, "x.jpg", Settings(short_side=16, quality=quality, filter=name))
        for quality, name in ((90, "lanczos"), (50, "lanczos"), (90, "box"))
    }
    assert len(copies) == 3


def test_the_content_decides_about_the_mode_and_the_name_about_the_format() -> None:
    """C13: CMYK keeps its colour, PNG bytes named .JPEG are written as JPEG, grey stays grey."""
    red = smaller(Image.new("CMYK", (40, 40), (0, 255, 255, 0)), quality=95)
    assert red.mode == "RGB" and np.abs(np.asarray(red).astype(int) - (255, 0, 0)).max() <= 10
    assert smaller(slope(40, 40), "PNG", "x.JPEG").format == "JPEG"
    assert smaller(slope(40, 40), "PNG", "x.PNG").format == "PNG"
    assert smaller(Image.new("L", (40, 40))).mode == "L"
    assert smaller(Image.new("RGBA", (40, 40)), "PNG").mode == "RGB"
    assert smaller(Image.fromarray(np.full((40, 40), 65535, np.uint16)), "PNG").getpixel((0, 0)) == (255, 255, 255)


@pytest.mark.parametrize(("kind", "name"), [("JPEG", "x.jpg"), ("PNG", "x.png")])
def test_orientation_tags_are_dropped_and_not_applied(kind: str, name: str) -> None:
    """C14: 24 x 16 with orientation 6 stays landscape."""
    exif = Image.Exif()
    exif[0x0112] = 6
    copy = smaller(slope(24, 16), kind, name, exif=exif, icc_profile=b"profile", comment="words")
    assert copy.size == (24, 16) and not copy.getexif() and not {"exif", "icc_profile", "comment"} & set(copy.info)


class Made:
    """A data set, and the command on it."""

    def __init__(self, folder: Path) -> None:
        self.source, self.out = folder / "set", folder / "small"
        for split in ("train", "val"):
            for name in ("a", "b/deeper"):
                path = self.source / split / name
                path.mkdir(parents=True)
                for number in range(3):
                    slope(60 + number, 40).save(path / f"{number}.jpg")

    def run(self, *more: str, short_side: int = 16) -> Result:
        arguments = ["resize", str(self.source), str(self.out), "--processes", "1", "--short-side", str(short_side)]
        return CliRunner().invoke(data, [*arguments, *more])

    def files(self) -> dict[str, bytes]:
        found = {str(path.relative_to(self.out)): path.read_bytes() for path in self.out.rglob("*") if path.is_file()}
        found.pop("data-set.json")
        return found


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


def test_a_set_is_copied_and_kept(made: Made, tmp_path: Path) -> None:
    result = made.run()
    assert result.exit_code == 0, result.output
    how = "(short side 16 px, JPEG quality 90, lanczos filter)"
    assert result.stdout == f"wrote 12 images {how}: {made.out}\n"
    index, original = (build_index(root, "train", cache_dir=tmp_path / "cache") for root in (made.out, made.source))
    assert index.names == original.names and index.classes == original.classes
    assert set(index.heights.tolist()) == {16} and index.widths.tolist() == [24, 24, 25, 24, 24, 25]
    before = made.files()
    assert made.run().stdout == f"kept, complete: 12 images {how}: {made.out}\n"
    assert made.files() == before


def test_other_settings_are_another_set(made: Made) -> None:
    made.run()
    result = made.run(short_side=24)
    assert isinstance(result.exception, DataError) and "nothing was changed" in str(result.exception)
    assert build_index(made.out, "val", cache_dir=made.out / "cache").heights.tolist() == [16] * 6


def test_stopped_and_continued(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is made twice, nothing is taken for a set before its end, and the result is that of one go."""
    made.run()
    undisturbed = made.files()
    shutil.rmtree(made.out)
    resized: list[str] = []

    def stopping(data: bytes, name: str, settings: Settings) -> bytes:
        resized.append(name)
        if len(resized) == 8:
            raise KeyboardInterrupt
        return resize_image(data, name, settings)

    monkeypatch.setattr(module, "resize_image", stopping)
    assert made.run().exit_code != 0
    with pytest.raises(DataError, match="unfinished"):
        build_index(made.out, "train", cache_dir=made.out / "cache")
    assert made.run("--quality", "80").exit_code != 0  # other settings do not go on with it
    assert made.run().exit_code == 0
    assert len(resized) == 12 + 1 and made.files() == undisturbed


def test_unreadable_images_are_all_named(made: Made) -> None:
    (made.source / "train/a/1.jpg").write_bytes(b"")
    path = made.source / "val/a/2.jpg"
    path.write_bytes(path.read_bytes()[:-20])
    result = made.run()
    text = str(result.exception)
    assert isinstance(result.exception, DataError) and "2 unreadable images; the copy is unfinished" in text
    assert f"{made.source}/train/a/1.jpg: empty file (0 bytes)" in text and f"{path}: image file is truncated" in text
    shutil.copy(made.source / "val/a/0.jpg", path)
    shutil.copy(made.source / "val/a/0.jpg", made.source / "train/a/1.jpg")
    assert made.run().exit_code == 0


def test_a_source_that_changed_is_another_set(made: Made) -> None:
    made.run()
    slope(90, 50).save(made.source / "train/a/1.jpg")
    result = made.run()
    assert isinstance(result.exception, DataError) and "nothing was changed" in str(result.exception)


def test_a_full_disk(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: bytes, *, durable: bool = False) -> None:
        raise OSError(28, "No space left on device", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_aside", full)
        result = made.run()
    assert isinstance(result.exception, DataError) and "the same command goes on with it" in str(result.exception)
    assert made.run().exit_code == 0


def test_windows_of_a_copy_show_the_same_picture(made: Made) -> None:
    made.run()
    seen = []
    for root in (made.source, made.out):
        path = root / "train/a/0.jpg"
        width, height = read_size(path)
        out = np.zeros((8, 8, 3), np.uint8)
        box = (0.25 * width, 0.25 * height, 0.75 * width, 0.75 * height)
        decode_window(path.read_bytes(), size=(width, height), box=box, mirrored=True, out=out)
        seen.append(out.astype(int))
    assert np.abs(seen[0] - seen[1]).max() < 10


def test_a_copy_among_the_class_folders_is_refused(made: Made) -> None:
    """Its images would be taken for more of that class."""
    out = made.source / "train" / "small"
    result = CliRunner().invoke(data, ["resize", "--short-side", "16", str(made.source), str(out)])
    assert isinstance(result.exception, DataError)
    assert "whose folders are classes: nothing was changed" in str(result.exception)
    assert not out.exists()
