"""A loss of the user's own: what is taken, and what is said of what is not."""

import pytest
import torch
from torch import nn

from dawnrun.errors import RecipeError
from dawnrun.recipe.method import Loss
from dawnrun.train.loss import build_loss

MODULE = """
import torch
from torch import nn

class Weighted(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.register_buffer("weights", torch.arange(1.0, num_classes + 1))
    def forward(self, logits, labels):
        return nn.functional.cross_entropy(logits, labels, weight=self.weights)

def nothing(num_classes):
    return None
def each(num_classes):
    return lambda logits, labels: nn.functional.cross_entropy(logits, labels, reduction="none")
def detached(num_classes):
    return lambda logits, labels: nn.functional.cross_entropy(logits, labels).item()
def broken(num_classes):
    return lambda logits, labels: nn.functional.cross_entropy(logits, labels[:, None, None])
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "users_losses.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "users_losses"


def build(path: str):
    return build_loss(
        Loss.model_validate({"import": path}), num_classes=3, device=torch.device("cpu"), dtype=torch.float64
    )


def test_a_module_is_made_for_the_classes_and_in_the_runs_precision(module):
    loss = build(f"{module}:Weighted")
    logits, labels = torch.randn(4, 3, dtype=torch.float64), torch.tensor([0, 1, 2, 2])
    weights = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    assert torch.equal(loss(logits, labels), nn.functional.cross_entropy(logits, labels, weight=weights))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nothing", "returned None, not a function of logits and labels"),
        ("each", r"returned a tensor of shape \[2\], not the mean over the images with a gradient"),
        ("detached", "returned a float, not the mean over the images"),
        ("broken", "failed on two images: RuntimeError"),
    ],
)
def test_what_is_no_loss_is_refused_before_the_first_step(module, name, words):
    with pytest.raises(RecipeError, match=f"(?s)loss.import: .*{words}"):
        build(f"{module}:{name}")
