"""Weights frozen to be validated elsewhere or later: copied beside the training, written by a thread, kept as files."""

import shutil
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from dawnrun.errors import TrainError
from dawnrun.train.checkpoint import MODEL, Checkpoint, read_manifest
from dawnrun.train.checkpoint_store import write_folder
from dawnrun.train.host_copy import HostCopy

RESULT = "result.json"


class Snapshots:
    """The folder `snapshots/` of a run; rank 0 alone writes it.

    Each snapshot has the form of a checkpoint without what a resume needs, so `dawnrun validate` reads it too. One
    snapshot at a time is on its way to the disk: a second one waits for the first.
    """

    def __init__(self, folder: Path, weights: Mapping[str, torch.Tensor], *, classes: Sequence[str]) -> None:
        """`weights`: the tensors that are validated, parameters and buffers, which the training changes in place."""
        self.folder, self._classes = folder, tuple(classes)
        self._weights = weights
        self._copy: HostCopy[str] | None = None
        self._writer: threading.Thread | None = None
        self._written: list[Checkpoint] = []
        self._failed: OSError | None = None

    def take(self, *, step: int, epoch: int, extra: Mapping[str, Any]) -> None:
        """Freeze the weights as they are now; the copy is queued, behind one that is still being written."""
        self.finish()
        if self._copy is None:
            self._copy = HostCopy(self._weights)
        self._copy.begin()
        manifest = {"step": step, "epoch": epoch, "why": ["snapshot"], "classes": list(self._classes), **extra}
        self._writer = threading.Thread(
            target=self._write, args=(self._copy, manifest), name="snapshot-writer", daemon=True
        )
        self._writer.start()

    def _write(self, frozen: HostCopy[str], manifest: Mapping[str, Any]) -> None:
        try:
            frozen.wait()
            files = {MODEL: dict(frozen.tensors)}
            self._written.append(write_folder(self.folder / f"step-{manifest['step']:08d}", files, manifest))
        except OSError as error:
            self._failed = error

    def written(self) -> list[Checkpoint]:
        """Those that have become complete since the last call, in the order of their steps. Raises TrainError."""
        if self._failed is not None:
            raise TrainError(
                f"{self.folder}: a snapshot that was to be validated could not be written: {self._failed.strerror}"
            )
        found = []
        while self._written:
            found.append(self._written.pop(0))
        return found

    def finish(self) -> None:
        """Wait for the one that is being written."""
        if self._writer is not None:
            self._writer.join()
            self._writer = None

    def left(self, *, up_to_step: int) -> list[Checkpoint]:
        """Those of an earlier attempt that have no result yet and that training did not go back behind; drops the rest."""
        found = []
        for path in sorted(self.folder.glob("step-*")):
            snapshot = read_manifest(path)
            if snapshot is not None and (path / RESULT).exists():
                continue
            if snapshot is None or snapshot.step > up_to_step:
                shutil.rmtree(path, ignore_errors=True)
            else:
                found.append(snapshot)
        for path in self.folder.glob(".step-*"):
            shutil.rmtree(path, ignore_errors=True)
        return found

    @staticmethod
    def keep(snapshot: Checkpoint) -> None:
        """Its result is in the event log; nobody has to validate it again."""
        (snapshot.path / RESULT).touch()

    @staticmethod
    def drop(snapshot: Checkpoint) -> None:
        """It is needed no more."""
        shutil.rmtree(snapshot.path, ignore_errors=True)
