"""The network, its initial values, and what the trainer must know of its layers."""

import hashlib
from collections.abc import Mapping

import torch
from torch import nn

from dawnrun.recipe.method import Model
from dawnrun.train.network import make_network


def build_model(model: Model, *, num_classes: int, seed: int) -> nn.Module:
    """The recipe's network on the CPU in fp32, with initial values that depend on the seed alone."""
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        return make_network(model, num_classes=num_classes)


def weights_sha256(state: Mapping[str, torch.Tensor]) -> str:
    """SHA-256 over names, shapes, dtypes and bytes of a state dict, in its own order, memory layout left out."""
    digest = hashlib.sha256()
    for name, tensor in state.items():
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def last_linear(model: nn.Module) -> nn.Linear | None:
    """The last linear layer in order of definition: the classifier, of which validation takes the input."""
    found = None
    for module in model.modules():
        if isinstance(module, nn.Linear):
            found = module
    return found


class RunningStatistics:
    """BatchNorm's running mean and variance under accumulation and over processes (architecture.md, section 3)."""

    def __init__(self, model: nn.Module) -> None:
        """Find the layers that keep statistics and remember each one's own momentum."""
        self._layers = [
            (module, module.momentum)
            for module in model.modules()
            if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.momentum is not None
        ]

    def before_micro_batch(self, index: int, accumulate_steps: int) -> None:
        """Set the momentum so that all micro-batches of a step weigh alike; `index` counts from 0."""
        if accumulate_steps > 1:
            remaining = accumulate_steps - index - 1
            for layer, momentum in self._layers:
                layer.momentum = momentum / (accumulate_steps - remaining * momentum)

    def after_step(self) -> None:
        """Put back each layer's own momentum."""
        for layer, momentum in self._layers:
            layer.momentum = momentum

    def buffers(self) -> list[torch.Tensor]:
        """Running means and variances, to be averaged over processes at a snapshot."""
        return [
            buffer
            for layer, _ in self._layers
            for buffer in (layer.running_mean, layer.running_var)
            if buffer is not None
        ]

    def set_steps(self, step: int) -> None:
        """Count updates rather than micro-batches, so that the state does not depend on how a step was split."""
        for layer, _ in self._layers:
            if layer.num_batches_tracked is not None:
                layer.num_batches_tracked.fill_(step)
