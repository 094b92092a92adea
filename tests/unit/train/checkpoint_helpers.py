"""Small training states and what is done with their checkpoints."""

from collections.abc import Mapping
from pathlib import Path

import torch

from dawnrun.recipe.method import Optimizer
from dawnrun.recipe.schema import Aggregation
from dawnrun.train.aggregate import Aggregated
from dawnrun.train.checkpoint import state_values
from dawnrun.train.checkpoint_store import CheckpointStore
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


def store(folder: Path, keep: int = 2, classes: tuple[str, ...] = ("a", "b"), best_by: str = "top5") -> CheckpointStore:
    return CheckpointStore(folder, keep=keep, classes=classes, best_by=best_by)


def save(into: CheckpointStore, train: TrainState, *why: str, validation: Mapping[str, int] | None = None) -> Path:
    extra = {"target_reached": False, "validation": validation}
    return into.save(state_values(train), step=train.step, epoch=0, why=why or ("epoch",), extra=extra).path
