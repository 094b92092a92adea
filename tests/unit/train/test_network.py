"""ResNet-50 in its two forms, initial values, blurred strides, and networks of the user's own."""

import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from dawnrun.errors import RecipeError
from dawnrun.recipe.method import Model
from dawnrun.train.model import build_model
from dawnrun.train.network import BlurredConvolution


def strides(net: torch.nn.Module) -> list[tuple[int, int, int]]:
    """Strides of the three convolutions of the first block of each stage."""
    stages = (net.layer1, net.layer2, net.layer3, net.layer4)
    return [tuple(max(c.stride) for c in (s[0].conv1, s[0].conv2, s[0].conv3)) for s in stages]


def test_v1_and_v15_differ_in_where_the_stride_is() -> None:
    """25,557,032 parameters each; v1.5 halves in the 3x3, v1 in the first 1x1 (He et al., 2015)."""
    new, old = (build_model(Model(name=name), num_classes=1000, seed=0) for name in ("resnet50", "resnet50_v1"))
    assert [sum(p.numel() for p in net.parameters()) for net in (new, old)] == [25_557_032] * 2
    assert strides(new) == [(1, 1, 1), (1, 2, 1), (1, 2, 1), (1, 2, 1)]
    assert strides(old) == [(1, 1, 1), (2, 1, 1), (2, 1, 1), (2, 1, 1)]
    assert old(torch.zeros(2, 3, 64, 64)).shape == (2, 1000)


@pytest.mark.parametrize("name", ["torchvision", "small_classifier", "log_uniform_classifier", "msra_prelu"])
def test_zero_init_residual_goes_with_every_initialisation(name: str) -> None:
    for zero in (True, False):
        net = build_model(Model(initialization=name, zero_init_residual=zero), num_classes=30, seed=1)
        assert (float(net.layer3[2].bn3.weight.detach().abs().max()) == 0) is zero


def test_initial_values() -> None:
    """Each by the figures in its description."""

    def net(name: str) -> torch.nn.Module:
        return build_model(Model(initialization=name), num_classes=1000, seed=2)

    def spread(weight: torch.Tensor) -> float:
        return float(weight.detach().std())

    # torchvision: Kaiming normal over the outputs; classifier U(-1/sqrt(2048), 1/sqrt(2048)).
    plain, small, mosaic, prelu = map(net, ("torchvision", "small_classifier", "log_uniform_classifier", "msra_prelu"))
    assert spread(plain.layer1[0].conv1.weight) == pytest.approx(math.sqrt(2 / 64), rel=0.05)
    assert spread(plain.fc.weight) == pytest.approx(1 / math.sqrt(3 * 2048), rel=0.01)
    assert spread(small.fc.weight) == pytest.approx(0.01, rel=0.01)
    assert spread(small.layer1[1].conv1.weight) == pytest.approx(math.sqrt(2 / 64), rel=0.05)
    assert spread(mosaic.layer1[1].conv1.weight) == pytest.approx(math.sqrt(2 / 256), rel=0.05)
    assert mosaic.fc.bias.detach().tolist() == pytest.approx([-math.log(1000)] * 1000)
    assert 0 <= float(mosaic.bn1.weight.detach().min()) < 0.2 and float(mosaic.bn1.weight.detach().max()) < 1
    expected = math.sqrt(2 / (1 + 0.0625) / ((256 + 64) / 2))
    assert spread(prelu.layer1[1].conv1.weight) == pytest.approx(expected, rel=0.05)


def test_blur_pool() -> None:
    """Three 3x3 with a stride and three shortcuts are blurred, the first convolution (3 channels) is not."""
    net = build_model(Model(blur_pool=True), num_classes=30, seed=0)
    blurred = [name for name, module in net.named_modules() if isinstance(module, BlurredConvolution)]
    stages = ("layer2.0", "layer3.0", "layer4.0")
    assert blurred == [f"{s}.{c}" for s in stages for c in ("conv2", "downsample.0")]
    assert sum(p.numel() for p in net.parameters()) == 25_557_032 - 970 * 2049
    assert not any(name.endswith("blur") for name in net.state_dict())
    layer = BlurredConvolution(torch.nn.Conv2d(16, 4, 1, stride=2, bias=False)).double()
    images = torch.randn(2, 16, 6, 6, dtype=torch.float64)
    around = F.pad(images, (1, 1, 1, 1))
    taps = [1, 2, 1]
    by_hand = sum(taps[i] * taps[j] / 16 * around[:, :, i : i + 6, j : j + 6] for i in range(3) for j in range(3))
    torch.testing.assert_close(layer(images), layer.convolution(by_hand), rtol=1e-12, atol=1e-12)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the import path."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_own_network(package: Path) -> None:
    """docs/recipes.md: a function that takes num_classes; the seed makes its weights."""
    (package / "my_networks.py").write_text(
        "from torch import nn\n"
        "def build(num_classes):\n"
        "    return nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, num_classes))\n"
    )
    model = Model.model_validate({"import": "my_networks:build"})
    one, two = (build_model(model, num_classes=7, seed=5) for _ in range(2))
    assert one(torch.zeros(2, 3, 9, 9)).shape == (2, 7)
    assert torch.equal(one[3].weight, two[3].weight)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (
            "not_there_at_all:build",
            "not_there_at_all cannot be imported: ModuleNotFoundError: No module named 'not_there_at_all'",
        ),
        ("bad_networks:missing", "bad_networks has no missing"),
        ("bad_networks:number", "bad_networks:number is an int, not a function or class"),
        ("bad_networks:text", "bad_networks:text returned a str, not a torch.nn.Module"),
    ],
)
def test_own_networks_that_are_none(package: Path, path: str, words: str) -> None:
    (package / "bad_networks.py").write_text("number = 3\ndef text(num_classes):\n    return 'x'\n")
    with pytest.raises(RecipeError, match=r"model\.import: ") as caught:
        build_model(Model.model_validate({"import": path}), num_classes=7, seed=5)
    assert words in str(caught.value)
