"""A run beside a published record: under which rule, by how much, and what must be said with it."""

import pytest
from report_samples import RECIPE, sample

from dawnrun.report.against import against, headline, remarks
from dawnrun.report.claims import published


@pytest.mark.parametrize(
    ("name", "rule", "seconds"),
    [
        ("huawei-10m28", "training", 720.0),
        ("fastai-16x8", "mlperf", 720.0 + 20.0),
        ("fastai-1x8-2018-04", "everything", 720.0 + 20.0),
        ("alibaba-2m38", "dawnbench", 720.0),
    ],
)
def test_the_rule_is_that_of_the_records_clock(name, rule, seconds):
    record = published(name)
    found = against(sample(), record)
    assert (found.rule, found.run_seconds) == (rule, pytest.approx(seconds))
    assert found.difference_s == pytest.approx(seconds - record.seconds)


def test_headline_says_which_is_shorter_and_under_which_clock():
    said = headline(against(sample(), published("huawei-10m28")))
    assert said.startswith("against huawei-10m28: 0:12:00 here, 0:10:28 there: 92.1 s more, 1.15 times as long")
    assert "training clock" in said


def test_what_must_be_said_beside_it():
    beside = {topic: (run, record) for topic, run, record in against(sample(), published("huawei-10m28")).beside}
    assert beside["clock contains"][1] == "training; validation in a separate process"
    assert beside["hardware"] == (
        "16 nodes, 128 processes, cuda (Tesla V100-SXM2-16GB), fp16",
        "16 nodes x 8 V100, RDMA",
    )
    assert beside["network"] == ("not recorded", "RDMA")
    assert "v1.5" in beside["model"][0] and beside["model"][1] == "ResNet-50"
    assert beside["validation images"][1] == "48240"
    assert beside["validation images"][0].startswith("50,000 (128 px centre crop")
    assert beside["cost"][1] == "not published, or not read"


def test_like_for_like_has_no_remark_and_anything_else_has():
    assert remarks(against(sample(), published("fastai-16x8"))) == []
    other = sample(recipe={**RECIPE, "target": {"top5": 60.0, "top1": None}})
    assert remarks(against(other, published("fastai-16x8"))) == [
        "not like for like with fastai-16x8: the run's target is top5>=60, the record's is top5>=93"
    ]
    small = sample(started={**sample().started, "num_val_images": 5000})
    assert "not the full ILSVRC2012 set" in remarks(against(small, published("fastai-16x8")))[0]


def test_no_time_on_either_side_is_no_difference():
    missed = against(sample((90, 91)), published("huawei-10m28"))
    assert (missed.run_seconds, missed.difference_s) == (None, None)
    assert "this run has no time to its target" in headline(missed)
    untimed = against(sample(), published("torchvision-v1"))
    assert untimed.difference_s is None
    assert "not published, or not read" in headline(untimed)
