"""The cache of image sizes: only new and changed files are read, and it never stands in the way."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dawnrun.cache import default_cache_dir
from dawnrun.dataset import index as index_module
from dawnrun.dataset.index import DatasetIndex, build_index
from dawnrun.dataset.size_cache import SizeCache
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


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths whose headers were read."""
    seen: list[str] = []
    real = index_module.read_size

    def spy(path: str) -> tuple[int, int]:
        seen.append(Path(path).name)
        return real(path)

    monkeypatch.setattr(index_module, "read_size", spy)
    return seen


def test_only_new_and_changed_files_are_read_again(
    build: Callable[..., DatasetIndex], train: Path, reads: list[str]
) -> None:
    for name in ("p.jpg", "q.jpg", "r.jpg"):
        picture(train / "a" / name)
    first = build()
    assert sorted(reads) == ["p.jpg", "q.jpg", "r.jpg"]
    reads.clear()
    second = build()
    assert not reads and second.fingerprint == first.fingerprint
    picture(train / "a" / "q.jpg", (9, 9))
    picture(train / "a" / "s.jpg")
    (train / "a" / "p.jpg").unlink()
    third = build()
    assert sorted(reads) == ["q.jpg", "s.jpg"] and third.widths.tolist() == [9, 6, 6]
    assert third.fingerprint != first.fingerprint
    reads.clear()
    os.utime(train / "a" / "r.jpg", ns=(1, 1))
    assert build().fingerprint == third.fingerprint and reads == ["r.jpg"]


def test_a_new_file_is_not_taken_for_another(build: Callable[..., DatasetIndex], train: Path, reads: list[str]) -> None:
    """Same size in bytes and same mtime as a known file, another name and other pixels."""
    known = picture(train / "a" / "x.jpg", (8, 16))
    build()
    reads.clear()
    new = picture(train / "a" / "y.jpg", (16, 8))
    status = known.stat()
    os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert new.stat().st_size == status.st_size
    assert build().widths.tolist() == [8, 16] and reads == ["y.jpg"]


def test_an_image_once_unreadable_is_looked_at_again(build: Callable[..., DatasetIndex], train: Path) -> None:
    picture(train / "a" / "x.jpg")
    (train / "a" / "y.jpg").write_bytes(b"")
    assert build(max_bad=1).widths.tolist() == [6, 0]
    with pytest.raises(DataError):
        build()


@given(at=st.integers(0, 10**6), flip=st.integers(1, 255), cut=st.booleans())
def test_a_damaged_cache_is_no_error(tmp_path_factory: pytest.TempPathFactory, at: int, flip: int, cut: bool) -> None:
    root = tmp_path_factory.getbasetemp() / "damaged-cache"
    if not root.exists():
        picture(root / "data/train/a/x.jpg", (11, 7))
    build_index(root / "data", "train", cache_dir=root / "cache")
    cache = SizeCache(root / "cache", root / "data/train").path
    data = bytearray(cache.read_bytes())
    at %= len(data)
    data[at] ^= flip
    cache.write_bytes(data[:at] if cut else data)
    index = build_index(root / "data", "train", cache_dir=root / "cache")
    assert index.widths.tolist() == [11] and index.heights.tolist() == [7]
    cache.unlink(missing_ok=True)


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    picture(tmp_path / "data/train/a/x.jpg")
    (tmp_path / "file").write_bytes(b"")
    assert len(build_index(tmp_path / "data", "train", cache_dir=tmp_path / "file" / "cache")) == 1


def test_nothing_is_written_into_the_data_folder(build: Callable[..., DatasetIndex], train: Path) -> None:
    picture(train / "a" / "x.jpg")
    build()
    assert sorted(path.name for path in train.parent.rglob("*")) == ["a", "train", "x.jpg"]
    assert [path.suffix for path in (train.parent.parent / "cache").iterdir()] == [".npz"]


def test_default_cache_dir(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.delenv("DAWNRUN_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert default_cache_dir() == Path("/home/someone/.cache/dawnrun")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert default_cache_dir() == Path("/x/dawnrun")
    monkeypatch.setenv("DAWNRUN_CACHE", str(tmp_path))
    assert default_cache_dir() == tmp_path
