"""How many validation images accuracies fit."""

from decimal import ROUND_HALF_UP, Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dawnrun.report.val_images import FULL, WHOLE_SETS, fits, infer


def printed(correct: int, size: int, decimals: int) -> Decimal:
    return (Decimal(100 * correct) / size).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(WHOLE_SETS)), st.lists(st.integers(1, 40_000), min_size=10, max_size=40))
def test_the_size_that_made_the_accuracies_fits_all(size: int, counts: list[int]) -> None:
    rows = [(printed(count, size, 6), printed(count + 1000, size, 6)) for count in counts]
    assert all(fits(top1, size) and fits(top5, size) for top1, top5 in rows)
    text = infer(rows).text
    assert text is not None
    assert f"({len(rows)}/{len(rows)} rows)" in text


@pytest.mark.parametrize("size", [FULL, 48_240, 49_152])
def test_the_size_is_found_and_said_where_it_is_not_the_full_set(size: int) -> None:
    rows = [(printed(7 * n, size, 6), printed(11 * n + 1, size, 6)) for n in range(1000, 1040)]
    found = infer(rows)
    assert (found.text or "").startswith(str(size))
    assert (found.note == "") == (size == FULL)


def test_few_decimals_cannot_tell() -> None:
    found = infer([(Decimal("75.12"), Decimal("93.01"))] * 20)
    assert found.text is None
    assert "cannot be told" in found.note


def test_accuracies_that_fit_nothing() -> None:
    rows = [(Decimal(f"{50 + n / 7:.9f}"), Decimal(f"{70 + n / 7:.9f}")) for n in range(1, 40)]
    assert infer(rows).text is None
    assert infer([]).text is None
