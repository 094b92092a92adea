"""`dawnrun data demo` and `dawnrun data check`, called in this process."""

import os
import shutil
import zlib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dawnrun.cli.data import data
from dawnrun.dataset.demo import write_demo
from dawnrun.dataset.used import UsedSets, index_used
from dawnrun.errors import DataError
from dawnrun.recipe.reader import read_text
from dawnrun.recipe.schema import Recipe


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("DAWNRUN_CACHE", str(folder))
    return folder


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(data, [str(argument) for argument in arguments])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_demo(tmp_path / "set", train_per_class=2, val_per_class=1)
    return tmp_path / "set"


def test_demo_writes_and_keeps(tmp_path: Path) -> None:
    first, second = run("demo", tmp_path / "d"), run("demo", tmp_path / "d")
    sizes = "1,200 training and 300 validation images in 30 classes: "
    assert first.exit_code == second.exit_code == 0
    assert first.stdout == f"wrote {sizes}{tmp_path}/d\n" and second.stdout == f"kept, complete: {sizes}{tmp_path}/d\n"


def test_demo_refuses_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    assert isinstance(run("demo", tmp_path).exception, DataError)


def test_a_sound_set(root: Path) -> None:
    result = run("check", root)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        f"train: 60 images in 30 classes: {root}/train",
        f"val: 30 images in 30 classes: {root}/val",
        "remark: not the full ILSVRC2012 set (1,000 classes, 1,281,167 + 50,000 images)",
        "nothing wrong was found",
    ]


def test_every_bad_file_is_listed_in_one_pass(root: Path) -> None:
    """C12: zero bytes, text named .JPEG and a PNG that claims 20,000 x 20,000: exactly 3 paths with reasons, exit 3."""
    (root / "train/red-disc/empty.jpg").write_bytes(b"")
    (root / "train/red-ring/text.JPEG").write_text("text")
    chunks = (b"IHDR" + b"\0\0N \0\0N \x08\x02\0\0\0", b"IDAT" + zlib.compress(b""), b"IEND")
    framed = (len(c[4:]).to_bytes(4, "big") + c + zlib.crc32(c).to_bytes(4, "big") for c in chunks)
    (root / "val/red-star/huge.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(framed))
    result = run("check", root)
    assert isinstance(result.exception, DataError) and result.exception.exit_code == 3
    listed = [line for line in result.stdout.splitlines() if line.startswith("unreadable: ")]
    assert listed == [
        f"unreadable: {root}/train/red-disc/empty.jpg (class red-disc): empty file (0 bytes)",
        f"unreadable: {root}/train/red-ring/text.JPEG (class red-ring): "
        "not an image of a known format (JPEG, PNG, GIF, BMP, WEBP)",
        f"unreadable: {root}/val/red-star/huge.png (class red-star): "
        "too large: over Pillow's limit against decompression bombs",
    ]
    assert "3 unreadable images, 0 other problems" in str(result.exception)


def test_a_file_cut_at_its_end_is_found(root: Path) -> None:
    """The header is whole, so only decoding to the last byte shows it."""
    path = root / "train/red-disc/000.jpg"
    path.write_bytes(path.read_bytes()[:-200])
    assert f"unreadable: {path} (class red-disc): image file is truncated" in run("check", root).stdout


def test_a_duplicated_class_folder_is_noticed(root: Path) -> None:
    """C19: a class folder that is there twice, in train and in val, is a problem."""
    for split in ("train", "val"):
        shutil.copytree(root / split / "red-disc", root / split / "red-disc copy")
    result = run("check", root)
    assert isinstance(result.exception, DataError)
    assert (
        f"problem: {root}/train: class folders red-disc and red-disc copy have 2 pictures in common; "
        "remove one of them" in result.stdout
    )
    assert "2 other problems" in str(result.exception)


def test_copies_of_single_files_are_remarked(root: Path) -> None:
    shutil.copy(root / "train/red-disc/000.jpg", root / "train/red-disc/000 (1).jpg")
    shutil.copy(root / "train/red-disc/000.jpg", root / "val/red-disc/again.jpg")
    result = run("check", root)
    assert result.exit_code == 0
    assert "remark: train: 1 files are copies of others" in result.stdout
    assert "remark: 1 picture in both train and val" in result.stdout


def test_all_other_problems_at_once(root: Path) -> None:
    (root / "train/red-disc/gone.jpg").symlink_to("nowhere")
    shutil.rmtree(root / "train/red-ring")
    (root / "train/red-ring").mkdir()
    shutil.rmtree(root / "val/grey-disc")
    (root / "val/red-star/000.jpg").write_bytes(b"")
    result = run("check", root)
    problems = [line for line in result.stdout.splitlines() if line.startswith(("problem: ", "unreadable: "))]
    assert len(problems) == 4 and isinstance(result.exception, DataError)
    assert problems[0] == f"problem: link leading nowhere: {root}/train/red-disc/gone.jpg"
    assert problems[1] == f"problem: class folder without an image: {root}/train/red-ring"
    assert problems[2].startswith("problem: class lists differ: 30 classes")
    assert "red-star/000.jpg" in problems[3]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    result = run("check", tmp_path / "gone")
    assert isinstance(result.exception, DataError) and not result.stdout
    assert str(result.exception).count("gone does not exist") == 1


DOCUMENT = """\
name: toy
phases: [{epochs: 1, image_size: 32, global_batch_size: 4, per_device_batch_size: 4}]
lr: 0.1
"""


def used(root: Path, *overrides: str) -> UsedSets:
    return index_used(read_text(DOCUMENT, Recipe, overrides, source="toy.yaml"), root)


def cut(path: Path) -> None:
    """The header stays whole, so that a start does not notice by itself."""
    path.write_bytes(path.read_bytes()[:-200])


def test_a_start_knows_what_a_check_found(root: Path) -> None:
    assert list(used(root).verdicts()) == []
    run("check", root)
    train, val = used(root).verdicts()
    assert train.startswith("data set full: checked on 20") and train.endswith(": 60 images, nothing wrong was found")
    assert val.startswith("data set validation: checked on ") and ": 30 images, nothing" in val
    (root / "train/red-disc/more.jpg").write_bytes((root / "train/red-ring/000.jpg").read_bytes())
    assert len(list(used(root).verdicts())) == 1, "another set is not the one that was checked"


def test_a_start_is_refused_for_what_a_check_found(root: Path) -> None:
    bad = root / "train/red-disc/000.jpg"
    cut(bad)
    used(root)
    run("check", root)
    with pytest.raises(DataError, match="1 unreadable image, 0 allowed, found by `dawnrun data check`") as caught:
        used(root)
    assert f"{bad} (class red-disc): image file is truncated" in str(caught.value)
    assert "1 unreadable image" in next(used(root, "input.max_bad_images=1").verdicts())
    shutil.copy(root / "train/red-disc/001.jpg", bad)
    used(root)


def test_a_bad_validation_image_is_never_allowed(root: Path) -> None:
    cut(root / "val/red-disc/000.jpg")
    run("check", root)
    with pytest.raises(DataError, match="1 unreadable image, 0 allowed"):
        used(root, "input.max_bad_images=5")


def test_a_start_knows_the_check_of_shards(root: Path, tmp_path: Path) -> None:
    run("pack", root, tmp_path / "shards")
    run("check", tmp_path / "shards")
    assert len(list(used(tmp_path / "shards").verdicts())) == 2
    os.utime(tmp_path / "shards/train-000000.tar")
    assert len(list(used(tmp_path / "shards").verdicts())) == 1


def test_a_damaged_or_unwritable_cache_is_passed_over(root: Path, cache: Path) -> None:
    run("check", root)
    for path in cache.glob("checked-*"):
        path.write_text('{"date": 1}')
    assert list(used(root).verdicts()) == []
    shutil.rmtree(cache)
    cache.write_text("a file")
    assert run("check", root).exit_code == 0
