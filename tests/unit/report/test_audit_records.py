"""The published records that come with dawnrun."""

from decimal import Decimal

import pytest

from dawnrun.clock import RULES
from dawnrun.errors import UsageError
from dawnrun.report.records import find_record, load_records, record_of


def test_every_record_has_a_name_of_its_own_a_rule_and_a_source() -> None:
    records = load_records()
    assert len({record.name for record in records}) == len(records) > 60
    for record in records:
        assert record.clock_rule in RULES
        assert record.source
        assert record.organisation
        assert record.seconds is None or record.seconds > 0


def test_a_record_says_what_must_be_said_beside_it() -> None:
    record = find_record("huawei-10m28")
    assert record.seconds == Decimal("627.9098004")
    assert (record.devices, record.validation_images, record.clock_rule) == (128, 48_240, "training")
    assert record.clock_contains == "training; validation in a separate process"
    assert find_record("fastai-16x8").cost_usd == Decimal("118.07")


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"huawei-10m27(.|\n)*did you mean huawei-10m28\?"):
        find_record("huawei-10m27")


def test_a_run_is_found_by_its_date_and_seconds() -> None:
    found = record_of("2018-09-07", Decimal("1132.992"))
    assert found is not None
    assert (found.name, found.published_clock) == ("fastai-8x8", "0:18:53")
    assert record_of("2018-09-08", Decimal("1132.992")) is None
    assert record_of("2018-09-07", Decimal("1132.9")) is None
    assert record_of(None, None) is None
