"""What is in a checkpoint."""

import json
from pathlib import Path

import pytest
import torch
import torchvision
from checkpoint_helpers import CPU, advance, save, state, store

from dawnrun.errors import DataError, UsageError
from dawnrun.recipe.method import Optimizer
from dawnrun.recipe.schema import Aggregation
from dawnrun.train.aggregate import Aggregated
from dawnrun.train.checkpoint import load_model, read_manifest
from dawnrun.train.model import RunningStatistics
from dawnrun.train.optim import build_optimizer
from dawnrun.train.peers import Peers
from dawnrun.train.step import TrainState


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


def test_weights_of_another_model_are_refused_in_a_line(tmp_path: Path) -> None:
    train = state()
    found = read_manifest(save(store(tmp_path), train))
    assert found is not None
    with pytest.raises(UsageError, match=r"not a checkpoint of this recipe's model: .*size mismatch"):
        load_model(found, torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8)))


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
