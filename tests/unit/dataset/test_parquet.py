"""Parquet files to shards: the images and classes that they hold, whatever is wrong with them, stopped and continued."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from ilsvrc_archives import jpeg

from dawnrun.cli.data import data
from dawnrun.dataset import parquet_shards
from dawnrun.dataset.folder import find_split
from dawnrun.dataset.index import build_index
from dawnrun.errors import DataError

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")

NAMES = ["tench, Tinca tinca", "crane", "ant"]
ROWS = {"train": 9, "validation": 6}


def features(names: list[str]) -> dict[bytes, str]:
    """The schema's metadata as the library `datasets` writes it."""
    label = {"names": names, "_type": "ClassLabel"}
    return {b"huggingface": json.dumps({"info": {"features": {"image": {"_type": "Image"}, "label": label}}})}


def write(path: Path, rows: list[dict], labels: list[int | None], names: list[str] | None = NAMES) -> None:
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    schema = pa.schema([("image", image), ("label", pa.int64())], metadata=features(names) if names else None)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"image": rows, "label": labels}, schema=schema), path, row_group_size=2)


def content(split: str, number: int) -> bytes:
    return jpeg(f"{split} {number}", (12 + number, 9))


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three files of training images and one of validation images; some images have no path."""
    monkeypatch.setenv("DAWNRUN_CACHE", str(tmp_path / "cache"))
    for split, parts in (("train", 3), ("validation", 1)):
        each = ROWS[split] // parts
        for part in range(parts):
            numbers = range(part * each, (part + 1) * each)
            rows = [{"bytes": content(split, n), "path": f"x/{split}_{n}.JPEG" if n % 2 else None} for n in numbers]
            write(tmp_path / f"set/data/{split}-{part:05d}-of-{parts:05d}.parquet", rows, [n % 3 for n in numbers])
    return tmp_path / "set"


def pack(source: Path, out: Path, *more: str | Path) -> Result:
    return CliRunner().invoke(data, ["pack", str(source), str(out), *map(str, more)])


def fails(source: Path, out: Path, match: str, *more: str | Path) -> None:
    """It ends with a data error, and what is there is not taken for a data set."""
    result = pack(source, out, *more)
    assert isinstance(result.exception, DataError), (result.output, result.exception)
    assert match in str(result.exception)
    with pytest.raises(DataError):
        build_index(out, "train")


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_shards_hold_every_image_under_its_class(source: Path, tmp_path: Path) -> None:
    result = pack(source, tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("wrote 9 images (train) in 1 shard and 6 images (val) in 1 shard")
    for split, published in (("train", "train"), ("val", "validation")):
        index = build_index(tmp_path / "out", split)
        assert index.classes == tuple(sorted(NAMES))
        assert [index.classes[label] for label in index.labels] == [NAMES[n % 3] for n in range(ROWS[published])]
        assert [index.read(n) for n in range(len(index))] == [content(published, n) for n in range(ROWS[published])]
        assert index.widths.tolist() == [12 + n for n in range(ROWS[published])] and set(index.heights) == {9}
    assert index.names[:2] == ("tench, Tinca tinca/validation-00000-of-00001-000000", "crane/validation_1.JPEG")
    assert CliRunner().invoke(data, ["check", str(tmp_path / "out")]).exit_code == 0
    assert pack(source, tmp_path / "out").stdout.startswith("kept")


def test_the_same_bytes_as_packed_from_shards(source: Path, tmp_path: Path) -> None:
    """Written in any order, a shard is the one that is written from front to back."""
    pack(source, tmp_path / "out", "--seed", "3")
    pack(tmp_path / "out", tmp_path / "again", "--seed", "3")
    assert files(tmp_path / "out") == files(tmp_path / "again")


def test_other_layouts(source: Path, tmp_path: Path) -> None:
    pack(source, tmp_path / "out")
    moved = tmp_path / "moved/default"
    for path in (source / "data").iterdir():
        split, _, rest = path.name.partition("-")
        (moved / split).mkdir(parents=True, exist_ok=True)
        path.rename(moved / split / f"000{rest[4]}.parquet")
    pack(tmp_path / "moved", tmp_path / "other")
    sets = [build_index(tmp_path / name, "train") for name in ("out", "other")]
    assert sets[0].labels.tolist() == sets[1].labels.tolist()
    np.testing.assert_array_equal(sets[0].sizes, sets[1].sizes)


def test_class_names_of_the_users_own(source: Path, tmp_path: Path) -> None:
    (tmp_path / "names").write_text("n01440764\nn02012849\nn02219486\n")
    assert pack(source, tmp_path / "out", "--classes", tmp_path / "names").exit_code == 0
    assert build_index(tmp_path / "out", "val").classes == ("n01440764", "n02012849", "n02219486")
    (tmp_path / "names").write_text("a\nb\n")
    fails(source, tmp_path / "bad", "label 2 in", "--classes", tmp_path / "names")
    (tmp_path / "names").write_text("a\nb\na\n")
    fails(source, tmp_path / "bad", "has the class a twice", "--classes", tmp_path / "names")


@pytest.mark.parametrize(
    ("rows", "labels", "names", "match"),
    [
        ([{"bytes": b"", "path": "x.jpg"}], [0], NAMES, "row 0 has no image (its bytes are empty"),
        ([None], [0], NAMES, "row 0 has no image"),
        ([{"bytes": jpeg("a"), "path": None}] * 2, [0, -1], NAMES, "row 1 has label -1"),
        ([{"bytes": jpeg("a"), "path": None}], [None], NAMES, "row 0 has label None"),
        ([{"bytes": jpeg("a"), "path": None}], [3], NAMES, "label 3 in"),
        ([{"bytes": b"text", "path": "x.jpg"}], [0], NAMES, "1 unreadable image:\n"),
        ([{"bytes": jpeg("a"), "path": None}], [0], None, "name other classes"),
        ([{"bytes": jpeg("a"), "path": None}], [0], ["a", "b", "c"], "name other classes"),
    ],
)
def test_what_cannot_be_packed_is_named(source, tmp_path, rows, labels, names, match) -> None:
    write(source / "data/train-00001-of-00003.parquet", rows, labels, names)
    fails(source, tmp_path / "out", match)
    assert not (tmp_path / "out").exists()


def test_other_columns_are_named(source: Path, tmp_path: Path) -> None:
    path = source / "data/train-00000-of-00003.parquet"
    pq.write_table(pa.table({"img": [b"x"], "label": [1]}), path)
    fails(source, tmp_path / "out", "has the columns img: binary, label: int64\n    wanted: image: struct<bytes")
    pq.write_table(pa.table({"image": [b"x"], "label": ["a"]}), path)
    fails(source, tmp_path / "out", "has the columns image: binary, label: string")


def test_no_class_names(source: Path, tmp_path: Path) -> None:
    for path in (source / "data").iterdir():
        pq.write_table(pq.read_table(path).replace_schema_metadata(None), path)
    fails(source, tmp_path / "out", "does not name its classes\n    give --classes FILE")


def test_damaged_and_missing_files(source: Path, tmp_path: Path) -> None:
    path = source / "data/train-00002-of-00003.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[:-50])
    fails(source, tmp_path / "out", f"cannot read {path}: ")
    path.unlink()
    fails(source, tmp_path / "out", f"{source}/data holds 2 of 00003 files of train")
    path.write_bytes(whole)
    (source / "data/validation-00000-of-00001.parquet").unlink()
    fails(source, tmp_path / "out", "no val files in")


def test_a_run_says_what_to_do(source: Path) -> None:
    with pytest.raises(
        DataError, match=r"holds Parquet files, which a run does not read\n    make shards of them: dawnrun data pack"
    ):
        find_split(source, "train")


def test_class_names_are_for_parquet_only(tmp_path: Path) -> None:
    (tmp_path / "set/train/a").mkdir(parents=True)
    (tmp_path / "names").write_text("a\n")
    result = pack(tmp_path / "set", tmp_path / "out", "--classes", tmp_path / "names")
    assert result.exit_code == 2 and "no Parquet files in" in result.output


@pytest.mark.parametrize("stop_at", [1, 2, "renaming"])
def test_killed_and_continued(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_at: int | str
) -> None:
    """Files that were read to their end are not read again; the shards are those of an undisturbed run."""
    pack(source, tmp_path / "whole")
    place, placed = parquet_shards._place, []

    def stopped(path: Path, *rest: object) -> None:
        if len(placed) == stop_at:
            raise KeyboardInterrupt
        placed.append(path.name)
        place(path, *rest)

    replace = Path.replace

    def renamed(path: Path, target: Path) -> Path:
        if stop_at == "renaming" and path.name == ".val-000000.tar.part":
            raise KeyboardInterrupt
        return replace(path, target)

    monkeypatch.setattr(parquet_shards, "_place", stopped)
    monkeypatch.setattr(Path, "replace", renamed)
    assert pack(source, tmp_path / "out").exit_code != 0
    with pytest.raises(DataError, match="unfinished"):
        build_index(tmp_path / "out", "train")
    first, stop_at = list(placed), None
    monkeypatch.setattr(Path, "replace", replace)
    assert pack(source, tmp_path / "out").exit_code == 0
    assert files(tmp_path / "out") == files(tmp_path / "whole")
    assert sorted(placed) == sorted(path.name for path in (source / "data").iterdir()), first


def test_a_file_that_changes_meanwhile(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = source / "data/train-00001-of-00003.parquet"
    place = parquet_shards._place

    def changed(file: Path, *rest: object) -> None:
        if file == path:
            write(path, [{"bytes": content("train", n), "path": None} for n in (3, 4)], [0, 1])
        place(file, *rest)

    monkeypatch.setattr(parquet_shards, "_place", changed)
    fails(source, tmp_path / "out", f"{path} changed while it was packed")


def test_pyarrow_is_optional(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    fails(source, tmp_path / "out", "pip install 'dawnrun[parquet]'")
