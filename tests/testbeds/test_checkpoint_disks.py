"""Saves on disks that refuse: a small file system of our own, mounted where the checkpoints go."""

import os
import resource
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from checkpoint_helpers import advance, state, store

from dawnrun.errors import LaunchError
from dawnrun.train.checkpoint import Checkpoint, damage
from dawnrun.train.saver import Saver
from dawnrun.train.step import TrainState

Mount = Callable[[str], Path]
EXTRA = {"target_reached": False, "validation": None}


class Told:
    """The ends of saves, in order."""

    def __init__(self) -> None:
        self.ends: list[str] = []

    def saved(self, checkpoint: Checkpoint, *, save_s: float, blocked_s: float) -> None:
        self.ends.append(f"saved {checkpoint.step}")

    def save_failed(self, error: OSError, *, step: int, epoch: int, why: Sequence[str], num_bytes: int) -> None:
        self.ends.append(f"{error.strerror}".partition(":")[0])


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """Mounts a tmpfs with options at `disk`, or mounts it again with others."""
    disk = tmp_path / "disk"
    disk.mkdir()

    def mount(options: str) -> Path:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", disk], capture_output=True, text=True, check=False
        )
        if done.returncode:
            pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
        return disk

    yield mount
    subprocess.run(["umount", disk], capture_output=True, check=False)


def save(saver: Saver, train: TrainState) -> None:
    advance(train)
    saver.save(train, epoch=0, why=("epoch",), extra=EXTRA)
    saver.settle()


def whole_alone(disk: Path, steps: Sequence[int]) -> bool:
    """These checkpoints are whole, and nothing else is there."""
    complete = store(disk).complete()
    names = {path.name for path in disk.iterdir()}
    return (
        [checkpoint.step for checkpoint in complete] == list(steps)
        and all(damage(checkpoint) is None for checkpoint in complete)
        and names == {checkpoint.path.name for checkpoint in complete}
    )


def fill_but(disk: Path, pages: int) -> Path:
    """Fill the disk but for so many pages."""
    filler = disk / "filler"
    usage = os.statvfs(disk)
    filler.write_bytes(b"\0" * (usage.f_bavail - pages) * usage.f_frsize)
    return filler


@pytest.mark.parametrize("pages", [0, 1, 2])
def test_a_full_disk(mount: Mount, pages: int) -> None:
    """Refused before anything is written, or at the last file: the one before stays; room made helps."""
    disk, train, told = mount("size=512k"), state(), Told()
    saver = Saver(store(disk), told, is_asynchronous=True)
    saver.prepare(train)
    save(saver, train)
    filler = fill_but(disk, pages)
    save(saver, train)
    assert told.ends == ["saved 1", "No space left on device"]
    filler.unlink()
    assert whole_alone(disk, [1])
    save(saver, train)
    assert told.ends[2:] == ["saved 3"] and whole_alone(disk, [1, 3])
    assert saver.unsaved == {"epoch"}


def test_no_inode_left(mount: Mount) -> None:
    disk, train, told = mount("size=1m,nr_inodes=7"), state(), Told()
    saver = Saver(store(disk), told, is_asynchronous=True)
    save(saver, train)
    save(saver, train)
    assert told.ends == ["saved 1", "No space left on device"]
    assert whole_alone(disk, [1])


def test_a_disk_that_turns_read_only_and_back(mount: Mount) -> None:
    disk, train, told = mount("size=1m"), state(), Told()
    saver = Saver(store(disk), told, is_asynchronous=True)
    save(saver, train)
    mount("remount,ro,size=1m")
    save(saver, train)
    assert whole_alone(disk, [1])
    mount("remount,rw,size=1m")
    save(saver, train)
    assert told.ends == ["saved 1", "Read-only file system", "saved 3"]
    assert whole_alone(disk, [1, 3])


def test_a_disk_too_small_for_what_is_kept_is_refused_before_the_start(mount: Mount) -> None:
    disk = mount("size=4k")
    with pytest.raises(LaunchError, match=r"5,000 bytes \(4.9 KiB\) are needed for 5 checkpoints .* 4,096"):
        Saver(store(disk), Told(), is_asynchronous=True).prepare(state())


def test_a_file_size_limit(tmp_path: Path) -> None:
    train, told = state(), Told()
    saver = Saver(store(tmp_path), told, is_asynchronous=True)
    save(saver, train)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, before[1]))
    try:
        save(saver, train)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    save(saver, train)
    assert told.ends == ["saved 1", "File too large", "saved 3"]
    assert whole_alone(tmp_path, [1, 3])
