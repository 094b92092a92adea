"""The demo data set: its pictures, the same bytes for a seed, and that nothing of the user's is ever replaced."""

import hashlib
import io
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from dawnrun.dataset.demo import COLOURS, SHAPES, draw, write_demo
from dawnrun.dataset.writer import MANIFEST, write_data_set
from dawnrun.errors import DataError


def digest(folder: Path) -> str:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(str(p.relative_to(folder)).encode() + p.read_bytes() for p in files)).hexdigest()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "set"
    assert write_demo(folder, train_per_class=2, val_per_class=1)
    return folder


def test_class_folders_in_both_splits(demo: Path) -> None:
    classes = sorted(f"{colour}-{shape}" for colour in COLOURS for shape in SHAPES)
    assert len(classes) == 30
    for split, count in (("train", 2), ("val", 1)):
        assert sorted(path.name for path in (demo / split).iterdir()) == classes
        assert all(len(list(path.iterdir())) == count for path in (demo / split).iterdir())


def test_pictures_vary_in_size_and_one_colour_has_one_channel(demo: Path) -> None:
    sizes = set()
    for path in demo.rglob("*.jpg"):
        with Image.open(path) as image:
            assert image.format == "JPEG" and image.mode == ("L" if "grey-" in str(path) else "RGB")
            sizes.add(image.size)
    assert len(sizes) > 30 and all(80 <= side <= 128 for size in sizes for side in size)
    ratios = [width / height for width, height in sizes]
    assert 0.74 < min(ratios) < 0.8 and 1.25 < max(ratios) < 1.35


def test_the_same_bytes_for_a_seed(demo: Path, tmp_path: Path) -> None:
    write_demo(tmp_path / "same", train_per_class=2, val_per_class=1)
    write_demo(tmp_path / "other", seed=1, train_per_class=2, val_per_class=1)
    assert digest(tmp_path / "same") == digest(demo) != digest(tmp_path / "other")
    pictures = [path.read_bytes() for path in demo.rglob("*.jpg")]
    assert len(set(pictures)) == len(pictures)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("colour", COLOURS)
def test_the_shape_has_its_colour_on_a_lighter_ground(shape: str, colour: str) -> None:
    with Image.open(io.BytesIO(draw(random.Random(7), shape, colour))) as image:
        picture = image.convert("RGB")
    width, height = picture.size
    # The ring is hollow in its middle: look at its rim, 0.7 of the radius above.
    side = min(width, height)
    where = (width // 2, height // 2 - (round(0.28 * side) if shape == "ring" else 0))
    ink, ground = picture.getpixel(where), picture.getpixel((1, 1))
    assert isinstance(ink, tuple) and isinstance(ground, tuple)
    nearest = min(COLOURS, key=lambda name: sum((a - b) ** 2 for a, b in zip(COLOURS[name], ink, strict=True)))
    assert nearest == colour and min(ground) > 130 and max(ground) - min(ground) < 12


def test_a_complete_set_is_kept(demo: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in demo.rglob("*")}
    assert not write_demo(demo, train_per_class=2, val_per_class=1)
    assert {path: path.stat().st_mtime_ns for path in demo.rglob("*")} == before


@pytest.mark.parametrize("harm", ["remove", "shorten", "add", "manifest", "seed", "foreign", "file", "link"])
def test_anything_else_is_refused_and_left_alone(tmp_path: Path, harm: str) -> None:
    folder = tmp_path / "set"
    write_demo(folder, train_per_class=1, val_per_class=1)
    victim = folder / "val" / "red-disc" / "000.jpg"
    if harm == "remove":
        victim.unlink()
    elif harm == "shorten":
        victim.write_bytes(b"x")
    elif harm == "add":
        victim.with_name("mine.jpg").write_bytes(b"x")
    elif harm == "manifest":
        (folder / MANIFEST).write_text("[1]")
    elif harm == "seed":
        manifest = json.loads((folder / MANIFEST).read_text())
        manifest["spec"]["seed"] = 5
        (folder / MANIFEST).write_text(json.dumps(manifest))
    elif harm == "foreign":
        folder = tmp_path / "mine"
        folder.mkdir()
        (folder / "thesis.txt").write_text("keep me")
    elif harm == "file":
        folder = tmp_path / "plain"
        folder.write_text("keep me")
    else:
        folder = tmp_path / "dangling"
        folder.symlink_to("nowhere")
    before = {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")}
    with pytest.raises(DataError, match="nothing was changed"):
        write_demo(folder, train_per_class=1, val_per_class=1)
    assert {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    assert write_demo(tmp_path / "set", train_per_class=1, val_per_class=1)


def test_a_writer_cut_short_leaves_nothing(tmp_path: Path) -> None:
    def images() -> Iterator[tuple[str, bytes]]:
        yield "train/a/0.jpg", b"x"
        assert [path.name for path in tmp_path.iterdir()] != ["set"]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_data_set(tmp_path / "set", spec={"name": "cut"}, images=images())
    assert not list(tmp_path.iterdir())


def test_the_folder_appears_by_one_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, target: Path) -> None:
        assert (self / MANIFEST).is_file() and (self / "train/a/0.jpg").is_file() and not target.exists()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(DataError, match=r"cannot write .*set: No space left"):
        write_data_set(tmp_path / "set", spec={"name": "cut"}, images=iter([("train/a/0.jpg", b"x")]))
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match=r"cannot write .*file"):
        write_demo(tmp_path / "file" / "set", train_per_class=1, val_per_class=1)
