"""Our MLPerf logs before MLCommons' own compliance checker, ruleset 3.1.0."""

import importlib.util
import re
import subprocess
import sys

import pytest
from mlperf_samples import full_size_run
from record_factory import make_script

from dawnrun.recipe.builtin import find_recipe
from dawnrun.recipe.dump import to_mapping
from dawnrun.recipe.reader import read
from dawnrun.recipe.schema import Recipe
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


@pytest.mark.parametrize("last", [220, 262])
def test_the_demo_fails_for_the_reasons_that_we_print(tmp_path, last):
    """The shipped recipe's values, `last` of 300 right: every key that the checker objects to is among our own notes."""
    script = make_script(
        tmp_path,
        recipe=to_mapping(read(find_recipe("demo"), Recipe).value),
        num_train_images=1200,
        num_val_images=300,
        window_steps=75,
    )
    script.launch()
    script.start()
    for top1_correct in (20, 110, 150, 200, last):
        script.train_epoch()
        script.validate(top1_correct, top1_correct + 30)
    script.finish("all_epochs")
    said = check(script.run, tmp_path)
    assert "FAILED" in said
    ours = " ".join(mlperf_log(summarize(script.run), org="Somebody").problems)
    blamed = {key.removeprefix("sgd_opt_") for key in re.findall(r"CHECK for '(\w+)' failed", said)}
    assert blamed >= {"weight_decay", "end_learning_rate"}
    assert all(f"{key}:" in ours for key in blamed), (blamed, ours)
    assert ("eval_accuracy:" in ours) == (last / 300 < 0.759) == ("eval_accuracy" in said)
