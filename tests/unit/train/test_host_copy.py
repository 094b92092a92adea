"""Copies to the host beside the training."""

import pytest
import torch

from dawnrun.train.host_copy import HostCopy

CPU = torch.device("cpu")
DEVICES = [
    CPU,
    pytest.param(
        torch.device("cuda"),
        marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")],
    ),
]


def tensors(device: torch.device) -> dict[str, torch.Tensor]:
    weight = torch.randn(8, 3, 3, 3).to(memory_format=torch.channels_last)
    values = {"weight": weight, "count": torch.tensor(7), "scale": torch.tensor(2.0), "mean": torch.randn(8)}
    return {name: value.to(device) for name, value in values.items()}


@pytest.mark.parametrize("device", DEVICES)
def test_the_values_are_those_of_begin_whatever_happens_after(device: torch.device) -> None:
    live = tensors(device)
    copy = HostCopy(live)
    for _ in range(3):
        before = {name: value.cpu().clone() for name, value in live.items()}
        copy.begin()
        for value in live.values():
            value.add_(1)
        copy.wait()
        assert copy.ready()
        for name, value in before.items():
            assert copy.tensors[name].device == CPU
            assert torch.equal(copy.tensors[name], value), name
            assert copy.tensors[name].dtype == value.dtype and copy.tensors[name].stride() == value.stride(), name


@pytest.mark.parametrize("device", DEVICES)
def test_memory_is_allocated_once(device: torch.device) -> None:
    live = tensors(device)
    copy = HostCopy(live)
    places = [value.data_ptr() for value in copy.tensors.values()]
    assert copy.num_bytes == sum(value.numel() * value.element_size() for value in live.values())
    for _ in range(2):
        copy.begin()
        copy.wait()
        assert [value.data_ptr() for value in copy.tensors.values()] == places


def test_parameters_with_gradients_are_copied_without_a_graph() -> None:
    parameter = torch.nn.Parameter(torch.ones(3))
    copy = HostCopy({"p": parameter})
    copy.begin()
    assert not copy.tensors["p"].requires_grad
    assert torch.equal(copy.tensors["p"], torch.ones(3))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_begin_does_not_wait_for_the_device() -> None:
    """A sync inside `begin` would raise here."""
    live = tensors(torch.device("cuda"))
    copy = HostCopy(live)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        copy.begin()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    copy.wait()
