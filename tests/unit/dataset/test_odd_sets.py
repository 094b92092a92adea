"""Sets with odd names, pictures that move, folders that cannot be read or written: every `dawnrun data` command alike."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image

from dawnrun.cli.data import data
from dawnrun.dataset.decode import decode_window
from dawnrun.dataset.index import build_index
from dawnrun.errors import DataError

CLASSES = (os.fsdecode(b"cl\xffass"), "Größe", "a b", "-x")
FILE = os.fsdecode(b"caf\xe9 [\x1b] \n.JPEG")


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DAWNRUN_CACHE", str(tmp_path / "cache"))
    for split in ("train", "val"):
        for number, name in enumerate(CLASSES):
            (tmp_path / "set" / split / name).mkdir(parents=True)
            for file in (FILE, "日本.png"):
                Image.new("RGB", (30 + number, 20), (9 * len(file), 40 * number, 0)).save(
                    tmp_path / "set" / split / name / file, "PNG" if file.endswith("png") else "JPEG"
                )
    return tmp_path / "set"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(data, list(map(str, arguments)))


def test_names_that_are_no_text_go_through_every_command(source: Path, tmp_path: Path) -> None:
    """Classes and numbers are the same in the folders, in a copy and in shards; what is printed can be printed."""
    for command in (
        ("resize", source, tmp_path / "copy", "--short-side", "8", "--processes", "1"),
        ("pack", source, tmp_path / "out"),
    ):
        result = run(*command)
        assert result.exit_code == 0, result.output
    folders = build_index(source, "train")
    assert folders.classes == tuple(sorted(CLASSES)) and len(folders) == 8
    for root in (tmp_path / "copy", tmp_path / "out"):
        other = build_index(root, "train")
        assert other.classes == folders.classes and other.names == folders.names
        assert other.labels.tolist() == folders.labels.tolist()
        assert run("check", root).exit_code == 0
    bad = source / "train" / CLASSES[0] / FILE
    bad.write_bytes(b"")
    listed = [line for line in run("check", source).stdout.split("\n") if line.startswith("unreadable: ")]
    assert listed == [
        rf"unreadable: {source}/train/cl\xffass/caf\xe9 [\x1b] \n.JPEG (class cl\xffass): empty file (0 bytes)"
    ]


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
def test_of_a_picture_that_moves_the_first_frame_is_seen(tmp_path: Path, kind: str) -> None:
    frames = [Image.new("RGB", (20, 20), colour) for colour in ((200, 0, 0), (0, 200, 0))]
    path = tmp_path / "x.jpg"
    frames[0].save(
        path, kind, save_all=True, append_images=frames[1:], **({"lossless": True} if kind == "WEBP" else {})
    )
    out = np.empty((10, 10, 3), np.uint8)
    decode_window(path.read_bytes(), size=(20, 20), box=(0.0, 0.0, 20.0, 20.0), mirrored=False, out=out)
    assert np.abs(out.astype(int) - (200, 0, 0)).max() <= 8


def test_a_class_that_one_side_lacks(source: Path, tmp_path: Path) -> None:
    shutil.rmtree(source / "val" / "a b")
    for command in (("check", source), ("pack", source, tmp_path / "out")):
        result = run(*command)
        assert isinstance(result.exception, DataError) and "a b" in result.output + str(result.exception)
    assert not (tmp_path / "out").exists()


def test_a_class_without_images_on_one_side(source: Path, tmp_path: Path) -> None:
    for path in (source / "val" / "a b").iterdir():
        path.unlink()
    commands = (("pack", source, tmp_path / "out"), ("resize", source, tmp_path / "out", "--short-side", "8"))
    for command in commands:
        result = run(*command)
        assert isinstance(result.exception, DataError) and "without an image" in str(result.exception)
        assert not (tmp_path / "out").exists()


@pytest.fixture
def locked(source: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A class folder that may not be read, for root neither."""
    folder = source / "train" / "a b"
    scandir = os.scandir

    def refuse(path: str | Path = ".") -> object:
        if Path(path) == folder:
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    yield folder
    monkeypatch.undo()


def test_a_folder_that_may_not_be_read(locked: Path, tmp_path: Path) -> None:
    root = locked.parents[1]
    for command in (
        ("check", root),
        ("pack", root, tmp_path / "out"),
        ("resize", root, tmp_path / "out", "--short-side", "8"),
    ):
        result = run(*command)
        assert isinstance(result.exception, DataError)
        assert f"cannot read folder {locked}: Permission denied" in result.output + str(result.exception)


@pytest.mark.parametrize("place", ["/dev/null/x", "/proc/none/x"])
def test_a_place_that_cannot_be_written(source: Path, place: str) -> None:
    for command in (("pack", source, place), ("resize", source, place, "--short-side", "8"), ("demo", place)):
        result = run(*command)
        assert isinstance(result.exception, DataError), (command, result.exception)
        assert place.rpartition("/")[0] in str(result.exception)
