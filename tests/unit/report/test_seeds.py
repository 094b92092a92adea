"""Several seeds of one recipe: who belongs together, and the figures of the sample."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_samples import RECIPE, sample

from dawnrun.report.seeds import describe, document, figure_cells, group, headline, run_cells, student_t


def seed(number, tops=(92.5, 93.01, 92.8, 93.4), **changes):
    return sample(tops, path=f"runs/seed-{number}", recipe={**RECIPE, "seed": number}, **changes)


@pytest.mark.parametrize(
    ("degrees", "value"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (10, 2.228), (30, 2.042), (120, 1.980)],
)
def test_students_t_is_that_of_the_printed_tables(degrees, value):
    """Two-sided 95 %, as in every textbook's table."""
    assert student_t(degrees) == pytest.approx(value, abs=5e-4)


def test_a_sample_worked_by_hand():
    """10, 12, 14, 16, 18: mean 14, standard deviation sqrt(10), interval 14 -+ 2.776 sqrt(2)."""
    found = describe([10, 12, 14, 18, 16])
    assert (found.mean_s, found.median_s, found.stdev_s) == (14, 14, pytest.approx(math.sqrt(10)))
    low, high = found.interval_s
    assert (low, high) == (pytest.approx(14 - 3.926, abs=1e-3), pytest.approx(14 + 3.926, abs=1e-3))


def test_too_few_for_a_figure():
    assert describe([]).mean_s is None
    assert (describe([5.0]).mean_s, describe([5.0]).stdev_s, describe([5.0]).interval_s) == (5.0, None, None)


@given(st.lists(st.floats(1, 1e5), min_size=2, max_size=30))
def test_figures_lie_where_they_must(times):
    found = describe(times)
    assert min(times) <= found.median_s <= max(times)
    assert found.interval_s[0] <= found.mean_s <= found.interval_s[1]


def test_runs_that_differ_in_their_seed_alone_belong_together():
    other_recipe = sample(recipe={**RECIPE, "seed": 9, "optimizer": {"name": "lars"}})
    other_machine = replace(seed(8), started={**seed(8).started, "device_name": "H200"})
    groups = group([seed(1), other_recipe, seed(2), other_machine, seed(3)])
    assert [[run.recipe["seed"] for run in found.runs] for found in groups] == [[1, 2, 3]]
    assert group([seed(1), other_recipe, other_machine]) == []


def test_a_run_that_did_not_reach_the_target_is_shown_and_not_dropped():
    (found,) = group([seed(1), seed(2, (90, 91, 92, 92.9)), seed(3, (93.2, 93, 93, 93))])
    assert headline(found) == "sample: 2 of 3 runs reached the target (67 %)"
    assert [run_cells(run)[3] for run in found.runs] == ["720.0 s", "not reached", "360.0 s"]
    assert "best top-5 92.90 %" in run_cells(found.runs[1])[2]
    assert figure_cells(found)[0][1] == "540.0 s"
    kept = document(found)
    assert (kept["num_reached"], kept["share_reached"], kept["seeds"]) == (2, pytest.approx(2 / 3), [1, 2, 3])
    assert kept["time_to_accuracy"]["dawnbench"].times_s == (720.0, 360.0)


def test_the_same_seed_twice_is_named():
    (found,) = group([seed(1), seed(1)])
    assert "the same seed" in headline(found)
