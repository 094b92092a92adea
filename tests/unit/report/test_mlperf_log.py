"""MLPerf result logs of all three forms as claims."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dawnrun.report.mlperf_log import read_log


def lines(status="success"):
    def line(seconds, key, value, **metadata):
        fields = {"namespace": "", "time_ms": int(1000 * seconds), "event_type": "POINT_IN_TIME"}
        return ":::MLLOG " + json.dumps({**fields, "key": key, "value": value, "metadata": metadata})

    return [
        "some other output",
        line(100, "submission_org", "Some Org"),
        line(100, "submission_benchmark", "resnet"),
        line(100, "eval_samples", 50000),
        line(130, "run_start", None),
        line(430, "eval_accuracy", 0.5, epoch_num=4),
        "0: " + line(730, "eval_accuracy", 0.7595, epoch_num=8),
        line(730.5, "run_stop", None, status=status),
        line(800, "eval_accuracy", 0.9, epoch_num=9),
    ]


def read(tmp_path, text):
    path = tmp_path / "result_0.txt"
    path.write_text(text)
    return read_log(path)


def test_time_accuracy_and_epochs(tmp_path):
    claim = read(tmp_path, "\n".join(lines()))
    assert (claim.seconds, claim.rule, claim.reached) == (600.5, "mlperf", True)
    assert (claim.epoch, claim.top1) == (8, pytest.approx(75.95))
    assert [(row.epoch, row.hours, row.top1) for row in claim.rows] == [
        (4, 300 / 3600, 50),
        (8, 600 / 3600, pytest.approx(75.95)),
    ]
    assert (claim.organisation, claim.validation_images, claim.notes) == ("Some Org", "50000", ())


def test_an_aborted_run_has_no_time(tmp_path):
    claim = read(tmp_path, "\n".join(lines("aborted")))
    assert (claim.seconds, claim.reached) == (None, False)
    assert "its status is aborted: no time" in claim.notes


@pytest.mark.parametrize(
    "text",
    [
        ':::MLL 100.5 run_start: {"value": null, "metadata": {"file": "x"}}\n'
        ':::MLL 160.5 eval_accuracy: {"value": 0.76, "metadata": {"epoch_num": 3}}\n'
        ':::MLL 161.0 run_stop: {"value": null, "metadata": {"status": "success"}}\n',
        ":::MLPv0.5.0 resnet 100.5 (train.py:12) run_start\n"
        ':::MLPv0.5.0 resnet 160.5 (train.py:13) eval_accuracy: {"epoch": 3, "value": 0.76}\n'
        ':::MLPv0.5.0 resnet 161.0 (train.py:14) run_stop: {"success": true}\n',
    ],
)
def test_older_forms(tmp_path, text):
    claim = read(tmp_path, text)
    assert (claim.seconds, claim.reached, claim.epoch, claim.top1) == (60.5, True, 3, 76.0)


def test_what_cannot_be_read_is_named(tmp_path):
    claim = read(tmp_path, "\n".join([*lines(), ':::MLLOG {"time_ms": 1', ":::MLL nothing"]))
    assert claim.seconds == 600.5
    assert "lines that cannot be read: 10, 11" in claim.notes


@given(st.integers(0, 1200), st.binary(max_size=8))
def test_a_log_cut_or_spoilt_anywhere_is_read_without_an_error(tmp_path_factory, at, noise):
    whole = "\n".join(lines()).encode()
    path = tmp_path_factory.mktemp("log") / "r.txt"
    path.write_bytes(whole[:at] + noise)
    claim = read_log(path)
    assert claim.seconds in (None, 600.5)
