"""Saves checkpoints beside the training: frozen in the step loop, written by a thread, never more than one at a time."""

import copy
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from dawnrun.train.checkpoint import Checkpoint, Key, state_values
from dawnrun.train.checkpoint_store import CheckpointStore
from dawnrun.train.host_copy import HostCopy
from dawnrun.train.step import TrainState

WRITER_NICENESS = 10
"""Added to the writing thread's, where a thread has one (Linux): on a CPU that computes too, it takes the time that is left."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Save:
    """One save: what it is of, and what it cost. `blocked_s`: seconds that the step loop stood still for it."""

    step: int
    epoch: int
    why: tuple[str, ...]
    extra: Mapping[str, Any]
    num_bytes: int
    began: float
    blocked_s: float


class Told(Protocol):
    """Who is told how a save ended, from the thread that made it."""

    def saved(self, checkpoint: Checkpoint, *, save_s: float, blocked_s: float) -> None:
        """It is complete; `save_s`: seconds from the freeze on."""

    def save_failed(self, error: OSError, *, step: int, epoch: int, why: Sequence[str], num_bytes: int) -> None:
        """It could not be written."""


class Saver:
    """Rank 0's. `unsaved`: why the saves that failed were asked for; read it after `settle`."""

    def __init__(
        self,
        store: CheckpointStore,
        told: Told,
        *,
        is_asynchronous: bool,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Not asynchronous: `save` returns when all is written."""
        self._store, self._told, self._is_asynchronous, self._now = store, told, is_asynchronous, now
        self._live: dict[Key, torch.Tensor] = {}
        self._copy: HostCopy[Key] | None = None
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self.unsaved: set[str] = set()

    def prepare(self, state: TrainState) -> None:
        """Allocate what saves need. LaunchError if the disk has no room for the checkpoints of a run."""
        self._store.check_room(self._room(_tensors(state_values(state))).num_bytes)

    def save(self, state: TrainState, *, epoch: int, why: Sequence[str], extra: Mapping[str, Any]) -> None:
        """Freeze `state` and have it written. Waits for the save before, whose memory this one needs."""
        began = self._now()
        self.settle()
        values = state_values(state)
        room = self._room(_tensors(values))
        room.begin()
        # Few and small: what a network of the user's own keeps beside its tensors.
        plain = {key: copy.deepcopy(value) for key, value in values.items() if not isinstance(value, torch.Tensor)}
        save = Save(
            step=state.step,
            epoch=epoch,
            why=tuple(why),
            extra=extra,
            num_bytes=room.num_bytes,
            began=began,
            blocked_s=self._now() - began,
        )
        if self._is_asynchronous:
            self._thread = threading.Thread(
                target=self._write_beside, args=(save, room, plain), name="checkpoint-writer", daemon=True
            )
            self._thread.start()
        else:
            self._write(save, room, plain)

    @property
    def is_writing(self) -> bool:
        """Whether a save is under way, or its end has not been looked at."""
        return self._thread is not None

    def settle(self) -> None:
        """Return when nothing is under way; raises what went wrong beside the training, except for a disk's refusal."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _room(self, live: dict[Key, torch.Tensor]) -> HostCopy[Key]:
        """Host memory for these tensors: the same at every save, unless an optimizer has made itself further ones."""
        is_known = live.keys() == self._live.keys() and all(
            _place(live[key]) == _place(self._live[key]) for key in live
        )
        if self._copy is None or not is_known:
            self._live, self._copy = live, HostCopy(live)
        return self._copy

    def _write_beside(self, save: Save, room: HostCopy[Key], plain: Mapping[Key, Any]) -> None:
        """The thread: an error is kept for the step loop."""
        try:
            if sys.platform == "linux":
                os.nice(WRITER_NICENESS)  # of this thread alone
            self._write(save, room, plain)
        except BaseException as error:  # noqa: BLE001  whatever it is, settle raises it
            self._error = error

    def _write(self, save: Save, room: HostCopy[Key], plain: Mapping[Key, Any]) -> None:
        try:
            room.wait()
            checkpoint = self._store.save(
                {**room.tensors, **plain}, step=save.step, epoch=save.epoch, why=save.why, extra=save.extra
            )
        except OSError as error:
            self.unsaved.update(save.why)
            self._told.save_failed(error, step=save.step, epoch=save.epoch, why=save.why, num_bytes=save.num_bytes)
            return
        save_s = self._now() - save.began
        self._told.saved(checkpoint, save_s=save_s, blocked_s=save.blocked_s if self._is_asynchronous else save_s)


def _place(tensor: torch.Tensor) -> tuple[int, torch.Size, tuple[int, ...], torch.dtype]:
    """What makes it the same memory seen in the same way."""
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype


def _tensors(values: Mapping[Key, Any]) -> dict[Key, torch.Tensor]:
    return {key: value for key, value in values.items() if isinstance(value, torch.Tensor)}
