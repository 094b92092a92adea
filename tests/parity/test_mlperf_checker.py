"""Our MLPerf logs before MLCommons' own compliance checker, ruleset 3.1.0."""

import importlib.util
import subprocess
import sys

import pytest
from mlperf_samples import full_size_run
from record_factory import make_run

from dawnrun.record.summary import summarize
from dawnrun.report.mlperf import RULESET, mlperf_log

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("mlperf_logging") is None, reason="mlperf-logging is not installed (pip install '.[test]')"
)


def check(run, folder) -> str:
    """What the checker prints."""
    path = folder / "mlperf.log"
    path.write_text(mlperf_log(summarize(run), org="Somebody").text)
    command = [sys.executable, "-m", "mlperf_logging.compliance_checker", "--usage", "training", "--ruleset", RULESET]
    done = subprocess.run(
        [*command, "--log_output", str(folder / "checker.log"), str(path)], capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def test_a_run_that_keeps_the_rules_passes(tmp_path):
    """Made by hand: no run on a CPU reaches 75.9 %."""
    said = check(full_size_run(tmp_path), tmp_path)
    assert "SUCCESS" in said
    assert "ERROR" not in said and "WARNING" not in said


def test_a_run_that_does_not_wait_for_validation_passes(tmp_path):
    """Validations overlap with the blocks of steps that follow them."""
    said = check(full_size_run(tmp_path, late=True), tmp_path)
    assert "SUCCESS" in said
    assert "ERROR" not in said and "WARNING" not in said


def test_the_demo_fails_for_the_reasons_that_we_print(tmp_path):
    """Every key that the checker objects to is among our own notes; it looks for fewer things than they name."""
    run = make_run(tmp_path)
    said = check(run, tmp_path)
    assert "FAIL" in said
    ours = " ".join(mlperf_log(summarize(run), org="Somebody").problems)
    blamed = {
        key for key in ("eval_accuracy", "end_learning_rate", "weight_decay", "base_learning_rate") if key in said
    }
    assert blamed == {"eval_accuracy", "end_learning_rate"}
    assert all(key in ours for key in blamed)
