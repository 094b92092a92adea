"""Which decoder turns images into pixels: what was asked for, or the fastest that is installed."""

import importlib.util
from dataclasses import dataclass
from typing import Literal

from dawnrun.errors import LaunchError

DecoderName = Literal["dali", "vision"]
INSTALL_DALI = "pip install 'dawnrun[dali-cuda12]' (or dali-cuda13; it decodes on CPUs too)"


@dataclass(frozen=True, slots=True)
class Choice:
    """A decoder, and why it."""

    name: DecoderName
    reason: str


def choose_decoder(asked: Literal["auto", "dali", "vision"]) -> Choice:
    """The decoder for this machine. Raises LaunchError, with the install command, where what was asked for is missing."""
    if asked == "vision":
        return Choice("vision", "asked for")
    if has_dali():
        return Choice("dali", "asked for" if asked == "dali" else "the fastest that is installed")
    if asked == "dali":
        raise LaunchError(f"input.decoder is dali, and NVIDIA DALI is not installed\n    {INSTALL_DALI}")
    return Choice("vision", f"DALI, which is faster, is not installed: {INSTALL_DALI}")


def has_dali() -> bool:
    """Whether NVIDIA DALI is installed; nothing of it is imported."""
    try:
        return importlib.util.find_spec("nvidia.dali") is not None
    except ModuleNotFoundError:  # no package of NVIDIA's at all
        return False
