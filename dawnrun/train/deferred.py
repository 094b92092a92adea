"""Validation that the training does not wait for: by evaluators beside it, or by itself after the last step."""

import copy
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
from torch.distributed import TCPStore  # type: ignore[attr-defined]  # documented, though not exported by name

from dawnrun.dataset.decode import BadImage
from dawnrun.train.checkpoint import Checkpoint
from dawnrun.train.evaluate import EvalResult
from dawnrun.train.snapshots import Snapshots

LOST_S = 60.0
"""An evaluator that has been silent for so long is lost; it beats once a second."""
FIRST_BEAT_S = 300.0
"""Time for its first beat: torch has to be imported from a disk that others read too."""
STORE_FILE = "evaluation.json"


class Results(Protocol):
    """Where evaluators' counts come from."""

    def hand_over(self, number: int, snapshot: Checkpoint) -> None:
        """Tell every evaluator of the snapshot with this number."""
        ...

    def joined(self, number: int) -> tuple[EvalResult, list[BadImage]] | None:
        """The counts of all evaluators together, once all have them."""
        ...

    def lost(self) -> str | None:
        """Why no more results will come, or None."""
        ...


class Evaluators:
    """Rank 0's side of the store through which evaluators get snapshots and give counts.

    The store names files and carries a few hundred bytes each way; weights go through the disk. A result in the store
    is seen at once, where a shared disk may show a file seconds late.
    """

    def __init__(self, folder: Path, num_evaluators: int, *, address: str, facts: Mapping[str, Any]) -> None:
        """Open the store and say in `folder` (the attempt's) where it is, with the `facts` that evaluators need."""
        self._folder, self._num_evaluators = folder, num_evaluators
        self._store = TCPStore(address, 0, is_master=True, wait_for_workers=False)
        self._began = time.monotonic()
        self._beats: dict[int, tuple[bytes, float]] = {}
        aside = folder / f".{STORE_FILE}"
        aside.write_text(json.dumps({"address": address, "port": self._store.port, **facts}), encoding="utf-8")
        aside.replace(folder / STORE_FILE)

    def hand_over(self, number: int, snapshot: Checkpoint) -> None:
        """Tell every evaluator of the snapshot with this number."""
        self._store.set(f"snapshot/{number}", str(snapshot.path))

    def joined(self, number: int) -> tuple[EvalResult, list[BadImage]] | None:
        """The counts of all evaluators together, once all have them."""
        keys = [f"result/{number}/{evaluator}" for evaluator in range(self._num_evaluators)]
        if not self._store.check(keys):
            return None
        parts = [json.loads(self._store.get(key)) for key in keys]
        bad_images = [BadImage(**image) for part in parts for image in part.pop("bad_images")]
        return join([EvalResult(**part) for part in parts]), bad_images

    def lost(self) -> str | None:
        """Why no more results will come: an evaluator ended twice, or is silent."""
        now = time.monotonic()
        for evaluator in range(self._num_evaluators):
            if (self._folder / f"evaluator-{evaluator:03d}.lost").exists():
                return f"evaluator {evaluator} ended twice; its log says why"
            key = f"beat/{evaluator}"
            beat = self._store.get(key) if self._store.check([key]) else b""
            known, since = self._beats.get(evaluator, (b"", self._began))
            if beat != known:
                self._beats[evaluator] = (beat, now)
            elif now - since > (LOST_S if known else FIRST_BEAT_S):
                return f"nothing was heard from evaluator {evaluator} for {now - since:.0f} s"
        return None


def join(parts: list[EvalResult]) -> EvalResult:
    """Counts over all shares; the loss is the mean over all images, the seconds those of the slowest."""
    num_images = sum(part.num_images for part in parts)
    loss_sum = sum(part.loss * part.num_images for part in parts)
    return EvalResult(
        num_images=num_images,
        top1_correct=sum(part.top1_correct for part in parts),
        top5_correct=sum(part.top5_correct for part in parts),
        loss=loss_sum / max(num_images, 1),
        valid=all(part.valid for part in parts),
        eval_s=max(part.eval_s for part in parts),
    )


class Deferred:
    """Snapshots on their way to a result, in the order of their steps; rank 0's alone.

    Results are given out in that order whatever order they arrive in, so the first crossing that is seen is the first
    there was. `lost`: why the evaluators are given up, None as long as they are not.
    """

    def __init__(self, snapshots: Snapshots, results: Results | None) -> None:
        """`results` None: nobody validates during the run."""
        self._snapshots, self._results = snapshots, results
        self._known: list[Checkpoint] = []
        self._given = 0
        self._next_look = 0.0
        self._best: tuple[int, Checkpoint] | None = None
        self._crossing: Checkpoint | None = None
        self.lost: str | None = None

    def take_up(self, *, up_to_step: int) -> list[Checkpoint]:
        """Go on with what an earlier attempt left without a result."""
        left = self._snapshots.left(up_to_step=up_to_step)
        self._add(left)
        return left

    def submit(self, *, step: int, epoch: int, extra: Mapping[str, Any]) -> None:
        """Freeze the weights; they are validated elsewhere or later."""
        self._snapshots.take(step=step, epoch=epoch, extra=extra)

    def arrived(self) -> list[tuple[Checkpoint, EvalResult, list[BadImage]]]:
        """Results that have become known, in the order of their steps. Raises TrainError if a snapshot was not written."""
        self._add(self._snapshots.written())
        found = []
        while self._results is not None and self._given < len(self._known):
            result = self._results.joined(self._given)
            if result is None:
                self._look_for_losses()
                break
            found.append((self._known[self._given], *result))
            self._given += 1
        return found

    def waits(self) -> bool:
        """Whether results are still to come from evaluators. Waits for a snapshot that is being written."""
        self._snapshots.finish()
        self._add(self._snapshots.written())
        return self._results is not None and self._given < len(self._known)

    def left(self) -> list[Checkpoint]:
        """What nobody validates any more, once the last step is done; they count as given out."""
        self._snapshots.finish()
        self._add(self._snapshots.written())
        rest, self._given = self._known[self._given :], len(self._known)
        return rest

    def forget(self) -> None:
        """Drop what has no result, and will have none."""
        for snapshot in self.left():
            self._snapshots.drop(snapshot)

    def settle(self, snapshot: Checkpoint, *, value: int, crosses: bool) -> None:
        """The result of `snapshot` is in the event log: its files stay if it `crosses` or is the best by `value`."""
        if not crosses and self._best is not None and value <= self._best[0]:
            self._snapshots.drop(snapshot)
            return
        self._snapshots.keep(snapshot)
        if self._best is None or value > self._best[0]:
            if self._best is not None and self._best[1] != self._crossing:
                self._snapshots.drop(self._best[1])
            self._best = (value, snapshot)
        if crosses:
            self._crossing = snapshot

    def _add(self, snapshots: list[Checkpoint]) -> None:
        for snapshot in snapshots:
            if self._results is not None:
                self._results.hand_over(len(self._known), snapshot)
            self._known.append(snapshot)

    def _look_for_losses(self) -> None:
        """About once a second: whether results will come at all."""
        now = time.monotonic()
        if self._results is not None and now >= self._next_look:
            self._next_look = now + 1.0
            self.lost = self._results.lost()
            if self.lost is not None:
                self._results = None


def frozen_copy(model: torch.nn.Module) -> torch.nn.Module:
    """A model of its own to put stored weights into."""
    return copy.deepcopy(model).requires_grad_(False)
