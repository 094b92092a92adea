"""Warm-up leaves no trace, and meets every shape."""

from typing import Any

import pytest
import torch
from worker_runs import TINY

from dawnrun.recipe.method import Average, Optimizer
from dawnrun.recipe.reader import read_text
from dawnrun.recipe.schedule import Schedule
from dawnrun.recipe.schema import Aggregation, Recipe
from dawnrun.train.aggregate import Aggregated
from dawnrun.train.average import MovingAverage
from dawnrun.train.checkpoint import state_values
from dawnrun.train.execution import Eager
from dawnrun.train.model import RunningStatistics
from dawnrun.train.optim import LossScale, build_optimizer
from dawnrun.train.peers import Peers
from dawnrun.train.step import Stepper, TrainState
from dawnrun.train.warmup import training_plans, validation_shapes, wants_warm_up, warm_up

CPU = torch.device("cpu")
OWN = {"lars": {"trust_coefficient": 0.001}}
PHASES = (
    "phases=[{epochs: 1, image_size: 16, global_batch_size: 8, per_device_batch_size: 2},"
    " {epochs: 2, image_size: 32, global_batch_size: 8, per_device_batch_size: 4, validation: {rectangular: true}},"
    " {epochs: 1, image_size: 32, global_batch_size: 4, per_device_batch_size: 4},"
    " {epochs: 1, image_size: 16, global_batch_size: 8, per_device_batch_size: 2}]"
)


def schedule(*overrides: str) -> Schedule:
    recipe = read_text(TINY, Recipe, [PHASES, *overrides], source="tiny.yaml").value
    return Schedule.compile(recipe, 16, 1)


def everything(name: str) -> TrainState:
    torch.manual_seed(3)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3),
        torch.nn.BatchNorm2d(4),
        torch.nn.Dropout(0.5),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(4, 30),
    ).to(memory_format=torch.channels_last)
    return TrainState(
        model=Aggregated(model, Aggregation(), Peers(), CPU),
        optimizer=build_optimizer(model, Optimizer.model_validate({"name": name, **OWN.get(name, {})})),
        statistics=RunningStatistics(model),
        loss_scale=LossScale(CPU, "dynamic"),
        average=MovingAverage(model, Average(half_life_steps=2)),
    )


def test_every_shape_once_the_largest_first() -> None:
    plans = training_plans(schedule(), first_step=0)
    assert [(plan.per_device_batch_size, plan.image_size, plan.accumulate_steps) for plan in plans] == [
        (4, 32, 2),
        (4, 32, 1),
        (2, 16, 2),
    ]
    shapes = validation_shapes(schedule("validation.batch_size=10"), first_step=0)
    assert shapes[0] == (10, 40, 32) or shapes[0] == (10, 32, 40)
    assert {(10, 32, 32), (10, 16, 16)} < set(shapes) and shapes[-1] == (10, 16, 16)


def test_shapes_that_a_resumed_run_does_not_meet_again_are_left_out() -> None:
    made = schedule("phases[3].image_size=24")
    assert {plan.image_size for plan in training_plans(made, first_step=2)} == {32, 24}
    assert (100, 16, 16) not in validation_shapes(made, first_step=2)
    assert training_plans(made, first_step=made.total_steps) == []


@pytest.mark.parametrize("name", ["sgd", "lars", "lamb"])
@pytest.mark.parametrize("step", [0, 2])
def test_nothing_is_left_of_it(name: str, step: int) -> None:
    state, made = everything(name), schedule()
    stepper = Stepper(made.recipe, "fp32", CPU)
    state.step = step
    before = {key: value.clone() for key, value in state_values(state).items()}
    random = torch.get_rng_state()
    warm_up(state, stepper, made, state.bare, Peers(), num_classes=30)
    for key, value in state_values(state).items():
        assert torch.equal(value, before.get(key, torch.zeros_like(value))), key
    assert torch.equal(torch.get_rng_state(), random)
    assert state.step == step and state.bare.training
    assert all(parameter.grad is None for parameter in state.bare.parameters())
    assert stepper.loss == 0 and stepper.input_wait_s == 0


def test_a_failure_names_the_step_of_its_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    state, made = everything("sgd"), schedule()
    stepper = Stepper(made.recipe, "fp32", CPU)

    def full(*_: object) -> None:
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr(stepper, "_forward_backward", full)
    with pytest.raises(torch.OutOfMemoryError):
        warm_up(state, stepper, made, state.bare, Peers(), num_classes=30)
    assert made.at(state.step).image_size == 32


def test_auto_is_for_accelerators() -> None:
    assert wants_warm_up("auto", torch.device("cuda", 0)) and not wants_warm_up("auto", CPU)
    assert wants_warm_up(True, CPU) and not wants_warm_up(False, torch.device("cuda", 0))


class Called(Peers):
    """Peers whose barriers are noted beside the passes."""

    __slots__ = ()
    order: list[str] = []  # noqa: RUF012 - one test at a time

    def barrier(self) -> None:
        self.order.append("barrier")


class CompilesNothing(Eager):
    compiles = True


@pytest.mark.parametrize(
    ("local_rank", "expected"), [(0, ["pass", "barrier", "barrier"]), (1, ["barrier", "pass", "barrier"])]
)
def test_one_process_of_a_machine_compiles_first(
    local_rank: int, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others wait, and then find every shape in the cache; gradients of these passes are in no step."""
    state, made = everything("sgd"), schedule()
    stepper = Stepper(made.recipe, "fp32", CPU, execution=CompilesNothing())
    Called.order = order = []
    alone = stepper.pass_alone

    def noted(*words: Any) -> None:
        order.append("pass")
        alone(*words)

    monkeypatch.setattr(stepper, "pass_alone", noted)
    before = {key: value.clone() for key, value in state_values(state).items()}
    warm_up(
        state, stepper, made, state.bare, Called(rank=local_rank, world_size=1, local_rank=local_rank), num_classes=30
    )
    num_shapes = len(training_plans(made, first_step=0))
    assert order == [each for word in expected for each in ([word] * num_shapes if word == "pass" else [word])]
    for key, value in state_values(state).items():
        assert torch.equal(value, before.get(key, torch.zeros_like(value))), key
