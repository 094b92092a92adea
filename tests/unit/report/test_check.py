"""Records that contradict themselves."""

from dataclasses import replace

import pytest

from dawnrun.errors import ExitCode, ReportError
from dawnrun.report.check import check_summary
from tests.report_samples import sample


def test_a_good_record_passes():
    check_summary(sample())
    check_summary(sample((50, None, 93)))


def test_fractions_are_refused():
    """C38: accuracies from 0 to 1 are not multiplied silently."""
    summary = sample()
    edited = [replace(row, top1=(row.top1 or 0) / 100, top5=(row.top5 or 0) / 100) for row in summary.epochs]
    with pytest.raises(ReportError, match="percent from 0 to 100") as caught:
        check_summary(replace(summary, epochs=tuple(edited)))
    assert caught.value.exit_code == ExitCode.USAGE


@pytest.mark.parametrize("gone", [0, 1, 3])
def test_a_missing_row_is_refused(gone):
    """C38: one row removed from the record."""
    summary = sample()
    left = tuple(row for i, row in enumerate(summary.epochs) if i != gone)
    with pytest.raises(ReportError, match=r"row|rows"):
        check_summary(replace(summary, epochs=left))


def test_a_missing_validation_is_refused():
    """C38: an epoch that the schedule validates has lost its result."""
    summary = sample()
    blank = replace(summary.epochs[1], top1=None, top5=None, validation={})
    with pytest.raises(ReportError, match="epoch 2 was to be validated"):
        check_summary(replace(summary, epochs=(summary.epochs[0], blank, *summary.epochs[2:])))


def test_the_last_validation_of_a_live_run_may_be_pending():
    summary = sample()
    blank = replace(summary.epochs[-1], top1=None, top5=None, validation={})
    check_summary(replace(summary, status="running", reason="", epochs=(*summary.epochs[:-1], blank)))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"step": 150}, "the schedule says 100"),
        ({"top1_correct": 0.725}, "whole numbers"),
        ({"top1_correct": 49_000}, "cannot be"),
        ({"top5_correct": 60_000}, "cannot be"),
        ({"top5": 92.6}, "92.500 %"),
    ],
)
def test_rows_that_cannot_be(changes, said):
    summary = sample()
    epochs = (replace(summary.epochs[0], **changes), *summary.epochs[1:])
    with pytest.raises(ReportError, match=said):
        check_summary(replace(summary, epochs=epochs))


def test_more_rows_than_epochs():
    with pytest.raises(ReportError, match="4 rows for a schedule of 3 epochs"):
        check_summary(replace(sample(), total_epochs=3))


def test_ten_contradictions_are_shown():
    summary = sample([50.0] * 15)
    epochs = tuple(replace(row, top5=0.5) for row in summary.epochs)
    with pytest.raises(ReportError, match="and 5 more"):
        check_summary(replace(summary, epochs=epochs))
