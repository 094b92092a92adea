"""The seal says afterwards whether the record was changed."""

import json

import pytest
from record_factory import make_run

from dawnrun.errors import ReportError
from dawnrun.record.seal import check_seal, write_seal


@pytest.fixture
def sealed(tmp_path):
    run = make_run(tmp_path)
    write_seal(run, run.checkpoints / "step-00000040")
    return run


def test_an_untouched_run_agrees_with_its_seal(sealed):
    assert check_seal(sealed) == []
    assert list(json.loads(sealed.seal_json.read_text())["sha256"]) == [
        "checkpoints/step-00000040/state.pt",
        "events/1/launcher.jsonl",
        "events/1/trainer.jsonl",
    ]
    assert not list(sealed.path.glob(".*"))


def test_every_difference_is_named(sealed):
    with (sealed.events_dir(1) / "trainer.jsonl").open("a") as log:
        log.write("\n")
    (sealed.checkpoints / "step-00000040" / "state.pt").unlink()
    (sealed.events_dir(1) / "evaluator-000.jsonl").write_text("")
    assert check_seal(sealed) == [
        "checkpoints/step-00000040/state.pt: missing",
        "events/1/trainer.jsonl: changed",
        "events/1/evaluator-000.jsonl: added",
    ]


def test_a_run_without_a_crossing_is_sealed_too(tmp_path):
    run = make_run(tmp_path)
    write_seal(run)
    write_seal(run, run.checkpoints / "step-00000010" / "state.pt")
    assert check_seal(run) == []


def test_a_run_that_was_never_sealed(tmp_path):
    with pytest.raises(ReportError, match=r"not sealed: there is no seal\.json"):
        check_seal(make_run(tmp_path))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"sha256": 3}'])
def test_a_damaged_seal_is_named(tmp_path, text):
    run = make_run(tmp_path)
    run.seal_json.write_text(text)
    with pytest.raises(ReportError, match=r"seal\.json: not a seal"):
        check_seal(run)
