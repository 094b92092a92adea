"""report.json."""

import json
import math
from dataclasses import replace

import pytest
from report_samples import sample

from dawnrun.clock import RULES, elapsed_s
from dawnrun.report.document import report_json, run_document


def strict(text: str):
    def refuse(name: str):
        raise ValueError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_four_clocks_whose_parts_add_up():
    """C36: all rules side by side, the parts of each sum to its figure, the rest is said to be left out."""
    summary = sample()
    clocks = strict(report_json([summary]))["runs"][0]
    crossing = summary.crossing()
    assert crossing is not None
    for rule in RULES:
        clock = clocks["time_to_accuracy"][rule]
        assert math.isclose(sum(clock["parts_s"].values()), clock["seconds"])
        assert clock["seconds"] == crossing.time_to_accuracy_s(rule)
        whole = clocks["time_spent"][rule]
        assert whole["seconds"] == elapsed_s(summary.spent, rule)
        assert math.isclose(whole["seconds"] + sum(whole["left_out_s"].values()), sum(summary.spent.values()))
    assert clocks["time_to_accuracy"]["mlperf"]["parts_s"]["validation"] == 20.0
    assert clocks["time_to_accuracy"]["dawnbench"]["left_out_s"]["validation"] == 10.0


def test_nan_is_null_with_a_reason():
    """C40: a run with a NaN loss gives strict JSON."""
    summary = sample()
    broken = replace(summary.epochs[1], train_loss=float("nan"), validation_loss=float("inf"))
    lost = replace(summary.epochs[2], train_loss=None)
    summary = replace(summary, epochs=(summary.epochs[0], broken, lost))
    run = strict(report_json([summary]))["runs"][0]
    assert run["epochs"][1]["train_loss"] is None
    assert run["null_reasons"]["epochs[1].train_loss"] == "not a finite number"
    assert run["null_reasons"]["epochs[1].validation_loss"] == "not a finite number"
    assert run["null_reasons"]["epochs[2].train_loss"] == "the loss was not finite"


def test_target_not_reached_has_no_time():
    """C37: no row at the target, no number."""
    run = strict(report_json([sample((90, 91))]))["runs"][0]
    assert run["time_to_accuracy"] is None
    assert run["null_reasons"]["time_to_accuracy"] == "the target was not reached"
    assert run["cost"]["cost_to_accuracy_usd"] == dict.fromkeys(RULES)
    assert run["target"] == {"top5": 93.0, "reached": False}


def test_everything_needed_is_there():
    run = strict(report_json([sample(), sample()]))["runs"][1]
    assert run["recipe"]["seed"] == 7
    assert run["versions"]["torch"] == "2.14.1"
    assert run["git_commit"].startswith("0123")
    assert run["epochs"][0]["validation"]["resize_px"] == 146
    assert [row["hours"] for row in run["epochs"]] == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert [row["image_size"] for row in run["phases"]] == [128, 224]
    assert len(run["progress"]) == 40
    assert run["rules"].keys() == set(RULES)


def test_text_that_is_no_unicode_is_written():
    """A path with a byte that is no UTF-8 is written with `?` in its place."""
    assert run_document(sample(path="runs/\udcff"))["run"]["path"] == "runs/?"


def test_not_validated_has_its_reason():
    summary = sample((90, None))
    invalid = replace(summary.epochs[0], top1=None, top5=None, validation={"valid": False})
    reasons = run_document(replace(summary, epochs=(invalid, summary.epochs[1])))["null_reasons"]
    assert reasons["epochs[0].top5"] == "the validation's outputs were not finite"
    assert reasons["epochs[1].top1"] == "not validated"


def test_doubts_about_the_record_have_a_key():
    assert run_document(sample())["run"]["seal_faults"] == []
    assert run_document(sample(seal_faults=("x",)))["run"]["seal_faults"] == ["x"]
