"""The other processes of the run, and the few collective operations that are used between them."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Peers:
    """This process's place among the processes of a run; every operation is a no-op where it is alone."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which keeps the clock, the log and the checkpoints."""
        return self.rank == 0

    def sum_(self, values: torch.Tensor) -> torch.Tensor:
        """Replace `values` by their sum over all processes."""
        if self.world_size > 1:
            dist.all_reduce(values)
        return values

    def average_(self, tensors: Sequence[torch.Tensor]) -> None:
        """Replace floating-point `tensors`, all of one dtype, by their mean over all processes, in one exchange."""
        if self.world_size == 1 or not tensors:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        dist.all_reduce(flat)
        flat /= self.world_size
        for tensor, part in zip(tensors, torch.split(flat, [tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(part.view_as(tensor))

    def broadcast_(self, tensors: Iterable[torch.Tensor]) -> None:
        """Replace `tensors` by rank 0's."""
        if self.world_size > 1:
            for tensor in tensors:
                dist.broadcast(tensor, 0)

    def share(self, value: T) -> T:
        """Rank 0's `value`, a plain object, on every process."""
        box = [value]
        if self.world_size > 1:
            dist.broadcast_object_list(box, 0)
        return box[0]

    def largest(self, value: float, device: torch.device) -> float:
        """The largest of all processes' values."""
        box = torch.tensor(value, dtype=torch.float32, device=device)
        if self.world_size > 1:
            dist.all_reduce(box, dist.ReduceOp.MAX)
        return float(box)

    def barrier(self) -> None:
        """Wait for all processes."""
        if self.world_size > 1:
            dist.barrier()

    def close(self) -> None:
        """Leave the group; peers that are gone already are no error."""
        if self.world_size > 1 and dist.is_initialized():
            dist.destroy_process_group()


def connect(device: torch.device, comm_timeout_s: float) -> Peers:
    """Join the group that torchrun's environment names (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_*), or be alone."""
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    if world_size == 1:
        return Peers()
    backend = dist.get_default_backend_for_device(device)
    dist.init_process_group(backend, timeout=timedelta(seconds=comm_timeout_s))
    return Peers(rank=dist.get_rank(), world_size=world_size, local_rank=int(os.environ["LOCAL_RANK"]))
