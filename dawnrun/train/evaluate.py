"""Validation: each image once over all processes, counted in integers."""

import time
from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from dawnrun.train.input import Batch
from dawnrun.train.model import last_linear
from dawnrun.train.peers import Peers
from dawnrun.train.step import Stepper


@dataclass(frozen=True, kw_only=True, slots=True)
class EvalResult:
    """Counts over all validation images; `loss` is their mean cross-entropy; not `valid`: some output was not finite."""

    num_images: int
    top1_correct: int
    top5_correct: int
    loss: float
    valid: bool
    eval_s: float


def count_correct(logits: torch.Tensor, labels: torch.Tensor, k: int) -> torch.Tensor:
    """How many rows have at most k logits, the label's own included, >= the label's: ties count against.

    `logits`: N,C; `labels`: int64 N; returns an int64 tensor of one element on the same device.
    """
    own = logits.gather(1, labels[:, None])
    return ((logits >= own).sum(1) <= k).sum()


class Classifier:
    """A model's logits with its last linear layer in fp32, whatever the rest runs in."""

    def __init__(self, model: nn.Module, stepper: Stepper) -> None:
        """The layer's input is taken by a hook that is there for the length of a validation only."""
        self._model, self._stepper = model, stepper
        self._layer = last_linear(model)
        self._features: torch.Tensor | None = None

    def __enter__(self) -> "Classifier":
        """Switch to evaluation and listen to the last layer."""
        self._was_training = self._model.training
        self._model.eval()
        self._hook = self._layer.register_forward_pre_hook(self._keep) if self._layer else None
        return self

    def __exit__(self, *_: object) -> None:
        """Put the model back as it was."""
        self._model.train(self._was_training)
        if self._hook:
            self._hook.remove()

    def _keep(self, _module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        self._features = inputs[0]

    def logits(self, images: torch.Tensor) -> torch.Tensor:
        """N,C in fp32 (fp64 in an fp64 run) of normalised images N,3,H,W."""
        with self._stepper.autocast():
            out: torch.Tensor = self._model(images)
        if out.dtype in (torch.float32, torch.float64) or self._layer is None or self._features is None:
            return out if out.dtype == torch.float64 else out.float()
        bias = None if self._layer.bias is None else self._layer.bias.float()
        return F.linear(self._features.float(), self._layer.weight.float(), bias)


def evaluate(
    model: nn.Module, batches: Iterable[Batch], stepper: Stepper, peers: Peers, *, flip_average: bool
) -> EvalResult:
    """Validate `model` on every process's share of the images; the counts do not depend on the shares."""
    began = time.perf_counter()
    device = next(model.parameters()).device
    counts = torch.zeros(4, dtype=torch.int64, device=device)  # images, top-1, top-5, images with a bad output
    loss_sum = torch.zeros((), dtype=torch.float64 if device.type in ("cpu", "cuda") else torch.float32, device=device)
    with torch.inference_mode(), Classifier(model, stepper) as classifier:
        for batch in batches:
            images = stepper.normalize(batch.images)
            logits = classifier.logits(images)
            if flip_average:
                logits = (logits + classifier.logits(images.flip(3))) / 2
            counts[0] += batch.num_images
            counts[1] += count_correct(logits, batch.labels, 1)
            counts[2] += count_correct(logits, batch.labels, 5)
            counts[3] += (~logits.isfinite().all(1)).sum()
            loss_sum += F.cross_entropy(logits, batch.labels, reduction="sum")
    num_images, top1, top5, bad = (int(count) for count in peers.sum_(counts).tolist())
    loss = peers.sum_(loss_sum).item() / max(num_images, 1)
    return EvalResult(
        num_images=num_images,
        top1_correct=top1,
        top5_correct=top5,
        loss=loss,
        valid=bad == 0,
        eval_s=time.perf_counter() - began,
    )
