"""The seal says afterwards whether the record was changed."""

import json

import pytest
from record_factory import make_run, make_script
from record_values import one_phase

from dawnrun.errors import ReportError
from dawnrun.record.seal import check_seal, with_seal, write_seal
from dawnrun.record.summary import summarize


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


def _faults(run):
    summary = with_seal(summarize(run))
    assert summary.remarks[: len(summary.seal_faults)] == summary.seal_faults
    return summary.seal_faults


def _edit(run, old, new):
    log = run.events_dir(1) / "trainer.jsonl"
    text = log.read_text()
    assert old in text
    log.write_text(text.replace(old, new, 1))


def test_a_log_that_is_what_was_sealed_needs_no_word(sealed):
    (sealed.checkpoints / "step-00000040" / "state.pt").unlink()  # for verify, which reads checkpoints too
    assert _faults(sealed) == ()


def test_counts_that_were_changed_afterwards_are_told_first(sealed):
    _edit(sealed, '"top1_correct":300', '"top1_correct":301')
    assert _faults(sealed) == ("the event log is not what was sealed: events/1/trainer.jsonl: changed",)


def test_a_log_that_was_removed_is_told(sealed):
    (sealed.events_dir(1) / "trainer.jsonl").unlink()
    assert _faults(sealed) == ("the event log is not what was sealed: events/1/trainer.jsonl: missing",)


@pytest.mark.parametrize("text", ["[]", "", "{}", "null", '{"sha256": [["a", 1]]}', '{"sha256": 3}', "[" * 100_000])
def test_a_damaged_seal_is_told(sealed, text):
    sealed.seal_json.write_text(text)
    (fault,) = _faults(sealed)
    assert fault.startswith("the event log cannot be held against its seal: ")


def test_a_seal_that_leaves_the_log_out_is_told(sealed):
    sealed.seal_json.write_text('{"schema_version": 1, "sha256": {}}')
    assert "events/1/launcher.jsonl: added, events/1/trainer.jsonl: added" in _faults(sealed)[0]


def test_a_finished_run_without_a_seal_is_told(tmp_path):
    assert "there is no seal.json" in _faults(make_run(tmp_path))[0]


def test_an_attempt_after_the_seal_is_told_only_when_it_has_finished(tmp_path):
    """Between a seal and the next, a resumed run grows."""
    script = make_script(tmp_path, recipe=one_phase(1))
    script.launch()
    script.start()
    script.train_epoch()
    script.validate(300, 600)
    script.finish("all_epochs")
    write_seal(script.run)
    script.launch()
    script.start(first_step=10)
    script.kill()
    assert _faults(script.run) == ()
    script.launch()
    script.start(first_step=10)
    script.finish("all_epochs")
    assert "events/2/launcher.jsonl: added" in _faults(script.run)[0]
