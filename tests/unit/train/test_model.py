"""The network's initial values and BatchNorm's statistics under accumulation."""

import pytest
import torch

from dawnrun.recipe.method import Model
from dawnrun.train.model import RunningStatistics, build_model, last_linear, weights_sha256


def test_resnet50_is_torchvisions_with_seeded_weights() -> None:
    before = torch.random.get_rng_state()
    net = build_model(Model(), num_classes=1000, seed=3)
    assert sum(parameter.numel() for parameter in net.parameters()) == 25_557_032
    assert torch.equal(torch.random.get_rng_state(), before), "the global random state is left alone"
    assert last_linear(net) is net.fc
    again = build_model(Model(), num_classes=1000, seed=3)
    other = build_model(Model(), num_classes=1000, seed=4)
    first = weights_sha256(net.state_dict())
    assert first == weights_sha256(again.state_dict())
    assert first != weights_sha256(other.state_dict())
    assert float(net.layer1[0].bn3.weight.detach().abs().max()) == 0.0


def test_weights_hash_leaves_the_memory_layout_out_and_sees_every_byte() -> None:
    state = {"w": torch.arange(48.0).view(1, 3, 4, 4), "n": torch.tensor(1)}
    digest = weights_sha256(state)
    assert digest == weights_sha256({**state, "w": state["w"].to(memory_format=torch.channels_last)})
    changed = state["w"].clone()
    changed[0, 2, 3, 3] += 1
    assert digest != weights_sha256({**state, "w": changed})


@pytest.mark.parametrize("accumulate_steps", [1, 2, 3, 5])
def test_micro_batches_of_a_step_weigh_alike(accumulate_steps: int) -> None:
    """After a step the statistics equal one update with the mean of the micro-batches' statistics."""
    torch.manual_seed(0)
    layer = torch.nn.BatchNorm2d(2, momentum=0.1).double()
    layer.running_mean.fill_(5.0)
    statistics = RunningStatistics(torch.nn.Sequential(layer))
    parts = [torch.randn(4, 2, 3, 3, dtype=torch.float64) for _ in range(accumulate_steps)]
    statistics.before_step(accumulate_steps)
    for part in parts:
        layer(part)
        statistics.after_micro_batch()
    statistics.after_step(accumulate_steps)
    mean = torch.stack([part.mean((0, 2, 3)) for part in parts]).mean(0)
    variance = torch.stack([part.var((0, 2, 3)) for part in parts]).mean(0)
    torch.testing.assert_close(layer.running_mean, 0.9 * 5.0 + 0.1 * mean, rtol=1e-12, atol=0)
    torch.testing.assert_close(layer.running_var, 0.9 + 0.1 * variance, rtol=1e-12, atol=0)
    assert layer.momentum == 0.1
    statistics.set_steps(7)
    assert int(layer.num_batches_tracked) == 7
