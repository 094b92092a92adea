"""ILSVRC2012 from its archives to shards: those that class folders would have given, counted, resumed, never half."""

import shutil
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from ilsvrc_archives import CLASSES, solution_csv, tar, train_images, val_images, write_archives, write_kit

from dawnrun.cli.data import data
from dawnrun.dataset import imagenet as imagenet_module
from dawnrun.dataset import pack as pack_module
from dawnrun.dataset.index import build_index
from dawnrun.errors import DataError


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(data, [str(argument) for argument in arguments])


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class Made:
    """Archives in a folder, and the command on them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out = folder, folder / "out"
        self.train, self.val = write_archives(folder)
        self.kit = write_kit(folder)

    def run(self, *more: str | Path, out: Path | None = None, any_size: bool = True) -> Result:
        given = ("--train", self.train, "--val", self.val, "--devkit", self.kit, "--out", out or self.out)
        return run("imagenet", *given, *["--any-size"] * any_size, *more)

    def shards(self, *more: str | Path, **settings) -> Result:
        return self.run("--format", "shards", "--shard-mib", "1", *more, **settings)

    def expected(self) -> dict[str, bytes]:
        """The shards of the class folders."""
        self.run(out=self.folder / "folders")
        run("pack", self.folder / "folders", self.folder / "packed", "--shard-mib", "1")
        return files(self.folder / "packed")

    def fails(self, match: str, **settings) -> None:
        """It ends with a data error, and what is there is not taken for a data set."""
        result = self.shards(**settings)
        assert isinstance(result.exception, DataError), result.output
        assert match in str(result.exception)
        with pytest.raises(DataError):
            build_index(self.out, "train")


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    monkeypatch.setenv("DAWNRUN_CACHE", str(tmp_path / "cache"))
    return Made(tmp_path)


def test_the_shards_of_the_class_folders(made: Made) -> None:
    result = made.shards()
    assert result.exit_code == 0, result.output
    assert result.stdout == f"wrote 9 images (train) in 1 shard and 6 images (val) in 1 shard: {made.out}\n"
    assert files(made.out) == made.expected()
    assert made.shards().stdout.startswith("kept, complete: 9 images (train)")
    assert files(made.out) == made.expected()


def test_images_in_any_order_in_their_archives(made: Made) -> None:
    """Numbers are those of sorted names, as in class folders."""
    images = {
        name: {f"{name}_{k}.JPEG": data for k, data in zip((3, 21, 12), train_images(name).values(), strict=True)}
        for name in CLASSES
    }
    made.train.write_bytes(tar({f"{name}.tar": tar(images[name]) for name in reversed(CLASSES)}))
    made.val.write_bytes(tar(dict(reversed(val_images().items()))))
    assert made.shards().exit_code == 0
    assert files(made.out) == made.expected()


def test_from_class_archives_and_sorted_validation_images(made: Made) -> None:
    expected = made.expected()
    with tarfile.open(made.train) as archive:
        archive.extractall(made.folder / "classes", filter="data")
    made.train, made.val = made.folder / "classes", made.folder / "folders/val"
    assert made.shards().exit_code == 0
    assert files(made.out) == expected


def test_from_class_folders_and_flat_validation_images(made: Made) -> None:
    expected = made.expected()
    made.train, made.val, made.kit = made.folder / "folders/train", made.folder / "flat", made.folder / "solution.csv"
    made.kit.write_text(solution_csv())
    made.val.mkdir()
    for name, content in val_images().items():
        (made.val / name).write_bytes(content)
    assert made.shards().exit_code == 0
    assert files(made.out) == expected


def test_without_the_blacklisted_images(made: Made) -> None:
    (made.folder / "black.txt").write_text("2\n6\n")
    assert made.shards("--exclude-blacklisted", "--blacklist-file", made.folder / "black.txt").exit_code == 0
    assert len(build_index(made.out, "val")) == 4


def test_counts_are_those_of_the_full_set(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    made.fails("3 classes (wanted 1,000)", any_size=False)
    monkeypatch.setattr(imagenet_module, "ILSVRC2012", {"classes": 3, "train": 9, "val": 7})
    made.fails("9 train (wanted 9), 6 val (wanted 7)", any_size=False)
    assert not made.out.exists(), "counted before anything is written"
    monkeypatch.setattr(imagenet_module, "ILSVRC2012", {"classes": 3, "train": 9, "val": 6})
    assert made.shards(any_size=False).exit_code == 0


def test_killed_and_continued(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a finished shard nor a header is made or read again."""
    write, written = pack_module._write_shard, []

    def stopped(path: Path, *rest: object) -> str:
        if path.name.startswith("val"):
            raise KeyboardInterrupt
        return write(path, *rest)

    monkeypatch.setattr(pack_module, "_write_shard", stopped)
    assert made.shards().exit_code != 0
    with pytest.raises(DataError, match="unfinished"):
        build_index(made.out, "train")
    (made.out / ".unfinished/.val-000000.tar.part").write_bytes(b"half")

    def recorded(path: Path, *rest: object) -> str:
        written.append(path.name)
        return write(path, *rest)

    monkeypatch.setattr(pack_module, "_write_shard", recorded)
    monkeypatch.setattr("dawnrun.dataset.imagenet_shards.read_size", None)
    assert made.shards().exit_code == 0
    assert written == ["val-000000.tar"] and files(made.out) == made.expected()


@pytest.mark.parametrize("cut", [1024 * 10, 15_000])
def test_a_cut_archive(made: Made, cut: int) -> None:
    """C17."""
    made.train.write_bytes(made.train.read_bytes()[:-cut])
    made.fails("cut short")
    assert not made.out.exists()


def test_what_is_no_image_is_named(made: Made) -> None:
    images = {name: train_images(name) for name in CLASSES}
    images[CLASSES[1]][f"{CLASSES[1]}_1.JPEG"] = b"no image"
    made.train.write_bytes(tar({f"{name}.tar": tar(found) for name, found in images.items()}))
    made.fails(f"1 unreadable image in {made.train}:\n    {CLASSES[1]}/{CLASSES[1]}_1.JPEG: not an image")


def test_nothing_at_all(made: Made) -> None:
    for path in (made.train, made.val):
        path.write_bytes(tar({}))
    made.fails("no classes in what was given")


def test_a_name_twice(made: Made) -> None:
    (name, first), *_ = train_images(CLASSES[0]).items()
    inner = {f"{each}.tar": tar(train_images(each)) for each in CLASSES}
    inner[f"{CLASSES[0]}.tar"] = tar({f"a/{name}": first, f"b/{name}": first})
    made.train.write_bytes(tar(inner))
    made.fails(f"class {CLASSES[0]} holds {name} twice")


def test_folders_and_shards_do_not_mix(made: Made) -> None:
    made.run()
    result = made.shards()
    assert isinstance(result.exception, DataError) and "nothing was changed" in str(result.exception)
    shutil.rmtree(made.out)
    assert made.shards().exit_code == 0
    assert isinstance(made.run().exception, DataError)
