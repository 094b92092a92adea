"""What an audit says of small entries made for one question each."""

from decimal import Decimal
from pathlib import Path

import pytest

from dawnrun.errors import ReportError
from dawnrun.report.audit import Audit, Source, audit, audit_bytes

HEAD = "epoch\thours\ttop1Accuracy\ttop5Accuracy\n"
GOOD_JSON = """{
  "version": "v1.0",
  "author": "a team",
  "authorEmail": "team@example.invalid",
  "framework": "PyTorch",
  "model": "ResNet-50",
  "hardware": "4 p3.16xlarge (AWS)",
  "costPerHour": 97.92,
  "timestamp": "2020-01-02",
  "usedBlacklist": true
}
"""


def of(tsv: str, json: str | None = None) -> Audit:
    return audit_bytes(
        "e",
        tsv=Source(file="e.tsv", data=tsv.encode()),
        json=None if json is None else Source(file="e.json", data=json.encode()),
    )


def places(found: Audit) -> list[tuple[str, int]]:
    return [(defect.code, defect.line) for defect in found.defects]


def test_first_crossing_counts_whatever_comes_later() -> None:
    """C37."""
    found = of(HEAD + "1\t0.1\t73\t92.5\n2\t0.2\t75.1\t93.01\n3\t0.3\t74\t92.8\n4\t0.4\t76\t93.4\n")
    assert (found.figures.hours_top5_93, found.figures.epoch_top5_93) == (Decimal("0.2"), 2)
    assert found.figures.dips_below_93_later == 1
    assert places(found) == [("dips_below_93_after_crossing", 4)]


def test_no_crossing_no_time() -> None:
    """C37."""
    found = of(HEAD + "1\t0.1\t50\t75\n2\t0.2\t70\t92.999\n")
    assert found.figures.hours_top5_93 is None
    assert found.figures.clock_leaderboard is None
    assert found.figures.best_top5 == Decimal("92.999")
    assert any("not reached: the best row has 92.999 %" in note for note in found.notes)


@pytest.mark.parametrize(
    ("hours", "nearest", "leaderboard"), [("0.25", "0:15:00", "0:15:00"), ("0.2501", "0:15:00", "0:15:01")]
)
def test_clock_is_rounded_up(hours: str, nearest: str, leaderboard: str) -> None:
    found = of(HEAD + f"1\t0.1\t50\t75\n2\t{hours}\t75\t93\n").figures
    assert (found.clock_nearest, found.clock_leaderboard) == (nearest, leaderboard)


def test_good_entry_has_no_defect() -> None:
    found = of(HEAD + "1\t0.1\t50.002\t75.004\n2\t0.3\t75.002\t93.002\n", GOOD_JSON)
    assert found.defects == ()
    assert found.notes == ()
    assert found.figures.cost_usd_exact == Decimal("29.376")
    assert found.figures.val_images == "50000 (2/2 rows)"


@pytest.mark.parametrize(
    ("hardware", "printed", "code", "cost_per_hour"),
    [
        ("4 p3.16xlarge (AWS)", "24.48", "costPerHour_of_one_machine", "97.92"),
        ("32 * V100 (4 machines - AWS p3.16xlarge)", "24.48", "costPerHour_of_one_machine", "97.92"),
        ("32 * V100 (AWS p3.16xlarge)", "48.96", "costPerHour_of_2_of_4_machines", "97.92"),
        ("64 nodes (Amazon EC2 [c5.18xlarge])", "3.06", "costPerHour_of_one_machine", "195.84"),
        ("16 nodes (8*V100)", "24.48", "costPerHour_of_one_machine", "391.68"),
        ("8 * V100 (AWS p3.16xlarge)", "24.48", "", "24.48"),
        ("16 nodes of our own", "12.5", "", "12.5"),
        ("4 p3.16xlarge", "40", "", "40"),
        ("4 p3.16xlarge", "-1", "costPerHour_not_positive", None),
    ],
)
def test_price_of_all_machines(hardware: str, printed: str, code: str, cost_per_hour: str | None) -> None:
    """C39: the price is that of all nodes."""
    json = GOOD_JSON.replace("4 p3.16xlarge (AWS)", hardware).replace("97.92", printed)
    found = of(HEAD + "1\t0.1\t50.002\t75.004\n2\t0.3\t75.002\t93.002\n", json)
    assert places(found) == ([(code, 8)] if code else [])
    assert found.figures.cost_per_hour_usd == (Decimal(cost_per_hour) if cost_per_hour else None)


def test_two_prices_are_no_price() -> None:
    json = GOOD_JSON.replace('"timestamp"', '"costPerHour": 24.48,\n  "timestamp"')
    found = of(HEAD + "1\t0.1\t50\t75\n2\t0.3\t75\t93\n", json)
    assert ("duplicate_keys_costPerHour", 9) in places(found)
    assert found.figures.cost_usd_exact is None


@pytest.mark.parametrize(
    ("hours", "expected"),
    [
        (["0.1", "0.2", "0.3", "0.05", "0.1", "0.2"], None),  # a restart: what came before is lost
        (["0.1", "0.2", "0.15", "0.3", "0.4", "0.5"], "0.5"),  # one wrong figure, not at the crossing
        (["0.1", "0.11", "0.1", "0.11", "0.1", "0.1"], "0.62"),  # durations
        (["0.1", "0.2", "0.3", "0.4", "0.5", "0.5"], "0.5"),  # a figure twice
        (["0.1", "0.2", "0.3", "0.4", "0.5", "0.45"], None),  # the crossing's own
    ],
)
def test_hours_that_do_not_rise(hours: list[str], expected: str | None) -> None:
    accuracies = [("10", "30"), ("30", "55"), ("45", "70"), ("60", "82"), ("70", "90"), ("75", "93")]
    rows = [f"{n}\t{h}\t{a}\t{b}\n" for n, (h, (a, b)) in enumerate(zip(hours, accuracies, strict=True), 1)]
    found = of(HEAD + "".join(rows))
    assert found.figures.hours_top5_93 == (Decimal(expected) if expected else None)
    assert any(code.startswith("hours_not_increasing_") for code, _ in places(found))


def test_rows_out_of_order_are_read_in_order() -> None:
    found = of(HEAD + "1\t0.1\t50\t75\n3\t0.3\t75\t93\n2\t0.2\t70\t90\n4\t0.4\t76\t93.5\n")
    assert (found.figures.hours_top5_93, found.figures.dips_below_93_later) == (Decimal("0.3"), 0)
    assert places(found) == [("epoch_not_increasing_at_2", 4), ("hours_not_increasing_1x", 4)]


def test_missing_and_repeated_epochs_are_named_with_their_lines() -> None:
    found = of(
        HEAD + "1\t0.1\t10\t30\n2\t0.2\t20\t40\n2\t0.3\t30\t50\n3\t0.4\t40\t60\n6\t0.5\t50\t70\n7\t0.6\t75\t93\n"
    )
    assert places(found) == [("epoch_not_increasing_at_2", 4), ("epoch_missing_4-5", 6)]
    assert found.figures.hours_top5_93 == Decimal("0.6")


def test_a_missing_epoch_before_the_crossing_leaves_it_open() -> None:
    found = of(HEAD + "1\t0.1\t10\t30\n2\t0.2\t20\t40\n3\t0.3\t40\t60\n4\t0.4\t74\t92.9\n6\t0.5\t75\t93.1\n")
    assert found.figures.hours_top5_93 is None
    assert any("cannot be told" in note for note in found.notes)


@pytest.mark.parametrize("scale", ["0.04", "0.0000"])
def test_a_best_accuracy_below_a_twentieth_is_neither_percent_nor_fraction(scale: str) -> None:
    found = of(HEAD + f"1\t0.1\t0.01\t{scale}\n2\t0.2\t0.02\t{scale}\n")
    assert found.figures.hours_top5_93 is None
    assert found.figures.best_top5 in (None, Decimal(0))


def test_hours_before_epochs_is_legal_and_named() -> None:
    found = of("hours\tepoch\ttop1Accuracy\ttop5Accuracy\n0.15\t1\t50\t75\n0.35\t2\t75\t93\n")
    assert places(found) == [("column_order_hours_first", 1)]
    assert found.figures.epoch_top5_93 == 2


@pytest.mark.parametrize(
    "data", [b"", b"\n\n", b"\x00\xff\xfe", b"epoch\thours\ttop1Accuracy\ttop5Accuracy\n", b"\xff\xfea\x00"]
)
def test_nothing_to_read_is_a_defect_and_no_figure(data: bytes) -> None:
    found = audit_bytes("e", tsv=Source(file="e.tsv", data=data), json=None)
    assert any(code in ("no_complete_row", "empty_file") for code, _ in places(found))
    assert found.figures.hours_top5_93 is None


def test_huge_numbers_are_no_figures() -> None:
    found = of(HEAD + "1\t1e999999\t50\t75\n2\t0.2\t75\t93\n", GOOD_JSON.replace("97.92", "1e999999"))
    assert ("not_a_number", 2) in places(found)
    assert found.figures.cost_per_hour_usd is None


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="cannot be read: No such file"):
        audit(tmp_path / "none.tsv")
    with pytest.raises(ReportError, match="cannot be read: Is a directory"):
        audit(tmp_path)


DURATIONS = ["0.1", "0.11", "0.1", "0.11", "0.1", "0.1", "0.09"]
RISING = [("10", "30"), ("30", "55"), ("45", "70"), ("60", "82"), ("70", "90"), ("74", "92"), ("75", "93")]


def test_durations_are_not_summed_over_a_missing_epoch() -> None:
    rows = [f"{n}\t{h}\t{a}\t{b}\n" for n, (h, (a, b)) in enumerate(zip(DURATIONS, RISING, strict=True), 1)]
    assert of(HEAD + "".join(rows)).figures.hours_top5_93 == Decimal("0.71")
    found = of(HEAD + "".join(rows[:2] + rows[3:]))
    assert ("epoch_missing_3", 4) in places(found)
    assert found.figures.epoch_top5_93 == 7
    assert found.figures.hours_top5_93 is None


@pytest.mark.parametrize(
    ("top1", "top5", "code"), [("93", "97", "accuracy_spike"), ("20", "93.5", "accuracies_implausible")]
)
def test_an_accuracy_that_no_training_shows_is_not_read(top1: str, top5: str, code: str) -> None:
    rows = [f"{n}\t0.{n}1\t{a}\t{b}\n" for n, (a, b) in enumerate(RISING, 1)]
    rows[2] = f"3\t0.31\t{top1}\t{top5}\n"
    found = of(HEAD + "".join(rows))
    assert places(found) == [(code, 4)]
    assert found.figures.epoch_top5_93 == 7


def test_fractions_keep_their_printed_digits_for_the_validation_images() -> None:
    """Five decimals of a fraction are three of a percentage: k / 48,240 fits them, which five would not."""
    rows = []
    for n in range(1, 13):
        top1, top5 = (round(Decimal(k) / 48_240, 5) for k in (1001 * n + 1, 2777 * n + 2))
        rows.append(f"{n}\t{n / 7:.4f}\t{top1}\t{top5}\n")
    assert "(12/12 rows)" in (of(HEAD + "".join(rows)).figures.val_images or "")
