"""Compiled steps and captured graphs against eager ones: the same weights, whatever changes from step to step."""

import shutil
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
import torch
from torch import nn

from dawnrun.errors import RecipeError, TrainError
from dawnrun.recipe.check import execution_fault
from dawnrun.recipe.reader import read_text
from dawnrun.recipe.schedule import Schedule, StepPlan
from dawnrun.recipe.schema import Recipe
from dawnrun.train.aggregate import Aggregated
from dawnrun.train.average import MovingAverage
from dawnrun.train.execution import EAGER, Captured, Compiled, Eager, open_execution
from dawnrun.train.input import Batch
from dawnrun.train.model import RunningStatistics
from dawnrun.train.optim import LossScale, build_optimizer
from dawnrun.train.peers import Peers
from dawnrun.train.step import Stepper, TrainState

CPU = torch.device("cpu")
T = TypeVar("T")
RECIPE = """
name: changing
input: {mixup_alpha: 0.4}
phases:
  - {epochs: 2, image_size: 8, global_batch_size: 8, per_device_batch_size: 4}
  - {epochs: 2, image_size: 12, global_batch_size: 8, per_device_batch_size: 8}
  - {epochs: 1, image_size: 8, global_batch_size: 12, per_device_batch_size: 4}
lr: [{epochs: [0, 2], start: 0.01, end: 0.3}, {epochs: [2, 5], start: 0.3, end: 0.01}]
momentum: {mirror: {low: 0.8, high: 0.95}}
loss: {divide_by: 16, label_smoothing: 0.1}
average: {half_life_steps: 3}
optimizer: {weight_decay: 1e-3}
"""
RULES = (
    "optimizer={weight_decay: 1e-3, nesterov: true}",
    "optimizer={weight_decay: 1e-3, decoupled_weight_decay: true, clip_gradient_norm: 0.5}",
    "optimizer={name: lars, trust_coefficient: 0.05, lr_in_momentum: true}",
    "optimizer={name: lamb, epsilon: 1e-6}",
)


class Recorder:
    """Stands where CUDA captures: a replay is the captured call itself, with whatever it closed over at that time."""

    def __init__(self) -> None:
        self.num_captures = 0

    def warm_up(self, work: Callable[[], T]) -> T:
        return work()

    def capture(self, work: Callable[[], T]) -> Callable[[], T]:
        self.num_captures += 1
        return work


def captured() -> Captured:
    return Captured(CPU, torch.float64, Recorder())  # type: ignore[arg-type]


def batches(plans: list[StepPlan]) -> Iterator[Batch]:
    """Random images in buffers of their own, as the input's are used in turn."""
    generator = torch.Generator().manual_seed(0)
    for plan in plans:
        for _ in range(plan.accumulate_steps):
            shape = (plan.per_device_batch_size, 3, plan.image_size, plan.image_size)
            images = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
            labels = torch.randint(0, 6, (plan.per_device_batch_size,), generator=generator)
            yield Batch(images=images, labels=labels, num_images=len(labels), wait_s=0.0)


def trained(
    execution: Eager, *overrides: str, overflow_at: int = -1, scaled: bool = False
) -> tuple[dict[str, torch.Tensor], list[float]]:
    """Everything an update changes after all steps of the recipe, in float64, and every step's loss."""
    recipe = read_text(RECIPE, Recipe, overrides, source="changing.yaml").value
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    net = net.append(nn.Linear(4, 6)).double().train()
    state = TrainState(
        model=Aggregated(net, recipe.aggregation, Peers(), CPU, execution),
        optimizer=build_optimizer(net, recipe.optimizer, numbers_on_device=execution.numbers_on_device),
        statistics=RunningStatistics(net),
        loss_scale=LossScale(CPU, "dynamic") if scaled else None,
        average=None if recipe.average is None else MovingAverage(net, recipe.average),
    )
    stepper, losses = Stepper(recipe, "fp64", CPU, execution=execution), []
    plans = list(Schedule.compile(recipe, 24, 1).steps())
    source = batches(plans)
    for plan in plans:
        if state.loss_scale is not None and plan.step in (overflow_at, overflow_at + 1):
            state.loss_scale.scale.fill_(torch.inf if plan.step == overflow_at else 1024.0)
        stepper.step(state, source, plan)
        losses.append(float(stepper.loss))
    slots = {
        f"{name} {key}": value
        for name, parameter in net.named_parameters()
        for key, value in state.optimizer.state[parameter].items()
    }
    averages = {} if state.average is None else {f"average {k}": v for k, v in state.average.model.state_dict().items()}
    return {**net.state_dict(), **slots, **averages}, losses


def compare(
    ours: tuple[dict[str, torch.Tensor], list[float]], theirs: tuple[dict[str, torch.Tensor], list[float]]
) -> None:
    assert ours[0].keys() == theirs[0].keys()
    for name, value in theirs[0].items():
        torch.testing.assert_close(
            ours[0][name], value, rtol=1e-9, atol=1e-12, msg=lambda text, name=name: f"{name}: {text}"
        )
    assert ours[1] == pytest.approx(theirs[1], rel=1e-9)


@pytest.mark.parametrize("rule", RULES)
def test_replayed_steps_follow_rate_momentum_mixup_size_and_accumulation(rule: str) -> None:
    """Graphs are captured once for each shape; a number that a graph had kept would make other weights."""
    execution = captured()
    compare(trained(execution, rule), trained(EAGER, rule))
    # 8 px with 2 and with 3 micro-batches, both accumulated; 12 px, one; an update for each of 1, 2 and 3 micro-batches.
    # The last phase is too short for more than its warm-up.
    assert execution._graphs.num_captures == 4  # type: ignore[attr-defined]


def test_replayed_steps_are_skipped_on_overflow() -> None:
    """The loss scale is a tensor in every mode; 17 steps, of which one overflows when the graphs are replayed."""
    compare(trained(captured(), overflow_at=5, scaled=True), trained(EAGER, overflow_at=5, scaled=True))
    clean = trained(EAGER, scaled=True)[0]
    assert not torch.equal(trained(EAGER, overflow_at=5, scaled=True)[0]["0.weight"], clean["0.weight"])


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler on the CPU")
@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("default")  # torch's compiler warns of itself
def test_compiled_steps_are_the_eager_ones() -> None:
    """One graph for each shape and kind of BatchNorm momentum, three for updates; nothing is compiled anew for a rate."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compare(trained(Compiled(CPU, torch.float64, num_shapes=2)), trained(EAGER))
    stats = torch._dynamo.utils.counters["stats"]
    assert stats["unique_graphs"] == 3, dict(stats)
    assert not torch._dynamo.utils.counters["graph_break"]


def test_what_cannot_be_captured_is_told() -> None:
    class Refusing(Recorder):
        def capture(self, work: Callable[[], T]) -> Callable[[], T]:
            raise RuntimeError("operation not permitted when stream is capturing")

    execution = Captured(CPU, torch.float64, Refusing())  # type: ignore[arg-type]
    with pytest.raises(TrainError, match="cannot be captured: operation not permitted"):
        trained(execution)


def test_where_a_mode_cannot_work() -> None:
    assert (
        execution_fault("cuda_graph", "cpu", 1)
        == "cuda_graph needs a CUDA device, and this is cpu; use eager or compile"
    )
    assert "not in 8" in str(execution_fault("cuda_graph", "cuda", 8))
    assert execution_fault("cuda_graph", "auto", 1) is None and execution_fault("compile", "mps", 8) is None
    with pytest.raises(RecipeError, match=r"compute\.execution: cuda_graph needs a CUDA device"):
        open_execution("cuda_graph", CPU, precision="fp32", world_size=1, num_shapes=1)


def test_compile_without_a_compiler_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(RecipeError, match=r"compute\.execution: compile needs a C\+\+ compiler"):
        open_execution("compile", CPU, precision="fp32", world_size=1, num_shapes=1)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("CXX")
    with pytest.raises(RecipeError, match="compile needs"):
        open_execution("compile", CPU, precision="fp32", world_size=1, num_shapes=1)
