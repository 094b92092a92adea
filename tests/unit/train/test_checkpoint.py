"""Checkpoints: complete or not there."""

import json
import shutil
from pathlib import Path

import pytest
import torch
import torchvision

from dawnrun.errors import DataError, UsageError
from dawnrun.recipe.method import Optimizer
from dawnrun.recipe.schema import Aggregation
from dawnrun.train import checkpoint as module
from dawnrun.train.aggregate import Aggregated
from dawnrun.train.checkpoint import CheckpointStore, damage, load_model, read_manifest
from dawnrun.train.model import RunningStatistics
from dawnrun.train.optim import LossScale, build_optimizer
from dawnrun.train.peers import Peers
from dawnrun.train.step import TrainState

CPU = torch.device("cpu")


def state(seed: int = 0, *, fp16: bool = False) -> TrainState:
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)).to(memory_format=torch.channels_last)
    return TrainState(
        model=Aggregated(model, Aggregation(), Peers(), CPU),
        optimizer=build_optimizer(model, Optimizer()),
        statistics=RunningStatistics(model),
        loss_scale=LossScale(CPU, "dynamic") if fp16 else None,
    )


def advance(train: TrainState, steps: int = 1) -> None:
    for _ in range(steps):
        train.optimizer.zero_grad()
        generator = torch.Generator().manual_seed(train.step)
        train.bare(torch.randn(2, 3, 6, 6, generator=generator)).square().sum().backward()
        train.optimizer.step()
        train.step += 1


def store(folder: Path, keep: int = 2, classes: tuple[str, ...] = ("a", "b")) -> CheckpointStore:
    return CheckpointStore(folder, keep=keep, classes=classes)


def save(into: CheckpointStore, train: TrainState, *why: str) -> Path:
    return into.save(train, epoch=0, why=why or ("epoch",), extra={"target_reached": False}).path


def test_a_resumed_run_goes_on_bit_for_bit(tmp_path: Path) -> None:
    straight, stopped = state(), state()
    advance(straight, 4)
    advance(stopped, 2)
    save(store(tmp_path), stopped)
    resumed = state(seed=9)
    found, damaged = store(tmp_path).latest()
    assert found is not None and not damaged
    assert store(tmp_path).load(found, resumed) == []
    assert resumed.step == 2
    advance(resumed, 2)
    for name, value in straight.bare.state_dict().items():
        assert torch.equal(value, resumed.bare.state_dict()[name]), name


def test_files_hold_plain_values_only_and_bare_names(tmp_path: Path) -> None:
    """C41, C42: the strict loader takes them without any allow-list; no wrapper's prefix is in a name."""
    train = state()
    advance(train)
    path = save(store(tmp_path), train)
    weights = torch.load(path / "model.pt", weights_only=True)
    assert list(weights) == list(train.bare.state_dict())
    assert torch.load(path / "state.pt", weights_only=True)["loss_scale"] is None
    manifest = json.loads((path / "checkpoint.json").read_text())
    assert manifest["format_version"] == 1
    assert manifest["classes"] == ["a", "b"]


def test_weights_of_a_resnet50_load_into_torchvisions(tmp_path: Path) -> None:
    model = torchvision.models.resnet50(num_classes=3)
    train = TrainState(
        model=Aggregated(model, Aggregation(), Peers(), CPU),
        optimizer=build_optimizer(model, Optimizer()),
        statistics=RunningStatistics(model),
        loss_scale=None,
    )
    path = save(store(tmp_path), train)
    fresh = torchvision.models.resnet50(num_classes=3)
    fresh.load_state_dict(torch.load(path / "model.pt", weights_only=True))
    assert torch.equal(fresh.fc.weight, model.fc.weight)


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


def test_weights_of_another_model_are_refused_in_a_line(tmp_path: Path) -> None:
    train = state()
    found = store(tmp_path).save(train, epoch=0, why=("epoch",), extra={})
    with pytest.raises(UsageError, match=r"not a checkpoint of this recipe's model: .*size mismatch"):
        load_model(found, torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8)))


def test_a_save_that_fails_leaves_the_earlier_one_and_nothing_half_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C43."""
    train = state()
    into = store(tmp_path)
    advance(train)
    kept = save(into, train)
    advance(train)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        save(into, train)
    assert [path.name for path in tmp_path.iterdir()] == [kept.name]
    assert damage(read_manifest(kept)) is None


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


def test_another_class_list_is_refused_with_the_first_difference(tmp_path: Path) -> None:
    """C15."""
    train = state()
    advance(train)
    save(store(tmp_path, classes=("1", "10", "2")), train)
    other = store(tmp_path, classes=("1", "2", "10"))
    found, _ = other.latest()
    assert found is not None
    with pytest.raises(DataError, match="class 1 is '10' in the checkpoint and '2' in the data"):
        other.load(found, state())
    with pytest.raises(DataError, match="class 2 is '2' in the checkpoint and None in the data"):
        store(tmp_path, classes=("1", "10")).load(found, state())


def test_a_checkpoint_without_a_loss_scale_says_so(tmp_path: Path) -> None:
    """C23."""
    train = state()
    advance(train)
    save(store(tmp_path), train)
    found, _ = store(tmp_path).latest()
    assert found is not None
    assert "no loss scale" in store(tmp_path).load(found, state(fp16=True))[0]
