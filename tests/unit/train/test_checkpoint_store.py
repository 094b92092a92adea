"""The checkpoints of a run: complete or not there."""

import errno
import os
import shutil
from pathlib import Path

import pytest
from checkpoint_helpers import advance, save, state, store

from dawnrun.errors import LaunchError
from dawnrun.train import checkpoint_store as module
from dawnrun.train.checkpoint import damage, read_manifest


@pytest.mark.parametrize("harm", ["flip", "cut", "remove", "manifest"])
def test_a_damaged_newest_is_named_and_the_one_before_is_used(tmp_path: Path, harm: str) -> None:
    train = state()
    into = store(tmp_path)
    advance(train)
    first = save(into, train)
    advance(train)
    second = save(into, train)
    target = second / ("checkpoint.json" if harm == "manifest" else "state.pt")
    data = bytearray(target.read_bytes())
    if harm == "flip":
        data[len(data) // 2] ^= 1
        target.write_bytes(data)
    elif harm == "remove":
        target.unlink()
    else:
        target.write_bytes(data[:-9])
    found, damaged = into.latest()
    assert found is not None and found.path == first
    assert len(damaged) == 1 and str(second) in damaged[0]
    into.put_aside_newer_than(first)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"damaged-{second.name}", first.name]
    assert into.latest() == (found, [])
    for _ in range(3):
        advance(train)
        newest = save(into, train)
    assert into.latest()[0].path == newest, "a damaged one does not count among the newest"


@pytest.mark.parametrize("call", ["fsync", "rename", "write"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EIO])
def test_a_save_that_fails_leaves_the_earlier_one_and_nothing_half_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    """C43: full disk, quota, read-only disk, file size limit, broken disk; at the first and at the last moment."""
    train = state()
    into = store(tmp_path)
    advance(train)
    kept = save(into, train)
    advance(train)

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    owner, name = {
        "fsync": (module.os, "fsync"),
        "rename": (Path, "rename"),
        "write": (module._HashingFile, "flush"),
    }[call]
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, refuse)
        with pytest.raises(OSError, match=os.strerror(number)):
            save(into, train)
    assert [path.name for path in tmp_path.iterdir()] == [kept.name]
    assert damage(read_manifest(kept)) is None
    save(into, train)
    assert [checkpoint.step for checkpoint in into.complete()] == [1, 2]


def free(monkeypatch: pytest.MonkeyPatch, free_bytes: int, total: int = 10**9) -> None:
    usage = shutil._ntuple_diskusage(total, total - free_bytes, free_bytes)
    monkeypatch.setattr(module.shutil, "disk_usage", lambda _: usage)


def test_a_save_that_cannot_fit_is_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = state()
    into = store(tmp_path)
    advance(train)
    free(monkeypatch, 100)
    with pytest.raises(OSError, match="No space left on device: 100 bytes are free, 1,000 needed"):
        save(into, train)
    assert not list(tmp_path.iterdir())
    free(monkeypatch, 0, total=0)  # file systems that do not say
    save(into, train)


def test_room_for_all_that_is_kept_is_asked_for_before_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of the newest, the best, the crossing one, one in the making; those that are there are counted."""
    train = state()
    into = store(tmp_path, keep=2)
    free(monkeypatch, 4_999)
    with pytest.raises(LaunchError, match=r"5,000 bytes .* are needed for 5 checkpoints of 1000 B, 4,999"):
        into.check_room(1_000)
    free(monkeypatch, 5_000)
    into.check_room(1_000)
    advance(train)
    save(into, train)
    there = into.complete()[0].num_bytes
    free(monkeypatch, 50_000 - there)
    into.check_room(10_000)
    free(monkeypatch, 50_000 - there - 1)
    with pytest.raises(LaunchError):
        into.check_room(10_000)
    free(monkeypatch, 999)
    with pytest.raises(LaunchError, match="1,000 bytes"):
        into.check_room(1_000)


def counts(top5: int, top1: int) -> dict[str, int]:
    return {"num_images": 100, "top1_correct": top1, "top5_correct": top5}


@pytest.mark.parametrize(("best_by", "best"), [("top5", 2), ("top1", 3)])
def test_the_best_is_kept_by_the_accuracy_that_counts(tmp_path: Path, best_by: str, best: int) -> None:
    """C25: what was not validated, or not validly, is never the best."""
    train = state()
    into = store(tmp_path, keep=1, best_by=best_by)
    results = [counts(70, 50), counts(90, 50), counts(90, 60), None, counts(80, 60), None]
    for result in results:
        advance(train)
        save(into, train, validation=result)
    assert [checkpoint.step for checkpoint in into.complete()] == [best, 6]


def test_what_is_dropped_loses_its_name_before_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill in between leaves nothing that looks like a checkpoint."""
    train = state()
    into = store(tmp_path, keep=1)
    advance(train)
    save(into, train)
    advance(train)
    with monkeypatch.context() as patched:
        patched.setattr(module.shutil, "rmtree", lambda path, **_: (path / "model.pt").unlink(missing_ok=True))
        save(into, train)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".step-00000001.dropped", "step-00000002"]
    into.remove_leftovers()
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000002"]


def test_the_newest_are_kept_and_the_one_that_reached_the_target(tmp_path: Path) -> None:
    train = state()
    into = store(tmp_path, keep=2)
    for step in range(1, 6):
        advance(train)
        save(into, train, *(("target",) if step == 2 else ("epoch",)))
    assert [checkpoint.step for checkpoint in into.complete()] == [2, 4, 5]


def test_leftovers_of_a_killed_save_are_not_checkpoints_and_go(tmp_path: Path) -> None:
    train = state()
    into = store(tmp_path)
    advance(train)
    path = save(into, train)
    shutil.copytree(path, tmp_path / ".step-00000009.123")
    assert [checkpoint.step for checkpoint in into.complete()] == [1]
    into.remove_leftovers()
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
