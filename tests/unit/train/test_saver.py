"""Checkpoints written beside the training."""

import errno
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from checkpoint_helpers import CPU, advance, state, store
from record_factory import FakeTime

from dawnrun.errors import LaunchError, TrainError
from dawnrun.recipe.method import Average, Optimizer
from dawnrun.recipe.schema import Aggregation
from dawnrun.train import checkpoint_store
from dawnrun.train.aggregate import Aggregated
from dawnrun.train.average import MovingAverage
from dawnrun.train.checkpoint import Checkpoint, state_values
from dawnrun.train.model import RunningStatistics
from dawnrun.train.optim import LossScale, build_optimizer
from dawnrun.train.peers import Peers
from dawnrun.train.saver import Saver
from dawnrun.train.step import TrainState

EXTRA = {"target_reached": False, "validation": None}


class Told:
    """What the journal would have written."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.seconds: list[tuple[float, float]] = []
        self.failed: list[tuple[int, str, tuple[str, ...], int]] = []

    def saved(self, checkpoint: Checkpoint, *, save_s: float, blocked_s: float) -> None:
        self.steps.append(checkpoint.step)
        self.seconds.append((save_s, blocked_s))

    def save_failed(self, error: OSError, *, step: int, epoch: int, why: Sequence[str], num_bytes: int) -> None:
        self.failed.append((step, error.strerror, tuple(why), num_bytes))


class Gate:
    """Holds every fsync until it is opened, as a slow disk does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened, self.reached, fsync = threading.Event(), threading.Event(), os.fsync

        def slow(handle: int) -> None:
            self.reached.set()
            assert self.opened.wait(20)
            fsync(handle)

        monkeypatch.setattr(checkpoint_store.os, "fsync", slow)


def everything(seed: int = 0) -> TrainState:
    """A state with all that a state can have."""
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)).to(memory_format=torch.channels_last)
    return TrainState(
        model=Aggregated(model, Aggregation(), Peers(), CPU),
        optimizer=build_optimizer(model, Optimizer()),
        statistics=RunningStatistics(model),
        loss_scale=LossScale(CPU, "dynamic"),
        average=MovingAverage(model, Average(half_life_steps=4)),
    )


def disturb(train: TrainState) -> None:
    """Change every value in place, as steps do."""
    for value in state_values(train).values():
        value.add_(1)


@pytest.mark.parametrize("is_asynchronous", [True, False])
def test_what_is_written_is_the_state_at_the_save(tmp_path: Path, is_asynchronous: bool) -> None:
    train, told = everything(), Told()
    saver = Saver(store(tmp_path), told, is_asynchronous=is_asynchronous)
    saver.prepare(train)
    for _ in range(3):
        advance(train)
        frozen = {key: value.clone() for key, value in state_values(train).items()}
        saver.save(train, epoch=0, why=("epoch",), extra=EXTRA)
        disturb(train)
        saver.settle()
        found, damaged = store(tmp_path).latest()
        assert found is not None and found.step == train.step and not damaged
        loaded = everything(seed=9)
        assert store(tmp_path).load(found, loaded) == []
        for key, value in state_values(loaded).items():
            assert torch.equal(value, frozen[key]), key
    assert told.steps == [1, 2, 3] and not saver.unsaved


def test_training_goes_on_while_the_disk_is_slow_and_a_second_save_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, train, told = Gate(monkeypatch), state(), Told()
    saver = Saver(store(tmp_path), told, is_asynchronous=True)
    saver.prepare(train)
    advance(train)
    saver.save(train, epoch=0, why=("epoch",), extra=EXTRA)
    assert gate.reached.wait(20)
    assert saver.is_writing and told.steps == [], "the save returned before the disk did"
    advance(train)
    second = threading.Thread(
        target=saver.save, args=(train,), kwargs={"epoch": 1, "why": ("epoch",), "extra": EXTRA}, daemon=True
    )
    second.start()
    time.sleep(0.2)
    assert second.is_alive(), "one at a time: the second waits"
    assert len(list(tmp_path.iterdir())) == 1
    gate.opened.set()
    second.join(20)
    saver.settle()
    assert told.steps == [1, 2]
    (_, first_blocked_s), (save_s, blocked_s) = told.seconds
    assert blocked_s > 0.19 > first_blocked_s, "the wait is the second one's"
    assert save_s >= blocked_s


def test_a_synchronous_save_blocks_for_all_of_its_time(tmp_path: Path) -> None:
    time, train, told = FakeTime(), state(), Told()

    class Slow:
        def __getattr__(self, name: str) -> object:
            time.pass_s(3)
            return getattr(store(tmp_path), name)

    saver = Saver(Slow(), told, is_asynchronous=False, now=lambda: time.seconds)
    saver.save(train, epoch=0, why=("epoch",), extra=EXTRA)
    assert told.seconds == [(3, 3)] and not saver.is_writing


def test_a_refused_save_is_told_and_remembered_and_the_next_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C43."""
    train, told = state(), Told()
    saver = Saver(store(tmp_path), told, is_asynchronous=True)
    advance(train)

    def full(*_: object) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint_store.os, "fsync", full)
        saver.save(train, epoch=0, why=("epoch", "target"), extra=EXTRA)
        saver.settle()
    assert told.failed == [(1, "Disk quota exceeded", ("epoch", "target"), 1_000)]
    assert saver.unsaved == {"epoch", "target"}
    advance(train)
    saver.save(train, epoch=0, why=("last",), extra=EXTRA)
    saver.settle()
    assert told.steps == [2] and saver.unsaved == {"epoch", "target"}


def test_what_else_goes_wrong_in_the_thread_is_raised_in_the_loop(tmp_path: Path) -> None:
    """A log that cannot be written ends the run wherever it is found."""

    class Mute(Told):
        def saved(self, checkpoint: Checkpoint, *, save_s: float, blocked_s: float) -> None:
            raise TrainError("the event log cannot be written")

    train = state()
    saver = Saver(store(tmp_path), Mute(), is_asynchronous=True)
    saver.save(train, epoch=0, why=("epoch",), extra=EXTRA)
    with pytest.raises(TrainError, match="event log"):
        saver.save(train, epoch=0, why=("epoch",), extra=EXTRA)
    saver.settle()


def test_a_disk_without_room_is_refused_before_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_store, "_free_bytes", lambda _: 4_999)
    with pytest.raises(LaunchError, match=r"5,000 bytes .* 4,999"):
        Saver(store(tmp_path, keep=2), Told(), is_asynchronous=True).prepare(state())


def test_values_that_an_optimizer_makes_later_are_saved_too(tmp_path: Path) -> None:
    """LARS and LAMB make their momentum in the first step."""
    train, told = state(), Told()
    train.optimizer = build_optimizer(train.bare, Optimizer(name="lamb"))
    saver = Saver(store(tmp_path), told, is_asynchronous=True)
    saver.prepare(train)
    advance(train)
    saver.save(train, epoch=0, why=("epoch",), extra=EXTRA)
    saver.settle()
    stored = torch.load(tmp_path / "step-00000001" / "state.pt", weights_only=True)["optimizer"]
    assert {"num_updates"} < set(stored["0.weight"]) and len(stored) == 4


def test_a_network_may_keep_more_than_tensors(tmp_path: Path) -> None:
    class Own(torch.nn.Linear):
        def get_extra_state(self) -> dict[str, int]:
            return {"seen": 3}

        def set_extra_state(self, value: dict[str, int]) -> None:
            self.loaded = value

    model = Own(2, 2)
    train = TrainState(
        model=Aggregated(model, Aggregation(), Peers(), CPU),
        optimizer=build_optimizer(model, Optimizer()),
        statistics=RunningStatistics(model),
        loss_scale=None,
    )
    saver = Saver(store(tmp_path), Told(), is_asynchronous=True)
    saver.save(train, epoch=0, why=("epoch",), extra=EXTRA)
    saver.settle()
    found, _ = store(tmp_path).latest()
    assert found is not None
    store(tmp_path).load(found, train)
    assert model.loaded == {"seen": 3}
