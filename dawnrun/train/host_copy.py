"""Values frozen while training goes on: tensors of the device copied to host memory that is allocated once."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, TypeVar

import torch

from dawnrun.train.input.buffers import copy_stream

K = TypeVar("K", bound=Hashable)


class HostCopy(Generic[K]):
    """A set of tensors and room for one copy of it on the host. `begin`, train on, `wait`, read `tensors`, `begin` ...

    On an accelerator `begin` only queues work: a copy on the device in the order of the step's own kernels, which
    later steps cannot change, and from there, on a stream beside, to pinned memory. That takes the tensors' size once
    more on the device. On a CPU `begin` makes the copy and returns when it is there.
    """

    def __init__(self, tensors: Mapping[K, torch.Tensor]) -> None:
        """`tensors`: name -> tensor, all on one device, changed in place only. Allocates, and touches every page."""
        self._sources = [tensor.detach() for tensor in tensors.values()]
        device = self._sources[0].device
        self._device, self._stream = device, copy_stream(device)
        pinned = self._stream is not None and device.type == "cuda"
        hosts = [
            torch.zeros_like(source, device="cpu", pin_memory=pinned).fill_(0)  # fill_: zeros alone takes no memory yet
            for source in self._sources
        ]
        self._staged = hosts if self._stream is None else [torch.empty_like(source) for source in self._sources]
        self._copied: torch.Event | None = None
        self.tensors: Mapping[K, torch.Tensor] = dict(zip(tensors, hosts, strict=True))
        self.num_bytes = sum(host.numel() * host.element_size() for host in hosts)

    @torch.no_grad()
    def begin(self) -> None:
        """Freeze the values that all work queued before leaves in the tensors. The copy before must be done with."""
        assert self.ready(), "the copy before is still under way"
        for alike, targets in _by_dtype(self._sources, self._staged):
            torch._foreach_copy_(targets, alike)
        if self._stream is None:
            return
        self._stream.wait_stream(torch.accelerator.current_stream(self._device))
        with self._stream:
            for staged, host in zip(self._staged, self.tensors.values(), strict=True):
                host.copy_(staged, non_blocking=True)
        self._copied = torch.Event(device=self._device, blocking=True)
        self._copied.record(self._stream)

    def ready(self) -> bool:
        """Whether `tensors` hold the values of the last `begin`; never waits."""
        return self._copied is None or self._copied.query()

    def wait(self) -> None:
        """Return once they do; any thread may wait, and sleeps."""
        if self._copied is not None:
            self._copied.synchronize()


def _by_dtype(
    sources: Iterable[torch.Tensor], targets: Iterable[torch.Tensor]
) -> Iterable[tuple[list[torch.Tensor], list[torch.Tensor]]]:
    """Both lists in parts of one dtype each: torch copies a list at once only then."""
    parts: dict[torch.dtype, tuple[list[torch.Tensor], list[torch.Tensor]]] = {}
    for source, target in zip(sources, targets, strict=True):
        alike, others = parts.setdefault(source.dtype, ([], []))
        alike.append(source)
        others.append(target)
    return parts.values()
