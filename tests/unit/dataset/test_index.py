"""The index: layouts, labels, links, the cache, and what is said about data that cannot be used."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dawnrun.dataset.index import DatasetIndex, build_index, check_same_classes
from dawnrun.errors import DataError


def picture(path: Path, size: tuple[int, int] = (6, 4), kind: str | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size).save(path, kind or "JPEG")
    return path


@pytest.fixture
def build(tmp_path: Path) -> Callable[..., DatasetIndex]:
    """build_index of `tmp_path`/data with a cache of its own."""
    return lambda split="train", **more: build_index(tmp_path / "data", split, cache_dir=tmp_path / "cache", **more)


@pytest.fixture
def train(tmp_path: Path) -> Path:
    return tmp_path / "data" / "train"


def test_sizes_labels_and_names(build: Callable[..., DatasetIndex], train: Path) -> None:
    picture(train / "b" / "x.JPEG", (7, 5))
    picture(train / "a" / "z.png", (3, 9), "PNG")
    picture(train / "a" / "deeper" / "y.JpG", (2, 1))
    index = build()
    assert index.classes == ("a", "b") and index.names == ("a/deeper/y.JpG", "a/z.png", "b/x.JPEG")
    assert index.labels.tolist() == [0, 0, 1] and index.labels.dtype == np.int32
    assert index.widths.tolist() == [2, 3, 7] and index.heights.tolist() == [1, 9, 5]
    assert len(index) == 3 and index.path(2) == str(train / "b/x.JPEG") and index.class_name(2) == "b"
    assert not index.remarks


def test_classes_are_sorted_as_text(build: Callable[..., DatasetIndex], train: Path) -> None:
    """C15: folders 1, 2, 10 are numbered as text in both splits."""
    names = [str(number) for number in range(1, 30)]
    for name in names:
        picture(train / name / "x.jpg")
        picture(train.parent / "val" / name / "x.jpg")
    assert build().classes == build("val").classes == tuple(sorted(names))
    assert build().classes[:3] == ("1", "10", "11")
    check_same_classes(build(), build("val"))


def test_other_classes_in_val_are_an_error(build: Callable[..., DatasetIndex], train: Path) -> None:
    """C15: the first difference is shown."""
    for name in ("ant", "bee", "cat"):
        picture(train / name / "x.jpg")
    for name in ("ant", "bug", "cat"):
        picture(train.parent / "val" / name / "x.jpg")
    with pytest.raises(DataError, match=r"first difference: bee is in .*train but not in .*val \(2 in all\)"):
        check_same_classes(build(), build("val"))


def test_extensions_in_any_case_count(build: Callable[..., DatasetIndex], train: Path) -> None:
    """C16: x.JPEG, y.JpG and z.png are 3 images; what is not an image or hidden is counted apart."""
    for name in ("x.JPEG", "y.JpG", "z.png", ".hidden.jpg"):
        picture(train / "a" / name)
    (train / "a" / "Thumbs.db").write_bytes(b"x")
    (train / ".DS_Store").write_bytes(b"x")
    picture(train / "loose.jpg")
    index = build()
    assert len(index) == 3
    assert index.remarks == {"hidden_files": 2, "other_files": 1, "images_outside_class_folders": 1}


@pytest.mark.parametrize("below", ["", "Data/CLS-LOC", "ILSVRC/Data/CLS-LOC"])
@pytest.mark.parametrize("name", ["val", "validation"])
def test_usual_layouts(build: Callable[..., DatasetIndex], train: Path, below: str, name: str) -> None:
    """C16: nested Data/CLS-LOC, val or validation."""
    picture(train.parent / below / name / "a" / "x.jpg")
    assert build("val").names == ("a/x.jpg",)


def test_val_and_validation_together_are_ambiguous(build: Callable[..., DatasetIndex], train: Path) -> None:
    picture(train.parent / "val" / "a" / "x.jpg")
    (train.parent / "validation").symlink_to("val")
    assert len(build("val")) == 1
    (train.parent / "validation").unlink()
    picture(train.parent / "validation" / "a" / "x.jpg")
    with pytest.raises(DataError, match=r"both .*val and .*validation exist"):
        build("val")


def test_flat_validation_images_say_what_to_do(build: Callable[..., DatasetIndex], train: Path) -> None:
    """C16: two ILSVRC2012_val files in a flat folder."""
    for number in (1, 2):
        picture(train.parent / "val" / f"ILSVRC2012_val_0000000{number}.JPEG")
    with pytest.raises(DataError, match=r"val holds 2 images but no class folders(.|\n)*sort them into class folders"):
        build("val")


def test_what_is_missing_is_said(build: Callable[..., DatasetIndex], train: Path) -> None:
    with pytest.raises(DataError, match=r"data folder /.*data does not exist"):
        build()
    (train.parent / "images").mkdir(parents=True)
    with pytest.raises(DataError, match=r"no folder train/ below /.*(.|\n)*found there: images/(.|\n)*data demo"):
        build()
    train.mkdir()
    with pytest.raises(DataError, match="train holds no class folders"):
        build()
    (train / "a").mkdir()
    picture(train / "b" / "x.jpg")
    with pytest.raises(DataError, match=r"1 class folder without an image(.|\n)*train/a\n"):
        build()


def test_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    picture(tmp_path / "data")
    with pytest.raises(DataError, match="data is not a folder"):
        build_index(tmp_path / "data", "train", cache_dir=tmp_path / "cache")


def test_links_count_under_their_own_folder(build: Callable[..., DatasetIndex], train: Path) -> None:
    """C18: links to class folders and files are followed; the label is the link's own folder."""
    picture(train.parent / "pool" / "y.JPEG", (8, 8))
    picture(train.parent / "elsewhere" / "b" / "x.jpg")
    (train / "a").mkdir(parents=True)
    (train / "a" / "x.JPEG").symlink_to("../../pool/y.JPEG")
    (train / "b").symlink_to("../elsewhere/b")
    index = build()
    assert index.classes == ("a", "b") and index.names == ("a/x.JPEG", "b/x.jpg") and index.widths.tolist() == [8, 6]


def test_cycles_of_links_end(build: Callable[..., DatasetIndex], train: Path) -> None:
    """C18: a link to a folder above does not hang, in a class folder and beside them."""
    picture(train / "a" / "x.jpg")
    (train / "a" / "up").symlink_to("..")
    (train / "a" / "self").symlink_to(".")
    (train / "round").symlink_to("..")
    index = build()
    assert index.classes == ("a",) and len(index) == 1 and index.remarks == {"link_cycles": 3}


def test_a_linked_folder_with_a_link_to_itself_ends(build: Callable[..., DatasetIndex], train: Path) -> None:
    pool = train.parent / "pool"
    picture(pool / "x.jpg")
    (pool / "again").symlink_to(pool)
    train.mkdir()
    (train / "a").symlink_to(pool)
    assert build().names == ("a/x.jpg",)


def test_no_image_counts_twice_through_a_link_upwards(build: Callable[..., DatasetIndex], train: Path) -> None:
    pool = train.parent / "pool"
    picture(pool / "inner" / "x.jpg")
    (pool / "inner" / "up").symlink_to(pool)
    train.mkdir()
    (train / "a").symlink_to(pool / "inner")
    assert build().names == ("a/x.jpg",)


def test_dangling_links_are_listed(build: Callable[..., DatasetIndex], train: Path) -> None:
    """C18: by name, files and class folders alike."""
    picture(train / "a" / "x.jpg")
    (train / "a" / "gone.jpg").symlink_to("nowhere.jpg")
    (train / "a" / "loop.jpg").symlink_to("loop.jpg")
    (train / "b").symlink_to("nowhere")
    with pytest.raises(DataError, match="3 links leading nowhere") as caught:
        build()
    assert all(str(train / name) in str(caught.value) for name in ("a/gone.jpg", "a/loop.jpg", "b"))


def test_names_that_are_no_text_work(build: Callable[..., DatasetIndex], train: Path) -> None:
    name = os.fsdecode(b"caf\xe9 [\x1b] \n.jpg")
    picture(train / os.fsdecode(b"cl\xffass") / name)
    index = build()
    assert build().names == index.names and index.path(0) == str(train) + "/" + index.names[0]
    index.class_name(0).encode("utf-8")
    Path(index.path(0)).write_bytes(b"")
    with pytest.raises(DataError) as caught:
        build()
    assert "caf\\xe9" in str(caught.value)


def test_an_unreadable_header_is_named(build: Callable[..., DatasetIndex], train: Path) -> None:
    """C12: path, class and reason, the first ten of n."""
    picture(train / "a" / "good.jpg")
    for number in range(12):
        (train / "a" / f"{number:02d}.JPEG").write_text("text named .JPEG")
    (train / "a" / "00.JPEG").write_bytes(b"")
    with pytest.raises(DataError, match="12 unreadable images, 0 allowed") as caught:
        build()
    text = str(caught.value)
    assert f"{train}/a/00.JPEG (class a): empty file (0 bytes)" in text and "and 2 more images" in text
    assert f"{train}/a/01.JPEG (class a): not an image of a known format" in text and "11.JPEG" not in text
    with pytest.raises(DataError):
        build(max_bad=11)
    index = build(max_bad=12)
    assert len(index) == 13 and index.widths.tolist() == index.heights.tolist()[:0] + [0] * 12 + [6]


def test_progress_of_headers(build: Callable[..., DatasetIndex], train: Path) -> None:
    for number in range(3):
        picture(train / "a" / f"{number}.jpg")
    told: list[tuple[int, int]] = []
    build(progress=lambda done, total: told.append((done, total)))
    assert told == [(3, 3)]


def test_the_folder_does_not_depend_on_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, train: Path
) -> None:
    picture(train / "a" / "x.jpg")
    monkeypatch.chdir(tmp_path)
    assert build_index(Path("data"), "train", cache_dir=tmp_path / "cache").folder == train
