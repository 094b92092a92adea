"""Copies of a data set: what is lacking is found, what is there is kept, what differs is noticed."""

import hashlib
import os

import pytest

from dawnrun.dataset.copies import LocalCopy, list_files, pieces, staged
from dawnrun.errors import DataError, LaunchError


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    for name, size in (("train/a/1.jpg", 10), ("train/b c/\udcff.jpg", 0), ("val/a/2.jpg", 5 << 20)):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(size))
    (folder / ".hidden").write_text("not a part of it")
    return folder


def fill(copy, source, limit=None):
    digests = {}
    for number, piece in pieces(source, copy.entries, copy.missing[:limit], 2):
        digests.setdefault(number, hashlib.sha256()).update(piece)
        copy.take(number, piece)
        if copy._open.tell() == copy.entries[number].num_bytes:
            copy.end(number, digests[number].hexdigest())


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.jpg")}


def test_a_copy(source, tmp_path):
    entries = list_files(source)
    assert [entry.path for entry in entries] == ["train/a/1.jpg", "train/b c/\udcff.jpg", "val/a/2.jpg"]
    place = tmp_path / "local" / "set"
    copy = LocalCopy(place, entries)
    assert copy.missing == [0, 1, 2]
    fill(copy, source)
    assert not place.exists()  # not under its name before it is complete
    copy.finish()
    copy.check()
    assert contents(place) == contents(source)
    assert (place / "val/a/2.jpg").stat().st_mtime_ns == (source / "val/a/2.jpg").stat().st_mtime_ns
    assert staged(place)["num_files"] == 3
    again = LocalCopy(place, entries)
    assert again.complete and again.missing == []


def test_killed_and_gone_on(source, tmp_path):
    entries, place = list_files(source), tmp_path / "set"
    copy = LocalCopy(place, entries)
    fill(copy, source, limit=2)
    copy.take(2, b"half")
    copy.close()
    again = LocalCopy(place, entries)
    assert again.missing == [2]
    fill(again, source)
    again.finish()
    assert contents(place) == contents(source)


def test_a_changed_source(source, tmp_path):
    place = tmp_path / "set"
    copy = LocalCopy(place, list_files(source))
    fill(copy, source)
    copy.finish()
    (source / "train/a/1.jpg").unlink()
    (source / "train/a/3.jpg").write_bytes(b"new")
    entries = list_files(source)
    copy = LocalCopy(place, entries)
    assert [entries[number].path for number in copy.missing] == ["train/a/3.jpg"]
    fill(copy, source)
    copy.finish()
    assert contents(place) == contents(source)


def test_what_is_refused(source, tmp_path, monkeypatch):
    entries = list_files(source)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine").write_text("")
    with pytest.raises(DataError, match="was not staged by dawnrun: nothing was changed"):
        LocalCopy(tmp_path / "other", entries)
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 1000}))
    with pytest.raises(LaunchError, match=r"5\.0 MiB are to be copied, 1000 B are free"):
        LocalCopy(tmp_path / "set", entries)


def test_a_damaged_copy(source, tmp_path):
    place = tmp_path / "set"
    copy = LocalCopy(place, list_files(source))
    fill(copy, source)
    copy.finish()
    (place / "train/a/1.jpg").write_bytes(b"0123456789")
    with pytest.raises(DataError, match=r"1 files are not what was copied: .*train/a/1\.jpg"):
        copy.check()
    assert staged(place) is None


def test_a_source_that_changes_under_the_reader(source):
    entries = list_files(source)
    (source / "val/a/2.jpg").write_bytes(b"short")
    with pytest.raises(DataError, match="was changed while it was copied"):
        list(pieces(source, entries, [2], 2))
