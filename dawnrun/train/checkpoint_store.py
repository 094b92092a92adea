"""The checkpoints of a run: each complete or not there, whatever happens while one is written."""

import errno
import hashlib
import json
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, cast

import torch

from dawnrun.errors import LaunchError, TrainError
from dawnrun.record.events import sync_folder
from dawnrun.text import size
from dawnrun.train.checkpoint import (
    FORMAT_VERSION,
    MANIFEST,
    Checkpoint,
    Key,
    check_classes,
    contents,
    damage,
    describe,
    load,
    read_manifest,
)
from dawnrun.train.step import TrainState

NUM_BESIDE = 3
"""Checkpoints on the disk beside the newest: the best, the first that reached the target, and the one in the making."""


class _HashingFile:
    """A file that is hashed while it is written, so that no byte is read back."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.digest, self.num_bytes = file, hashlib.sha256(), 0
        self.error: OSError | None = None

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        self.num_bytes += len(data)
        try:
            return self._file.write(data)
        except OSError as error:
            self.error = error
            raise

    def flush(self) -> None:
        self._file.flush()


def _write(path: Path, value: object) -> dict[str, Any]:
    """Save `value` and push it to the disk; returns its size and checksum."""
    with path.open("wb") as file:
        hashing = _HashingFile(file)
        try:
            torch.save(value, cast(IO[bytes], hashing))
        except RuntimeError as error:  # torch's own for a write that failed; the disk's says why
            raise hashing.error or error from error
        file.flush()
        os.fsync(file.fileno())
    return {"bytes": hashing.num_bytes, "sha256": hashing.digest.hexdigest()}


def write_folder(final: Path, files: Mapping[str, object], facts: Mapping[str, Any]) -> Checkpoint:
    """Write `files` (name: what torch saves) and a manifest of `facts` aside, fsync, rename to `final`.

    An OSError leaves nothing half-made.
    """
    aside = final.with_name(f".{final.name}.{os.getpid()}")
    try:
        aside.mkdir(parents=True)
        written = {name: _write(aside / name, value) for name, value in files.items()}
        manifest = {"format_version": FORMAT_VERSION, "saved_unix_s": time.time(), "files": written, **facts}
        with (aside / MANIFEST).open("w", encoding="utf-8") as file:
            json.dump(manifest, file, indent=1, allow_nan=False)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(aside)
        shutil.rmtree(final, ignore_errors=True)  # a damaged one of the same step, which a resume went around
        aside.rename(final)
        sync_folder(final.parent)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    return describe(final, manifest)


class CheckpointStore:
    """The checkpoints of one run; `save` is called by rank 0 alone."""

    def __init__(self, folder: Path, *, keep: int, classes: Sequence[str], best_by: str = "top5") -> None:
        """`keep`: how many of the newest stay; the best by `best_by` and the first that reached the target stay too."""
        self.folder, self._keep, self._classes, self._best_by = folder, keep, tuple(classes), best_by

    def save(
        self, values: Mapping[Key, Any], *, step: int, epoch: int, why: Sequence[str], extra: Mapping[str, Any]
    ) -> Checkpoint:
        """Write aside, fsync, rename. An OSError leaves the earlier checkpoints alone and nothing half-made.

        `extra`: further fields of the manifest; `validation`, where this step was validated, with its counts.
        """
        self.folder.mkdir(exist_ok=True)
        self._check_free(_num_bytes(values))
        facts = {"step": step, "epoch": epoch, "why": list(why), "classes": list(self._classes), **extra}
        saved = write_folder(self.folder / f"step-{step:08d}", contents(values), facts)
        self._drop_old()
        return saved

    def check_room(self, num_bytes: int) -> None:
        """Raise LaunchError unless the disk has room for all that will be kept, of `num_bytes` each, and the next."""
        num_more = self._keep + NUM_BESIDE
        there = sum(checkpoint.num_bytes for checkpoint in self.complete())
        needed, free = max(num_bytes, num_bytes * num_more - there), _free_bytes(self.folder)
        if free is not None and free < needed:
            raise LaunchError(
                f"{self.folder}: {needed:,} bytes ({size(needed)}) are needed for {num_more} checkpoints of"
                f" {size(num_bytes)}, {free:,} ({size(free)}) are free; make room, lower checkpoint.keep, or"
                " start the run on another disk with --run-root"
            )

    def _check_free(self, num_bytes: int) -> None:
        """A save that cannot fit is not begun: what else writes to this disk gets the room that is left."""
        free = _free_bytes(self.folder)
        if free is not None and free < num_bytes:
            raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}: {free:,} bytes are free, {num_bytes:,} needed")

    def complete(self) -> list[Checkpoint]:
        """Every checkpoint with a manifest, oldest first; their files are not read."""
        found = (read_manifest(path) for path in sorted(self.folder.glob("step-*")))
        return [checkpoint for checkpoint in found if checkpoint is not None]

    def at(self, path: Path) -> Checkpoint:
        """The checkpoint in a folder that `latest` named on another process; TrainError if it is not seen here."""
        checkpoint = read_manifest(path)
        if checkpoint is None:
            raise TrainError(f"{path}: not seen by this process; run_root must be on a disk that all nodes share")
        return checkpoint

    def latest(self) -> tuple[Checkpoint | None, list[str]]:
        """The newest checkpoint whose checksums hold, and what is wrong with each newer one."""
        damaged: list[str] = []
        for path in sorted(self.folder.glob("step-*"), reverse=True):
            checkpoint = read_manifest(path)
            trouble = "no readable manifest" if checkpoint is None else damage(checkpoint)
            if checkpoint is not None and trouble is None:
                return checkpoint, damaged
            damaged.append(f"{path}: {trouble}")
        return None, damaged

    def load(self, checkpoint: Checkpoint, state: TrainState) -> list[str]:
        """Put a checkpoint's values into `state`, and return what it lacked; DataError if its classes are others."""
        check_classes(checkpoint, self._classes)
        return load(checkpoint, state)

    def put_aside_newer_than(self, path: Path) -> None:
        """Rename what is newer to `damaged-...`: it stays for whoever wants to know, and is no checkpoint any more."""
        for newer in self.folder.glob("step-*"):
            if newer.name > path.name:
                aside = newer.with_name(f"damaged-{newer.name}")
                shutil.rmtree(aside, ignore_errors=True)
                newer.rename(aside)

    def remove_leftovers(self) -> None:
        """Drop what a killed save left behind."""
        for path in self.folder.glob(".step-*"):
            shutil.rmtree(path, ignore_errors=True)

    def _drop_old(self) -> None:
        """Keep the newest, the best, and the first that reached the target."""
        complete = self.complete()
        kept = [
            *complete[-self._keep :],
            *[checkpoint for checkpoint in complete if "target" in checkpoint.why][:1],
            *self._best(complete),
        ]
        for checkpoint in complete:
            if checkpoint not in kept:
                _drop(checkpoint.path)

    def _best(self, complete: Sequence[Checkpoint]) -> list[Checkpoint]:
        """The first of those with the highest accuracy; none where none was validated."""
        rated = [checkpoint for checkpoint in complete if checkpoint.manifest.get("validation")]
        return [max(rated, key=self._share_correct)] if rated else []

    def _share_correct(self, checkpoint: Checkpoint) -> float:
        counts = checkpoint.manifest["validation"]
        return float(counts[f"{self._best_by}_correct"] / counts["num_images"])


def _drop(path: Path) -> None:
    """Take the name away first: what a kill leaves half removed must not look like a checkpoint."""
    aside = path.with_name(f".{path.name}.dropped")
    with suppress(OSError):
        path.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)


def _num_bytes(values: Mapping[Key, Any]) -> int:
    tensors = [value for value in values.values() if isinstance(value, torch.Tensor)]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _free_bytes(folder: Path) -> int | None:
    """Bytes that this user may still write below `folder`; None where the file system does not say."""
    usage = shutil.disk_usage(folder)
    return usage.free if usage.total else None
