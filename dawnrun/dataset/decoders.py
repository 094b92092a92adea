"""Which decoder turns images into pixels: what was asked for, or the fastest that is there for the device."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dawnrun.errors import LaunchError

DecoderName = Literal["dali", "torchvision", "vision"]
INSTALL_DALI = "pip install 'dawnrun[dali-cuda12]' (or dali-cuda13; it decodes on CPUs too)"


@dataclass(frozen=True, slots=True)
class Choice:
    """A decoder, and why it."""

    name: DecoderName
    reason: str


def choose_decoder(asked: Literal["auto"] | DecoderName, *, device: str) -> Choice:
    """The decoder for a device, by torch's name for its kind. LaunchError, with the install command, for what is missing.

    torchvision's is chosen on NVIDIA's GPUs without DALI; whether it was built to decode on them, only the worker finds out.
    """
    if asked == "dali" and not has_dali():
        raise LaunchError(f"input.decoder is dali, and NVIDIA DALI is not installed\n    {INSTALL_DALI}")
    if asked != "auto":
        return Choice(asked, "asked for")
    if has_dali():
        return Choice("dali", "the fastest that is installed")
    if device.partition(":")[0] == "cuda" and has_nvidia_gpu():
        return Choice("torchvision", f"decodes on the GPU; DALI, which is faster, is not installed: {INSTALL_DALI}")
    return Choice("vision", f"DALI, which is faster, is not installed: {INSTALL_DALI}")


def has_dali() -> bool:
    """Whether NVIDIA DALI is installed; nothing of it is imported."""
    try:
        return importlib.util.find_spec("nvidia.dali") is not None
    except ModuleNotFoundError:  # no package of NVIDIA's at all
        return False


def has_nvidia_gpu(dev: Path = Path("/dev")) -> bool:
    """Whether NVIDIA's driver has a GPU here: torch calls AMD's cuda too."""
    return any(dev.glob("nvidia[0-9]*"))
