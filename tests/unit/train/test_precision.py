"""Which arithmetic `auto` finds."""

import pytest
import torch

from dawnrun.train import precision

CPU = torch.device("cpu")


@pytest.mark.parametrize("asked", ["bf16", "fp16", "fp32", "fp64"])
def test_what_is_asked_for_is_obeyed(asked: str) -> None:
    assert precision.resolve_precision(asked, CPU) == asked


@pytest.mark.parametrize(
    ("has_it", "bf16_s", "found"), [(True, 0.5, "bf16"), (True, 0.8, "fp32"), (False, 0.1, "fp32"), (True, 3.0, "fp32")]
)
def test_auto_on_a_cpu_needs_the_instructions_and_a_clear_win(
    monkeypatch: pytest.MonkeyPatch, has_it: bool, bf16_s: float, found: str
) -> None:
    """C26: flags alone do not say that a path is fast."""
    monkeypatch.setattr(precision, "_cpu_has_bf16", lambda: has_it)
    monkeypatch.setattr(precision, "_bf16_share", lambda: bf16_s)
    assert precision.resolve_precision("auto", CPU) == found


def test_the_trial_times_a_real_convolution() -> None:
    assert 0.001 < precision._bf16_share(rounds=2) < 1000
    assert isinstance(precision._cpu_has_bf16(), bool)
