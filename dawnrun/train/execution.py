"""How the arithmetic of a step is carried out: call by call, compiled, or as CUDA graphs that are captured once and replayed."""

import importlib.util
import os
import shutil
from collections.abc import Callable, Hashable
from typing import Any, TypeVar, cast

import torch

from dawnrun.errors import Problem, RecipeError, TrainError
from dawnrun.recipe.check import execution_fault
from dawnrun.train.large_batch import Number

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Eager:
    """Everything is called as it is written, and numbers are handed on as they are."""

    numbers_on_device = False
    compiles = False
    shows_parts = True
    """Whether forward, backward and exchange can be told apart."""

    def number(self, _name: str, value: float) -> Number:
        """What the step computes with where the plan says `value`."""
        return value

    def labels(self, labels: torch.Tensor) -> torch.Tensor:
        """The labels, where the step may look for them."""
        return labels

    def compiled(self, function: F) -> F:
        """`function`, or what stands for it."""
        return function

    def clear_gradients(self, optimizer: torch.optim.Optimizer) -> None:
        """Begin a step."""
        optimizer.zero_grad(set_to_none=True)

    def run(self, _key: Hashable, work: Callable[[], T]) -> T:
        """Do `work`; two with the same key differ in nothing but what the tensors hold."""
        return work()


EAGER = Eager()


class OnDevice(Eager):
    """Numbers that change from step to step are tensors of one element, so that no graph has to be made anew for them."""

    numbers_on_device = True

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        """`dtype`: that of the weights."""
        self._device, self._dtype = device, dtype
        self._numbers: dict[str, torch.Tensor] = {}

    def number(self, name: str, value: float) -> Number:
        """The one tensor of this name, filled without a read-back."""
        if name not in self._numbers:
            self._numbers[name] = torch.zeros((), dtype=self._dtype, device=self._device)
        return self._numbers[name].fill_(value)


class Compiled(OnDevice):
    """torch.compile: one graph for each shape of the micro-batches, and one for the update."""

    compiles = True

    def __init__(self, device: torch.device, dtype: torch.dtype, *, num_shapes: int) -> None:
        """`num_shapes`: that the recipe has; each may be compiled for one micro-batch a step, and for the last and the other ones of several."""
        super().__init__(device, dtype)
        # Beyond its limit torch would go on uncompiled and say so in a log only.
        torch._dynamo.config.recompile_limit = max(8, 4 * num_shapes)
        torch._dynamo.config.fail_on_recompile_limit_hit = True

    def compiled(self, function: F) -> F:
        """Compiled when it is first called with a shape; sizes are constants in the graph."""
        return cast(F, torch.compile(function, dynamic=False))


class CudaGraphs:
    """What torch does to capture and replay, on a stream and in a memory pool of its own. Not measured: no GPU was at hand."""

    def __init__(self) -> None:
        """There must be a CUDA device."""
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()

    def warm_up(self, work: Callable[[], T]) -> T:
        """Do `work` on the stream that captures."""
        here = torch.cuda.current_stream()
        self._stream.wait_stream(here)
        with torch.cuda.stream(self._stream):
            result = work()
        here.wait_stream(self._stream)
        return result

    def capture(self, work: Callable[[], T]) -> Callable[[], T]:
        """A function that replays `work`; nothing is computed while it is captured."""
        graph = torch.cuda.CUDAGraph()
        # The input's threads go on meanwhile: only what this thread does may spoil the capture.
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
            result = work()

        def replay() -> T:
            graph.replay()
            return result

        return replay


class Captured(OnDevice):
    """CUDA graphs: the first calls with a key are made as they are, the next is captured, and it and all others replayed.

    The first calls let libraries choose algorithms and allocate, which a capture must not; being real ones they leave
    nothing to undo. Gradients stay in place from step to step. The graphs share one memory pool: they run in turn.
    """

    num_warm_up = 3
    shows_parts = False

    def __init__(self, device: torch.device, dtype: torch.dtype, graphs: CudaGraphs) -> None:
        """`device` must be the CUDA device of `graphs`."""
        super().__init__(device, dtype)
        self._graphs = graphs
        self._calls: dict[Hashable, int] = {}
        self._replays: dict[Hashable, Callable[[], Any]] = {}
        self._labels: dict[torch.Size, torch.Tensor] = {}

    def labels(self, labels: torch.Tensor) -> torch.Tensor:
        """A copy, in the place that the graphs read."""
        if labels.shape not in self._labels:
            self._labels[labels.shape] = torch.empty_like(labels)
        return self._labels[labels.shape].copy_(labels)

    def clear_gradients(self, optimizer: torch.optim.Optimizer) -> None:
        """Zero them in place: the graphs add to these tensors."""
        optimizer.zero_grad(set_to_none=False)

    def run(self, key: Hashable, work: Callable[[], T]) -> T:
        """Call, capture or replay; replays return the same tensors each time. TrainError where `work` cannot be captured."""
        self._calls[key] = self._calls.get(key, 0) + 1
        if self._calls[key] <= self.num_warm_up:
            return self._graphs.warm_up(work)
        if key not in self._replays:
            try:
                self._replays[key] = self._graphs.capture(work)
            except RuntimeError as error:
                raise TrainError(
                    f"compute.execution: cuda_graph: the step cannot be captured: {error}\n"
                    "    a network or loss of your own must not read values back; or choose compile or eager"
                ) from error
        result: T = self._replays[key]()
        return result


def open_execution(name: str, device: torch.device, *, precision: str, world_size: int, num_shapes: int) -> Eager:
    """The recipe's `compute.execution`. RecipeError with the reason where it cannot work here."""
    dtype = torch.float64 if precision == "fp64" else torch.float32
    reason = execution_fault(name, device.type, world_size) or _lacking(name, device)
    if reason:
        raise RecipeError([Problem(key="compute.execution", message=reason)], subject="the recipe")
    if name == "compile":
        return Compiled(device, dtype, num_shapes=num_shapes)
    return Captured(device, dtype, CudaGraphs()) if name == "cuda_graph" else EAGER


def _lacking(name: str, device: torch.device) -> str | None:
    """What torch.compile needs on this device and does not find."""
    if name != "compile":
        return None
    if device.type == "cpu":
        named = os.environ.get("CXX")
        if not any(shutil.which(program) for program in ([named] if named else ["g++", "clang++", "c++"])):
            return (
                "compile needs a C++ compiler on a CPU, and there is none (g++, or the one that CXX names); use eager"
            )
    elif device.type in ("cuda", "xpu") and importlib.util.find_spec("triton") is None:
        return f"compile needs the package triton on {device.type}, and it is not installed; use eager"
    return None
