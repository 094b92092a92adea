"""Shards: packed, stopped and continued, read by position; other tools' shards; everything that does not fit."""

import io
import itertools
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from dawnrun.cli.data import data
from dawnrun.dataset import pack as pack_module
from dawnrun.dataset.decode import UnreadableImageError, read_size
from dawnrun.dataset.index import DatasetIndex, build_index
from dawnrun.dataset.pack import write_shards
from dawnrun.dataset.shards import ShardTable
from dawnrun.errors import DataError
from dawnrun.launch.checks import check_data

NUM_CLASSES, PER_CLASS = 10, 6


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAWNRUN_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Ten classes; a grey image, a PNG named .JPEG and a tagged one among them."""
    rng = np.random.default_rng(0)
    for split, per_class in (("train", PER_CLASS), ("val", 2)):
        for label, number in itertools.product(range(NUM_CLASSES), range(per_class)):
            path = tmp_path / "set" / split / f"c{label}" / f"{number}.x.JPEG"
            path.parent.mkdir(parents=True, exist_ok=True)
            noise = rng.integers(0, 255, (20 + label, 30 + number, 3), np.uint8)
            Image.fromarray(noise).save(path, "JPEG")
    folder = tmp_path / "set/train"
    Image.new("L", (40, 20), 9).save(folder / "c0/0.x.JPEG", "JPEG")
    Image.new("RGB", (41, 20), (9, 8, 7)).save(folder / "c1/0.x.JPEG", "PNG")
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (24, 16)).save(folder / "c2/0.x.JPEG", "JPEG", exif=exif)
    return tmp_path / "set"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(data, [str(argument) for argument in arguments])


def pack(source: Path, out: Path, *, shard_bytes: int = 40_000, seed: int = 0) -> None:
    class Silent:
        def __enter__(self):
            return lambda number: None

        def __exit__(self, *error: object) -> None:
            pass

    write_shards(source, out, seed=seed, shard_bytes=shard_bytes, progress=lambda total: Silent())


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def same(a: DatasetIndex, b: DatasetIndex) -> None:
    """Every image has the same number, class, size and bytes."""
    assert a.fingerprint == b.fingerprint and a.classes == b.classes and a.names == b.names
    for image in range(len(a)):
        assert a.read(image) == b.read(image)
    assert a.labels.tolist() == b.labels.tolist() and a.widths.tolist() == b.widths.tolist()


def test_shards_hold_the_same_data_set(source: Path, tmp_path: Path) -> None:
    """C14, C15: numbers, classes, sizes and bytes are those of the folders, so runs see the same batches."""
    pack(source, tmp_path / "out")
    names = sorted(files(tmp_path / "out"))
    assert names[:3] == ["classes.txt", "data-set.json", "train-000000.tar"] and len(names) > 6
    for split in ("train", "val"):
        folder, shards = (build_index(root, split) for root in (source, tmp_path / "out"))
        same(folder, shards)
        buffer = bytearray(int(shards.sizes[3]))
        assert shards.shards is not None
        shards.shards.read_into(3, memoryview(buffer))
        assert bytes(buffer) == folder.read(3)
    tagged = folder_names = build_index(tmp_path / "out", "train").names.index("c2/0.x.JPEG")
    assert read_size(build_index(tmp_path / "out", "train").read(tagged)) == (24, 16), folder_names
    check_data({"full": tmp_path / "out"})


def test_every_shard_is_a_tar_of_image_and_label(source: Path, tmp_path: Path) -> None:
    """C20: the first shard holds more than one class; two seeds, two orders."""
    pack(source, tmp_path / "out")
    with tarfile.open(tmp_path / "out/train-000000.tar") as archive:
        infos = archive.getmembers()
    stems = [info.name.partition(".")[0] for info in infos]
    assert stems[::2] == stems[1::2] and {info.name.partition(".")[2] for info in infos} <= {"jpg", "png", "cls"}
    assert len({int(stem) // PER_CLASS for stem in stems}) > 3
    pack(source, tmp_path / "other", seed=1)
    assert files(tmp_path / "other")["train-000000.tar"] != files(tmp_path / "out")["train-000000.tar"]


def test_one_shard_or_one_for_each_image(source: Path, tmp_path: Path) -> None:
    pack(source, tmp_path / "one", shard_bytes=2**30)
    pack(source, tmp_path / "many", shard_bytes=1)
    for name, number in (("one", 1), ("many", NUM_CLASSES * PER_CLASS)):
        index = build_index(tmp_path / name, "train")
        assert index.shards is not None and len(index.shards.table.files) == number
        same(index, build_index(source, "train"))


def test_shards_of_shards(source: Path, tmp_path: Path) -> None:
    pack(source, tmp_path / "first")
    pack(tmp_path / "first", tmp_path / "second", seed=3)
    same(build_index(source, "train"), build_index(tmp_path / "second", "train"))


@pytest.mark.parametrize("stop_at", [0, 1, 30, 70])
def test_stopped_and_continued(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_at: int) -> None:
    """C17: no partial file under a final name; continued, the same shards and index as of an undisturbed run."""
    pack(source, tmp_path / "whole")
    member, left = pack_module._member, [2 * stop_at]

    def stopping(name: str, data: bytes) -> bytes:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return member(name, data)

    monkeypatch.setattr(pack_module, "_member", stopping)
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        pack(source, out)
    whole = files(tmp_path / "whole")
    for name, content in files(out / ".unfinished").items():
        assert name.startswith((".", "spec.json")) or content == whole[name]
    assert [path.name for path in out.iterdir()] == [".unfinished"]
    for look in (lambda: build_index(out, "train"), lambda: check_data({"full": out})):
        with pytest.raises(DataError, match="unfinished"):
            look()
    monkeypatch.undo()
    monkeypatch.setenv("DAWNRUN_CACHE", str(tmp_path / "cache"))
    pack(source, out)
    assert files(out) == whole


def test_finished_shards_are_not_written_again(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    write = pack_module._write_shard

    def stopping(path: Path, *more: object) -> str:
        written.append(path.name)
        if len(written) == 4:
            raise OSError(28, "No space left on device", str(path))
        return write(path, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(pack_module, "_write_shard", stopping)
    with pytest.raises(DataError, match="no space left on device\n    what was made so far is kept"):
        pack(source, tmp_path / "out")
    pack(source, tmp_path / "out")
    assert written.count(written[3]) == 2 and len(set(written)) == len(written) - 1


def test_pack_command(source: Path, tmp_path: Path) -> None:
    first, second = (run("pack", source, tmp_path / "out", "--shard-mib", 1) for _ in range(2))
    sizes = f"60 images (train) in 1 shard and 20 images (val) in 1 shard: {tmp_path}/out\n"
    assert first.stdout == f"wrote {sizes}" and second.stdout == f"kept, complete: {sizes}"
    other = run("pack", source, tmp_path / "out", "--seed", 1)
    assert isinstance(other.exception, DataError) and "nothing was changed" in str(other.exception)
    check = run("check", tmp_path / "out")
    assert check.exit_code == 0 and check.stdout.endswith("nothing wrong was found\n")


def test_a_cut_shard_is_named(source: Path, tmp_path: Path) -> None:
    """C17: at the start and by the check."""
    out = tmp_path / "out"
    pack(source, out)
    path = out / "train-000001.tar"
    size = path.stat().st_size
    os.truncate(path, size - 100)
    problem = f"shard {path} is cut short: {size - 100:,} bytes, the index says {size:,}"
    with pytest.raises(DataError) as caught:
        build_index(out, "train")
    assert problem in str(caught.value)
    result = run("check", out)
    assert isinstance(result.exception, DataError) and f"problem: {problem}" in result.stdout
    path.unlink()
    with pytest.raises(DataError, match=r"train-000001.tar: no such file or directory"):
        build_index(out, "train")


def test_a_shard_cut_while_it_is_read(source: Path, tmp_path: Path) -> None:
    """An error of the image, not a signal that ends the process."""
    out = tmp_path / "out"
    pack(source, out)
    index = build_index(out, "train")
    assert index.shards is not None
    image = int(np.argmax((index.shards.table.shards == 0) * index.shards.table.offsets))
    os.truncate(out / "train-000000.tar", int(index.shards.table.offsets[image]) + 10)
    with pytest.raises(UnreadableImageError, match="its shard is cut short"):
        index.read(image)
    with pytest.raises(UnreadableImageError, match="its shard is cut short"):
        index.shards.read_into(image, memoryview(bytearray(int(index.sizes[image]))))
    assert f"train-000000.tar: {index.names[image]}" in index.path(image)


def test_changed_bytes_are_found_by_the_check(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    pack(source, out)
    path = out / "val-000000.tar"
    content = bytearray(path.read_bytes())
    content[100] ^= 1  # in a header that nobody reads
    path.write_bytes(content)
    result = run("check", out)
    assert f"problem: shard {path} is damaged: its SHA-256 is not the one in the index" in result.stdout


def test_an_index_of_other_shards(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    pack(source, out)
    (out / "train-000099.tar").write_bytes(b"")
    with pytest.raises(DataError, match=r"1 shard not in .*train-index.npz, the first is train-000099.tar"):
        build_index(out, "train")
    (out / "train-000099.tar").unlink()
    (out / "train-index.npz").write_bytes(b"PK something else")
    with pytest.raises(DataError, match=r"index .*train-index.npz cannot be read"):
        build_index(out, "train")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(data_=st.data())
def test_a_damaged_index_never_gets_through(source: Path, tmp_path: Path, data_: st.DataObject) -> None:
    """Cut or changed anywhere: ValueError, or the very same table."""
    out = tmp_path / "fuzzed"
    if not out.exists():
        pack(source, out)
    content = bytearray((out / "val-index.npz").read_bytes())
    place = data_.draw(st.integers(0, len(content) - 1))
    if data_.draw(st.booleans()):
        del content[place:]
    else:
        content[place] ^= data_.draw(st.integers(1, 255))
    (tmp_path / "x.npz").write_bytes(content)
    try:
        table = ShardTable.load(tmp_path / "x.npz")
    except ValueError:
        return
    whole = ShardTable.load(out / "val-index.npz")
    assert table.names == whole.names and (table.offsets == whole.offsets).all()


def test_tables_that_do_not_fit_are_refused(source: Path, tmp_path: Path) -> None:
    pack(source, tmp_path / "out")
    path = tmp_path / "out/train-index.npz"
    with np.load(path) as stored:
        arrays = dict(stored)
    changes = {
        "offsets": arrays["offsets"] + 10**9,
        "labels": arrays["labels"] + 1,
        "shards": arrays["shards"] - 1,
        "sizes": arrays["sizes"][1:],
        "widths": arrays["widths"].astype(float),
        "files": np.frombuffer(b"../x\0" * len(arrays["file_bytes"]), np.uint8),
        "version": np.int64(2),
    }
    for name, value in changes.items():
        np.savez(path, **(arrays | {name: value}))
        with pytest.raises(DataError, match="cannot be read"):
            build_index(tmp_path / "out", "train")


def test_folders_and_shards_together_are_ambiguous(source: Path, tmp_path: Path) -> None:
    pack(source, tmp_path / "out")
    (tmp_path / "out/train/a").mkdir(parents=True)
    with pytest.raises(DataError, match="holds train both as shards and as class folders"):
        build_index(tmp_path / "out", "train")


def foreign(path: Path, samples: list[dict[str, bytes]]) -> None:
    """A shard as any tool may write it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for sample in samples:
            for name, content in sample.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))


def jpeg(width: int, **more: object) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, 8)).save(file, "JPEG", **more)
    return file.getvalue()


@pytest.mark.parametrize("layout", ["imagenet1k-{}-{:04d}.tar", "{}/{:05d}.tar", "{}_{:d}.tar"])
def test_shards_of_other_tools(tmp_path: Path, layout: str) -> None:
    """Classes by number; more members than needed; headers longer than what is read first."""
    for split, labels in (("train", [[10, 2], [2]]), ("validation", [[2], [10]])):
        for number, of_shard in enumerate(labels):
            samples = [
                {
                    f"d/{k}.a.json": b"{}",
                    f"d/{k}.cls": str(label).encode(),
                    f"d/{k}.JPG": jpeg(8 + label, comment=b"x" * 40_000),
                }
                for k, label in enumerate(of_shard)
            ]
            foreign(tmp_path / "set" / layout.format(split, number), samples)
    train, val = build_index(tmp_path / "set", "train"), build_index(tmp_path / "set", "val")
    assert train.classes == val.classes == ("00002", "00010") and train.labels.tolist() == [1, 0, 0]
    assert train.widths.tolist() == [18, 10, 10] and val.widths.tolist() == [10, 18]
    assert train.read(0) == jpeg(18, comment=b"x" * 40_000) and train.names[1] == "d/1.JPG"
    (tmp_path / "set" / "classes.txt").write_text("".join(f"name {k}\n" for k in range(11)))
    if layout[0] != "{" or "/" not in layout:
        assert build_index(tmp_path / "set", "train").classes == ("name 10", "name 2")
    assert build_index(tmp_path / "set", "train").labels.tolist() in ([0, 1, 1], [1, 0, 0])
    check_data({"full": tmp_path / "set"})


def test_their_headers_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "set/train-000000.tar"
    foreign(path, [{"0.jpg": jpeg(8), "0.cls": b"cat"}, {"1.jpg": jpeg(9), "1.cls": b"ant"}])
    first = build_index(tmp_path / "set", "train")
    assert first.classes == ("ant", "cat") and first.labels.tolist() == [1, 0]
    with monkeypatch.context() as patch:
        patch.setattr("dawnrun.dataset.foreign_shards._samples", None)
        assert build_index(tmp_path / "set", "train").fingerprint == first.fingerprint
    foreign(path, [{"0.jpg": jpeg(8), "0.cls": b"cat"}])
    assert len(build_index(tmp_path / "set", "train")) == 1


def test_shards_that_cannot_be_used(tmp_path: Path) -> None:
    path = tmp_path / "set/train-000000.tar"
    foreign(path, [{"0.jpg": jpeg(8)}])
    with pytest.raises(DataError, match=rf"shard {path}: sample 0.jpg has no .cls \(jpg\)"):
        build_index(tmp_path / "set", "train")
    foreign(path, [{"0.cls": b"1"}])
    with pytest.raises(DataError, match="has no image"):
        build_index(tmp_path / "set", "train")
    foreign(path, [{"0.jpg": b"text", "0.cls": b"1"}, {"1.jpg": jpeg(8), "1.cls": b"1"}])
    with pytest.raises(
        DataError, match=r"1 unreadable image(.|\n)*train-000000.tar: 0.jpg \(class 00001\): not an image"
    ):
        build_index(tmp_path / "set", "train")
    assert build_index(tmp_path / "set", "train", max_bad=1).widths.tolist() == [0, 8]
    os.truncate(path, 512 + 100)
    with pytest.raises(DataError, match=r"train-000000.tar is .*cut short"):
        build_index(tmp_path / "set", "train")
    path.write_bytes(b"")
    with pytest.raises(DataError, match=r"train-000000.tar is not a tar archive"):
        build_index(tmp_path / "set", "train")


def test_a_shard_is_opened_once(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An epoch opens as many files as there are shards, not images; closed ones are opened again."""
    pack(source, tmp_path / "out")
    index = build_index(tmp_path / "out", "train")
    assert index.shards is not None
    opened: list[str] = []
    real = os.open

    def counted(path: Path, flags: int) -> int:
        opened.append(Path(path).name)
        return real(path, flags)

    monkeypatch.setattr(os, "open", counted)
    for _ in range(2):
        for image in range(len(index)):
            index.read(image)
    assert sorted(opened) == list(index.shards.table.files)
    index.shards.close()
    assert index.read(0) and len(opened) == len(index.shards.table.files) + 1


def test_shards_among_the_class_folders_are_refused(source):
    """They would be a class without images, and the source no data set any more."""
    before = sorted(source.rglob("*"))
    for place in ("train/shards", "val", "train/c0/deep/er"):
        done = run("pack", source, source / place)
        assert done.exception is not None
        assert "whose folders are classes: nothing was changed" in str(done.exception)
    assert sorted(source.rglob("*")) == before


def test_where_no_folder_can_be_made_nothing_is_said_to_be_kept(source, monkeypatch):
    def denied(self, **_):
        raise OSError(30, "Read-only file system", str(self))

    monkeypatch.setattr(Path, "mkdir", denied)
    with pytest.raises(DataError, match=r"(?s)read-only file system.*nothing was made; give another folder"):
        pack(source, source.parent / "out")
