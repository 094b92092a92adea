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
    assert str(choose_decoder("auto")) == "Choice(name='dali', reason='the fastest that is installed')"
    dali(False)
    assert (
        choose_decoder("auto").name == "vision"
        and "pip install 'dawnrun[dali-cuda12]'" in choose_decoder("auto").reason
    )


def test_what_is_asked_for_is_taken(dali) -> None:
    dali(True)
    assert choose_decoder("dali").name == "dali" and choose_decoder("vision").name == "vision"


@pytest.mark.parametrize("found", [False, None])
def test_a_missing_one_is_an_error_with_the_command(dali, found: bool | None) -> None:
    dali(found)
    with pytest.raises(LaunchError, match=r"DALI is not installed\n    pip install 'dawnrun\[dali-cuda12\]'"):
        choose_decoder("dali")
