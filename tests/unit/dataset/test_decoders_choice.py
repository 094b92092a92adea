"""Which decoder is taken, and what is said about one that is not there."""

import importlib.machinery

import pytest

from dawnrun.dataset import decoders
from dawnrun.dataset.decoders import choose_decoder
from dawnrun.errors import LaunchError


@pytest.fixture
def dali(monkeypatch: pytest.MonkeyPatch):
    """Pretends that DALI is installed, or not, or nothing of NVIDIA's."""

    def pretend(found: bool | None) -> None:
        def find_spec(name: str) -> importlib.machinery.ModuleSpec | None:
            if found is None:
                raise ModuleNotFoundError(name)
            return importlib.machinery.ModuleSpec(name, None) if found else None

        monkeypatch.setattr(decoders.importlib.util, "find_spec", find_spec)

    return pretend


def test_auto_takes_the_fastest_and_says_why(dali) -> None:
    dali(True)
    assert str(choose_decoder("auto", device="cpu")) == "Choice(name='dali', reason='the fastest that is installed')"
    dali(False)
    assert (
        choose_decoder("auto", device="cpu").name == "vision"
        and "pip install 'dawnrun[dali-cuda12]'" in choose_decoder("auto", device="cpu").reason
    )


def test_what_is_asked_for_is_taken(dali) -> None:
    dali(True)
    assert (
        choose_decoder("dali", device="cpu").name == "dali" and choose_decoder("vision", device="cpu").name == "vision"
    )


@pytest.mark.parametrize("found", [False, None])
def test_a_missing_one_is_an_error_with_the_command(dali, found: bool | None) -> None:
    dali(found)
    with pytest.raises(LaunchError, match=r"DALI is not installed\n    pip install 'dawnrun\[dali-cuda12\]'"):
        choose_decoder("dali", device="cpu")


@pytest.mark.parametrize(
    ("device", "nvidia", "name"),
    [
        ("cuda", True, "torchvision"),
        ("cuda:1", True, "torchvision"),
        ("cuda", False, "vision"),
        ("cpu", True, "vision"),
    ],
)
def test_on_an_nvidia_gpu_without_dali_torchvision_decodes(dali, monkeypatch, device, nvidia, name) -> None:
    dali(False)
    monkeypatch.setattr(decoders, "has_nvidia_gpu", lambda: nvidia)
    choice = choose_decoder("auto", device=device)
    assert choice.name == name and "pip install 'dawnrun[dali-cuda12]'" in choice.reason
    assert choose_decoder("torchvision", device=device).reason == "asked for"


def test_an_nvidia_gpu_is_known_by_its_driver(tmp_path) -> None:
    assert not decoders.has_nvidia_gpu(tmp_path)
    (tmp_path / "nvidiactl").touch()
    assert not decoders.has_nvidia_gpu(tmp_path)
    (tmp_path / "nvidia0").touch()
    assert decoders.has_nvidia_gpu(tmp_path)
