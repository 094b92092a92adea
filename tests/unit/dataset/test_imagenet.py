"""ILSVRC2012 from archives of its structure: every way it arrives, damage, counts, and going on after a kill."""

import shutil
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from ilsvrc_archives import (
    CLASSES,
    jpeg,
    solution_csv,
    tar,
    train_images,
    val_class,
    val_images,
    write_archives,
    write_kit,
)

from dawnrun.cli.data import data
from dawnrun.dataset import imagenet as module
from dawnrun.dataset.check import ILSVRC2012
from dawnrun.dataset.folder import find_split
from dawnrun.dataset.index import build_index
from dawnrun.errors import DataError


def tree(folder: Path) -> dict[str, bytes]:
    """Every file of the two splits."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for split in ("train", "val")
        for path in (folder / split).rglob("*")
        if path.is_file()
    }


EXPECTED = {f"train/{name}/{file}": data for name in CLASSES for file, data in train_images(name).items()} | {
    f"val/{val_class(number)}/{file}": data for number, (file, data) in enumerate(val_images().items(), start=1)
}


class Made:
    """Archives in a folder, and the command on them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out = folder, folder / "out"
        self.train, self.val = write_archives(folder)
        self.kit = write_kit(folder)

    def run(self, *more: str, any_size: bool = True) -> Result:
        arguments = ["imagenet", "--train", self.train, "--val", self.val, "--devkit", self.kit, "--out", self.out]
        return CliRunner().invoke(data, [*map(str, arguments), *["--any-size"] * any_size, *more])

    def fails(self, match: str, *more: str, any_size: bool = True) -> None:
        """It ends with a data error, and what is there is not taken for a data set."""
        result = self.run(*more, any_size=any_size)
        assert isinstance(result.exception, DataError), result.output
        assert match in str(result.exception)
        with pytest.raises(DataError):
            find_split(self.out, "train")


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


def test_from_archives(made: Made) -> None:
    result = made.run()
    assert result.exit_code == 0, result.output
    assert tree(made.out) == EXPECTED
    assert result.stdout == f"wrote {made.out}\n"
    assert sorted(path.name for path in made.out.iterdir()) == ["data-set.json", "train", "val"]


def test_a_complete_set_is_kept(made: Made) -> None:
    made.run()
    before = {path: path.stat().st_mtime_ns for path in made.out.rglob("*")}
    result = made.run()
    assert result.stdout == f"kept, complete: {made.out}\n"
    assert {path: path.stat().st_mtime_ns for path in made.out.rglob("*")} == before
    shutil.rmtree(made.out / "val" / CLASSES[0])
    (made.out / "val" / CLASSES[0]).mkdir()
    result = made.run()
    assert isinstance(result.exception, DataError) and f"val/{CLASSES[0]}" in str(result.exception)


def test_flat_validation_images_of_an_extracted_tree_are_linked(made: Made, tmp_path: Path) -> None:
    """C16: the command that the message about flat validation images names."""
    root = tmp_path / "tree"
    for name in CLASSES:
        (root / "train" / name).mkdir(parents=True)
        for file, content in train_images(name).items():
            (root / "train" / name / file).write_bytes(content)
    (root / "val").mkdir()
    for file, content in val_images().items():
        (root / "val" / file).write_bytes(content)
    with pytest.raises(DataError, match=r"dawnrun data imagenet --train .*/tree/train --val .*/tree/val --devkit"):
        build_index(root, "val", cache_dir=tmp_path / "cache")
    made.train, made.val = root / "train", root / "val"
    made.kit = tmp_path / "LOC_val_solution.csv"
    made.kit.write_text(solution_csv())
    result = made.run()
    assert result.exit_code == 0, result.output
    assert tree(made.out) == EXPECTED
    assert all((made.out / name).stat().st_nlink == 2 for name in EXPECTED)
    assert len(build_index(made.out, "val", cache_dir=tmp_path / "cache")) == len(val_images())


def test_from_class_archives_an_extracted_kit_and_sorted_validation_images(made: Made, tmp_path: Path) -> None:
    made.run()
    sorted_val = tmp_path / "sorted"
    (made.out / "val").rename(sorted_val)
    with tarfile.open(made.train) as archive:
        archive.extractall(tmp_path / "classes", filter="data")
    with tarfile.open(made.kit) as archive:
        archive.extractall(tmp_path / "kit", filter="data")
    made.train, made.val, made.kit, made.out = tmp_path / "classes", sorted_val, tmp_path / "kit", tmp_path / "again"
    result = made.run()
    assert result.exit_code == 0, result.output
    assert tree(made.out) == EXPECTED


def test_the_full_counts_are_asked_for(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """C19: a part of the set is refused unless it is asked for; the counts are written in one place."""
    assert ILSVRC2012 == {"classes": 1000, "train": 1_281_167, "val": 50_000}
    made.fails("3 classes (wanted 1,000)", any_size=False)
    monkeypatch.setattr(module, "ILSVRC2012", {"classes": 3, "train": 9, "val": 7})
    made.fails("9 train (wanted 9), 6 val (wanted 7)", any_size=False)
    monkeypatch.setattr(module, "ILSVRC2012", {"classes": 3, "train": 9, "val": 6})
    assert made.run(any_size=False).exit_code == 0
    assert tree(made.out) == EXPECTED


def test_a_class_that_is_not_whole_is_named(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ILSVRC2012", {"classes": 3, "train": 8, "val": 6})
    images = {name: train_images(name) for name in CLASSES}
    images[CLASSES[1]].popitem()
    made.train.write_bytes(tar({f"{name}.tar": tar(files) for name, files in images.items()}))
    made.fails(f"{CLASSES[1]}: 2 images, the development kit says 3", any_size=False)


def test_the_blacklist(made: Made, tmp_path: Path) -> None:
    black = tmp_path / "black.txt"
    black.write_text("2\n6\n")
    result = made.run("--exclude-blacklisted", "--blacklist-file", str(black))
    assert result.exit_code == 0, result.output
    gone = {f"val/{val_class(n)}/ILSVRC2012_val_{n:08d}.JPEG" for n in (2, 6)}
    assert set(tree(made.out)) == set(EXPECTED) - gone


def test_the_blacklist_needs_its_file(made: Made) -> None:
    result = made.run("--exclude-blacklisted")
    assert result.exit_code == 2 and "need each other" in result.output


def test_killed_and_continued(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finished classes are not written again; until the end nothing is taken for a data set."""
    write, written = module._write_class, []

    def stopped(folder: Path, read: module.ClassSource) -> int:
        if folder.name == CLASSES[1] and folder.parent.name == "val":
            raise KeyboardInterrupt
        return write(folder, read)

    monkeypatch.setattr(module, "_write_class", stopped)
    monkeypatch.setattr(module, "_THREADS", 1)
    assert made.run().exit_code != 0
    with pytest.raises(DataError, match="unfinished"):
        build_index(made.out, "train", cache_dir=made.folder / "cache")
    half = made.out / ".unfinished" / "val" / f".{CLASSES[1]}.part"
    half.mkdir()
    (half / "ILSVRC2012_val_00000001.JPEG").write_bytes(b"half")

    def recorded(path: Path, content: bytes) -> int:
        written.append(path.parent.name)
        return write_bytes(path, content)

    write_bytes = Path.write_bytes
    monkeypatch.setattr(module, "_write_class", write)
    monkeypatch.setattr(Path, "write_bytes", recorded)
    assert made.run().exit_code == 0
    assert tree(made.out) == EXPECTED
    assert set(written) == {f".{CLASSES[1]}.part"} and len(written) == 2


@pytest.mark.parametrize("moves", [1, 2])
def test_killed_while_everything_gets_its_place(made: Made, monkeypatch: pytest.MonkeyPatch, moves: int) -> None:
    replace, left = Path.replace, [moves]

    def stopped(path: Path, target: Path) -> Path:
        if path.parent.name == ".unfinished" and path.name in ("train", "val"):
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
        elif path.name == ".data-set.json.part":
            raise KeyboardInterrupt
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", stopped)
    assert made.run().exit_code != 0
    with pytest.raises(DataError, match="unfinished"):
        find_split(made.out, "train")
    monkeypatch.undo()
    assert made.run().exit_code == 0
    assert tree(made.out) == EXPECTED and find_split(made.out, "train") == made.out / "train"


@pytest.mark.parametrize("cut", [1, 600, 1024 * 10, 1024 * 11, 15_000])
def test_a_cut_archive_is_never_taken_for_a_whole_one(made: Made, cut: int) -> None:
    """C17 for archives: cut anywhere, between two members too."""
    made.train.write_bytes(made.train.read_bytes()[:-cut])
    if cut < 1024 * 9:  # zeros after the end mark
        assert made.run().exit_code == 0
    else:
        made.fails("cut short")


def test_a_cut_class_archive_is_named(made: Made) -> None:
    inner = {f"{name}.tar": tar(train_images(name)) for name in CLASSES}
    image_end = 512 + -(-len(train_images(CLASSES[1])[f"{CLASSES[1]}_0.JPEG"]) // 512) * 512
    inner[f"{CLASSES[1]}.tar"] = inner[f"{CLASSES[1]}.tar"][:image_end]  # between two images
    made.train.write_bytes(tar(inner))
    made.fails(f"{made.train}: {CLASSES[1]}.tar is cut short")


def test_other_archives_are_refused(made: Made) -> None:
    made.train.write_bytes(b"no archive" * 100)
    made.fails("is not a tar archive")
    made.train.write_bytes(tar({"x.JPEG": jpeg("x")}))
    made.fails("not the training archive of ILSVRC2012")
    made.train.write_bytes(tar({f"{name}.tar": tar(train_images(name)) for name in CLASSES[:2]}))
    made.fails("1 classes are not in both train and val")


def test_labels_that_do_not_fit(made: Made) -> None:
    made.kit = made.folder / "labels.txt"
    made.kit.write_text("".join(f"ILSVRC2012_val_{n:08d}.JPEG {val_class(n)}\n" for n in range(1, 6)))
    made.fails("ILSVRC2012_val_00000006.JPEG is no validation image that the labels know")
    made.kit.write_text("ILSVRC2012_val_00000001.JPEG 65\n")
    made.fails("65 is not a class")
    made.kit.write_text("something else\n")
    made.fails(f"{made.kit}:1: wanted ILSVRC2012_val_NNNNNNNN and a class")
    made.kit.write_bytes(b"\xff\xfe\x00")
    made.fails("cannot read")


def test_something_else_in_the_folder_is_left_alone(made: Made) -> None:
    made.out.mkdir()
    (made.out / "mine").write_text("x")
    made.fails("nothing was changed")
    assert [path.name for path in made.out.iterdir()] == ["mine"]


def test_an_empty_disk_is_an_empty_folder(made: Made) -> None:
    (made.out / "lost+found").mkdir(parents=True)
    assert made.run().exit_code == 0 and tree(made.out) == EXPECTED
    assert made.run().stdout.startswith("kept")


def test_no_room(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: shutil._ntuple_diskusage(1, 1, 10))
    made.fails("the disk has 10 B free")
    assert not made.out.exists()


def test_a_full_disk_in_the_middle(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: bytes) -> int:
        raise OSError(28, "No space left on device", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        made.fails("no space left on device\n    what was made so far is kept")
    assert made.run().exit_code == 0 and tree(made.out) == EXPECTED
