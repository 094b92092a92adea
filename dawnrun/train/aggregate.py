"""How gradients are summed over processes."""

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from dawnrun.recipe.schema import Aggregation
from dawnrun.train.execution import EAGER, Eager
from dawnrun.train.peers import Peers


class Aggregated:
    """A model whose gradients are averaged over processes in the last micro-batch of a step.

    `forward` is what the step calls; `bare` is the model itself, which checkpoints and validation use.
    """

    def __init__(
        self, model: nn.Module, aggregation: Aggregation, peers: Peers, device: torch.device, execution: Eager = EAGER
    ) -> None:
        """Wrap `model`, which must be on `device` already; rank 0's weights are taken by all."""
        self.bare = model
        self._ddp: DistributedDataParallel | None = None
        if peers.world_size > 1 and aggregation.strategy == "ddp":
            self._ddp = _distribute(model, device)
        self.forward: Callable[[torch.Tensor], torch.Tensor] = execution.compiled(self._ddp or model)

    @property
    def exchanges(self) -> bool:
        """Whether gradients go to other processes at all."""
        return self._ddp is not None

    def without_exchange(self) -> AbstractContextManager[None]:
        """Gradients of the block stay on this process; for all micro-batches of a step but the last."""
        return nullcontext() if self._ddp is None else self._ddp.no_sync()


def _distribute(model: nn.Module, device: torch.device) -> DistributedDataParallel:
    """DDP that leaves BatchNorm's buffers to the snapshots; torch 2.14 renamed the argument for that."""
    parameters = inspect.signature(DistributedDataParallel.__init__).parameters
    buffers = "forward_sync_buffers" if "forward_sync_buffers" in parameters else "broadcast_buffers"
    options: dict[str, Any] = {buffers: False, "gradient_as_bucket_view": True}
    return DistributedDataParallel(model, device_ids=None if device.type == "cpu" else [device.index], **options)
