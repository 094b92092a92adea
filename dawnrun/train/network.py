"""ResNet-50 as the recipes name it, and the user's own network."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

from dawnrun.recipe.imported import a, called, refused
from dawnrun.recipe.method import Model


def make_network(model: Model, *, num_classes: int) -> nn.Module:
    """The recipe's network with initial values from torch's generator. RecipeError if an import gives none."""
    if model.import_ is not None:
        own = called("model.import", model.import_, num_classes=num_classes)
        if not isinstance(own, nn.Module):
            raise refused("model.import", f"{model.import_} returned {a(own)}, not a torch.nn.Module")
        return own
    # Imported here: with torch loaded it takes another 1 to 6 s, which `startup` reports as part of the model.
    from torchvision.models import resnet50
    from torchvision.models.resnet import Bottleneck

    net: nn.Module = resnet50(num_classes=num_classes)
    blocks = [module for module in net.modules() if isinstance(module, Bottleneck)]
    if model.name == "resnet50_v1":
        for block in blocks:
            block.conv1.stride, block.conv2.stride = block.conv2.stride, block.conv1.stride
    initialize = INITIALIZATIONS.get(model.initialization)
    if initialize is not None:
        net.apply(initialize)
    if model.zero_init_residual:
        for block in blocks:
            nn.init.zeros_(block.bn3.weight)
    if model.blur_pool:
        _blur_before_strides(net)
    return net


def _small_classifier(module: nn.Module) -> None:
    """Classifier weights N(0, 0.01^2), all else as torchvision has it (fast.ai, --init-bn0)."""
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=0.01)


def _log_uniform_classifier(module: nn.Module) -> None:
    """Kaiming normal over the inputs; norm scales U(0, 1); classifier bias -log(classes) (Mosaic)."""
    if isinstance(module, nn.Conv2d | nn.Linear):
        nn.init.kaiming_normal_(module.weight)
    if isinstance(module, nn.BatchNorm2d):
        nn.init.uniform_(module.weight)
    if isinstance(module, nn.Linear):
        nn.init.constant_(module.bias, -math.log(module.out_features))


def _msra_prelu(module: nn.Module) -> None:
    """Normal with variance 2 / (1 + 0.25^2) over the mean of inputs and outputs; biases zero (MXNet's MSRAPrelu)."""
    if isinstance(module, nn.Conv2d | nn.Linear):
        fan_in, fan_out = nn.init._calculate_fan_in_and_fan_out(module.weight)
        nn.init.normal_(module.weight, std=math.sqrt(2 / (1 + 0.25**2) / ((fan_in + fan_out) / 2)))
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)


INITIALIZATIONS: dict[str, Callable[[nn.Module], None]] = {
    "small_classifier": _small_classifier,
    "log_uniform_classifier": _log_uniform_classifier,
    "msra_prelu": _msra_prelu,
}
"""Those other than torchvision's own."""


class BlurredConvolution(nn.Module):
    """A convolution behind a blur of each channel with (1, 2, 1) x (1, 2, 1) / 16 (Zhang, ICML 2019)."""

    blur: torch.Tensor

    def __init__(self, convolution: nn.Conv2d) -> None:
        """Keeps `convolution` as it is, its stride too."""
        super().__init__()
        self.convolution = convolution
        line = torch.tensor([1.0, 2.0, 1.0]) / 4
        kernel = torch.outer(line, line).expand(convolution.in_channels, 1, 3, 3).contiguous()
        self.register_buffer("blur", kernel, persistent=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """N,C,H,W."""
        out: torch.Tensor = self.convolution(F.conv2d(images, self.blur, padding=1, groups=self.blur.shape[0]))
        return out


def _blur_before_strides(module: nn.Module) -> None:
    """Every convolution with a stride and at least 16 channels, as ffcv's reference code chooses them."""
    for name, child in list(module.named_children()):
        if isinstance(child, nn.Conv2d) and max(child.stride) > 1 and child.in_channels >= 16:
            setattr(module, name, BlurredConvolution(child))
        else:
            _blur_before_strides(child)
