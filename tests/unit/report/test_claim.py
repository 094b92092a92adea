"""Others' claims in one form: what is taken over from an entry or a record, and what is said beside it."""

from dataclasses import replace
from pathlib import Path

import pytest

from dawnrun.errors import UsageError
from dawnrun.report.claim import column, remarks
from dawnrun.report.claims import published, read_entry, record_claim
from dawnrun.report.records import load_records

ENTRIES = Path(__file__).parents[2] / "parity" / "data" / "dawnbench"
GOOD = "fastai_pytorch_2018-04-20_r3"


def entry(name, folder="train"):
    return read_entry(ENTRIES / folder / f"{name}.tsv", ENTRIES / folder / f"{name}.json")


def test_an_entry_with_the_clock_known_of_that_very_run():
    """2:57:28 on the board; its clock is known from the record of the same date and seconds."""
    claim = entry(GOOD)
    assert claim.reached is True
    assert (claim.seconds, claim.epoch) == (pytest.approx(10647.1194940000008), 41)
    assert (claim.rule, claim.clock_contains) == ("everything", "start-up, training, validation")
    assert claim.cost_usd == pytest.approx(72.40, abs=0.005)
    assert len(claim.rows) >= 42 and claim.rows[0].hours < claim.rows[-1].hours
    cells = column(claim)
    assert cells["time, everything"] == "2:57:28"
    assert cells["time, dawnbench"] == "-"
    assert "p3.16xlarge" in cells["machine"]


def test_a_malformed_entry_says_so():
    claim = entry("fastai_resnet50_p3_16_machine_pytorch_2018-09-06", "malformed")
    assert claim.defects
    assert any("malformed" in remark for remark in remarks(claim))


def test_an_entry_that_decides_nothing_has_no_time(tmp_path):
    path = tmp_path / "e.tsv"
    path.write_text("epoch\thours\ttop1Accuracy\ttop5Accuracy\n1\t0.1\t10\t20\n2\t0.2\t15\t30\n")
    claim = read_entry(path, None)
    assert (claim.reached, claim.seconds) == (False, None)
    assert column(claim)["outcome"] == "not reached"


def test_every_record_is_a_claim_with_its_source():
    claims = [record_claim(record) for record in load_records()]
    assert all(claim.source for claim in claims)
    assert {claim.rule for claim in claims} >= {"training", "mlperf", "everything", "dawnbench"}


def test_hardware_names_the_devices():
    assert published("huawei-10m28").hardware == "16 nodes x 8 V100, RDMA"
    assert published("fastai-16x8").hardware == "16 x p3.16xlarge (128 x V100)"


def test_an_unknown_record_is_told_the_nearest():
    with pytest.raises(UsageError, match="did you mean huawei-10m28"):
        published("huawei-10m29")


def test_text_from_files_is_made_harmless():
    cells = column(replace(entry(GOOD), hardware="a\x1b[31mred\u202e"))
    assert cells["machine"] == "a?[31mred?"
