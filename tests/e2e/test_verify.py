"""`dawnrun verify` and `bundle` of a real run: confirmed, incomplete, contradicted."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from cli_runs import Cli

SHORT = ("phases[0].epochs=1", "phases[0].global_batch_size=20", "phases[0].per_device_batch_size=10", "target.top5=1")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, data_root: Path) -> Cli:
    cli = Cli(tmp_path_factory.mktemp("verified"), data_root)
    done = cli.train(*SHORT)
    assert done.returncode in (0, 6), done.stdout + done.stderr
    return cli


@pytest.fixture
def copy(trained: Cli, tmp_path: Path) -> Path:
    """A copy of the run, to be spoilt."""
    return Path(shutil.copytree(trained.newest(), tmp_path / trained.newest().name))


def verify(cli: Cli, run: Path, *arguments: str) -> tuple[int, dict[str, str]]:
    """Exit code and verdict by check."""
    done = cli.run("verify", str(run), *arguments, "--format", "json")
    return done.returncode, {finding["name"]: finding["verdict"] for finding in json.loads(done.stdout)}


def unpacked(cli: Cli, folder: Path, *options: str) -> Path:
    """The run as a stranger gets it."""
    done = cli.run("bundle", str(cli.newest()), *options, "--output", str(folder / "run.tar.gz"))
    assert done.returncode == 0, done.stderr
    with tarfile.open(folder / "run.tar.gz") as archive:
        archive.extractall(folder / "stranger", filter="data")
    return folder / "stranger" / cli.newest().name


def test_a_stranger_confirms_everything_that_can_be_checked(trained: Cli, tmp_path: Path) -> None:
    """Log, seal, recipe, both splits of the data, weights rebuilt from the seed, and the same counts once more."""
    code, verdicts = verify(trained, unpacked(trained, tmp_path, "--with-checkpoint"))
    assert code == 0
    confirmed = {name for name, verdict in verdicts.items() if verdict == "confirmed"}
    assert confirmed >= {
        "claim from the log", "seal", "recipe", "recipe file", "data full/train", "data validation/val",
        "initial weights", "accuracy of epoch 1",
    }  # fmt: skip
    assert verdicts["report"] == "not checked"
    assert "contradicts" not in verdicts.values()


@pytest.mark.skipif(
    importlib.util.find_spec("mlperf_logging") is None, reason="mlperf-logging is not installed (pip install '.[test]')"
)
def test_mlcommons_checker_fails_a_real_small_run_for_reasons_that_are_printed(trained: Cli, tmp_path: Path) -> None:
    """Nothing in the log of a real run keeps the checker from reading it."""
    run = str(trained.newest())
    done = trained.run("report", run, "--format", "mlperf", "--output", str(tmp_path), "--author", "Somebody")
    assert done.returncode in (0, 6), done.stderr
    command = ["mlperf_logging.compliance_checker", "--usage", "training", "--ruleset", "3.1.0"]
    command += ["--log_output", str(tmp_path / "checker.log"), str(tmp_path / "mlperf.log")]
    checked = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, check=False)
    said = checked.stdout + checked.stderr
    assert "FAILED" in said and "Traceback" not in said
    blamed = {key.removeprefix("sgd_opt_") for key in re.findall(r"CHECK for '(\w+)' failed", said)}
    assert blamed and all(f"{key}:" in done.stderr for key in blamed), (blamed, done.stderr)


def test_without_the_checkpoint_it_is_incomplete(trained: Cli, tmp_path: Path) -> None:
    code, verdicts = verify(trained, unpacked(trained, tmp_path), "--quick")
    assert (code, verdicts["seal"], verdicts["claim from the log"]) == (0, "not checked", "confirmed")


def test_a_checkpoint_of_other_weights_contradicts(trained: Cli, copy: Path) -> None:
    """Weights that were never measured, under a checkpoint whose own checksums hold: seal and counts both say so."""
    import hashlib

    import torch

    (checkpoint,) = (copy / "checkpoints").glob("step-*")
    weights = torch.load(checkpoint / "model.pt", weights_only=True)
    weights["fc.weight"].zero_()
    weights["fc.bias"].zero_()
    weights["fc.bias"][7] = 50.0
    torch.save(weights, checkpoint / "model.pt")
    manifest = json.loads((checkpoint / "checkpoint.json").read_text())
    manifest["files"]["model.pt"]["sha256"] = hashlib.sha256((checkpoint / "model.pt").read_bytes()).hexdigest()
    (checkpoint / "checkpoint.json").write_text(json.dumps(manifest))
    log = next((copy / "events" / "1").glob("trainer.jsonl"))
    lines = log.read_text().splitlines()
    stated = next(json.loads(line)["data"] for line in lines if '"eval.finished"' in line)
    code, verdicts = verify(trained, copy)
    assert code == 7
    if (stated["top1_correct"], stated["top5_correct"]) != (1, 1):
        assert verdicts["accuracy of epoch 1"] == "contradicts"
    assert verdicts["claim from the log"] == "confirmed"
