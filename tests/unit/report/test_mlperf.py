"""A run as an MLPerf log: its clock, its keys, and the rules that it is said not to keep."""

import json

import pytest
from mlperf_samples import full_size_run
from record_factory import make_run, make_script

from dawnrun.record.summary import summarize
from dawnrun.report.mlperf import mlperf_log
from dawnrun.report.mlperf_log import read_log


def lines(log) -> list[dict]:
    return [json.loads(line.removeprefix(":::MLLOG ")) for line in log.text.splitlines()]


def value(log, key):
    (found,) = [line["value"] for line in lines(log) if line["key"] == key]
    return found


@pytest.fixture
def full(tmp_path):
    return summarize(full_size_run(tmp_path))


def test_read_back_it_has_the_time_of_our_own_clock(full, tmp_path):
    """Five epochs of 313 steps of 0.05 s, 5 s of data set-up, five validations of 4 s; 30 s of initialisation left out."""
    (tmp_path / "mlperf.log").write_text(mlperf_log(full, org="x").text)
    claim = read_log(tmp_path / "mlperf.log")
    assert claim.seconds == pytest.approx(5 * 313 * 0.05 + 5 + 5 * 4, abs=0.002)
    assert claim.seconds == pytest.approx(full.crossing("top1").time_to_accuracy_s("mlperf"), abs=0.002)
    assert (claim.epoch, claim.top1, claim.reached) == (5, pytest.approx(75.92), True)
    assert claim.validation_images == "50000"


def test_a_result_that_training_did_not_wait_for_ends_the_run_when_it_is_known(tmp_path):
    """Five epochs of 313 steps of 0.05 s and the half of one that was trained meanwhile; blocks follow one another."""
    late = summarize(full_size_run(tmp_path, late=True))
    log = mlperf_log(late, org="x")
    (tmp_path / "mlperf.log").write_text(log.text)
    claim = read_log(tmp_path / "mlperf.log")
    assert claim.seconds == pytest.approx(5 * 313 * 0.05 + 5 + 156 * 0.05, abs=0.002)
    assert claim.seconds == pytest.approx(late.crossing().time_to_accuracy_s("mlperf"), abs=0.002)
    assert (claim.epoch, claim.reached) == (5, True)
    found = lines(log)
    times = [line["time_ms"] for line in found]
    assert times == sorted(times)
    blocks = [line["time_ms"] for line in found if line["key"] in ("block_start", "block_stop")]
    assert blocks[1:-1:2] == blocks[2::2]
    evaluated = [[line["time_ms"] for line in found if line["key"] == key] for key in ("eval_start", "eval_stop")]
    assert [stop - start for start, stop in zip(*evaluated, strict=True)] == [156 * 50] * 5
    assert [line["key"] for line in found[-3:]] == ["eval_stop", "eval_accuracy", "run_stop"]


def test_keys_of_the_schedule(full):
    log = mlperf_log(full)
    wanted = {
        "sgd_opt_base_learning_rate": 7.0, "sgd_opt_end_learning_rate": 1e-4, "sgd_opt_learning_rate_decay_poly_power": 2.0,
        "sgd_opt_learning_rate_decay_steps": 4 * 313, "opt_learning_rate_warmup_epochs": 2, "sgd_opt_weight_decay": 5e-5,
        "sgd_opt_momentum": 0.9, "model_bn_span": 256, "global_batch_size": 4096, "gradient_accumulation_steps": 16,
        "train_samples": 1_281_167, "eval_samples": 50_000, "seed": 0,
    }  # fmt: skip
    assert {key: value(log, key) for key in wanted} == wanted


def test_time_goes_on_and_accuracies_are_fractions(full):
    found = lines(mlperf_log(full))
    times = [line["time_ms"] for line in found]
    assert times == sorted(times)
    assert [line["value"] for line in found if line["key"] == "eval_accuracy"][-1] == pytest.approx(0.7592)
    assert found[-1]["key"] == "run_stop"


def test_a_run_that_keeps_the_rules_is_told_what_no_record_shows(full):
    assert mlperf_log(full, org="x").problems == ("cache_clear: the record does not say that caches were cleared",)


def test_rules_that_are_not_kept_are_named(tmp_path):
    log = mlperf_log(summarize(make_run(tmp_path)))
    named = {problem.split(":")[0] for problem in log.problems}
    assert named == {
        "eval_accuracy", "train_samples", "eval_samples", "end_learning_rate", "learning_rate", "global_batch_size",
        "cache_clear", "submission_org",
    }  # fmt: skip
    assert lines(log)[-1]["metadata"]["status"] == "aborted"


def test_other_rules(tmp_path):
    constant = {"constant": 0.5, "segments": [], "read_at": "step_end"}
    changing = {"constant": None, "segments": [{"epochs": [0, 6], "start": 0.9, "end": 0.8}], "read_at": "step_end"}
    optimizer = {"name": "sgd", "nesterov": False, "weight_decay": 3e-5, "decay_batch_norm": False}
    log = mlperf_log(summarize(full_size_run(tmp_path, lr=constant, momentum=changing, optimizer=optimizer)))
    named = {problem.split(":")[0] for problem in log.problems}
    assert {"weight_decay", "momentum", "end_learning_rate"} <= named
    assert "sgd_opt_momentum" not in log.text


def test_slow_start_and_resumes_are_named(tmp_path):
    script = make_script(tmp_path)
    script.launch()
    script.start(imports_s=1801.0)
    script.train_epoch()
    script.validate(500, 800)
    script.save()
    script.kill()
    script.launch()
    script.start(first_step=script.step)
    script.train_epoch()
    script.validate(600, 900)
    script.finish("interrupted")
    named = {problem.split(":")[0] for problem in mlperf_log(summarize(script.run)).problems}
    assert {"init_stop", "run_start"} <= named


def test_nothing_trained_yet(tmp_path):
    script = make_script(tmp_path)
    script.launch()
    script.write("span", span="initialise")
    script.kill()
    assert "run_stop" in mlperf_log(summarize(script.run)).text
