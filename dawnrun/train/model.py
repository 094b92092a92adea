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
    """BatchNorm's running mean and variance under accumulation and over processes (architecture.md, section 3).

    All micro-batches of a step weigh alike: the layers keep each one's statistics alone (momentum 1), which are added up,
    and the step ends with (1 - m) before + m mean. So a layer's momentum, which a graph holds as a constant, is the same
    in all micro-batches.
    """

    def __init__(self, model: nn.Module) -> None:
        """Find the layers that keep statistics and remember each one's own momentum."""
        self._layers = [
            (module, module.momentum)
            for module in model.modules()
            if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.momentum is not None
        ]
        self._kept = [
            (buffer, momentum)
            for layer, momentum in self._layers
            for buffer in (layer.running_mean, layer.running_var)
            if buffer is not None
        ]
        self._before: list[torch.Tensor] = []
        self._sums: list[torch.Tensor] = []

    def before_step(self, accumulate_steps: int) -> None:
        """Nothing has to be done where a step is one micro-batch."""
        if accumulate_steps > 1 and self._kept:
            self._before = [buffer.clone() for buffer in self.buffers()]
            self._sums = [torch.zeros_like(buffer) for buffer in self._before]
            for layer, _ in self._layers:
                layer.momentum = 1.0

    def after_micro_batch(self) -> None:
        """Take in what the layers have kept of it."""
        if self._sums:
            torch._foreach_add_(self._sums, self.buffers())

    def after_step(self, accumulate_steps: int) -> None:
        """Put together the step's statistics, and put back each layer's own momentum."""
        if not self._sums:
            return
        momenta = [momentum for _, momentum in self._kept]
        torch._foreach_mul_(self._before, [1 - momentum for momentum in momenta])
        torch._foreach_mul_(self._sums, [momentum / accumulate_steps for momentum in momenta])
        torch._foreach_add_(self._before, self._sums)
        torch._foreach_copy_(self.buffers(), self._before)
        self._before, self._sums = [], []
        for layer, momentum in self._layers:
            layer.momentum = momentum

    def buffers(self) -> list[torch.Tensor]:
        """Running means and variances, to be averaged over processes at a snapshot."""
        return [buffer for buffer, _ in self._kept]

    def set_steps(self, step: int) -> None:
        """Count updates rather than micro-batches, so that the state does not depend on how a step was split."""
        for layer, _ in self._layers:
            if layer.num_batches_tracked is not None:
                layer.num_batches_tracked.fill_(step)
