"""A run that begins with one decoder and goes on with another."""

import importlib.util
from pathlib import Path

import pytest
from cli_runs import Cli, kill, sets, steps_done, trainer_events, wait_for, workers_of

try:
    HAS_DALI = importlib.util.find_spec("nvidia.dali") is not None
except ModuleNotFoundError:
    HAS_DALI = False

SHORT = ("phases[0].global_batch_size=5", "phases[0].per_device_batch_size=5", "checkpoint.every_steps=4")


@pytest.mark.skipif(not HAS_DALI, reason="NVIDIA DALI is not installed (extra: dali-cuda12)")
def test_resumed_with_pillow(cli: Cli) -> None:
    """Killed under DALI, resumed under Pillow when that change is accepted, and not otherwise."""
    command = ["train", "--config", "tiny.yaml", "--site", "site.yaml", *sets((*SHORT, "input.decoder=dali"))]
    process = cli.start(*command)
    run = wait_for(
        lambda: cli.newest() if (cli.folder / "runs").exists() and any((cli.folder / "runs").iterdir()) else None
    )
    wait_for(lambda: steps_done(run, 1) >= 7, what="step 7")
    kill(workers_of(run))
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 5 and "decoder     dali (asked for)" in out, out
    change = ["resume", str(run), "--set", "input.decoder=vision"]
    refused = cli.run(*change)
    assert refused.returncode == 2 and "input.decoder" in refused.stdout + refused.stderr
    done = cli.run(*change, "--accept-changes")
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = (trainer_events(run, attempt, "run.started")[0]["data"] for attempt in (1, 2))
    assert (first["decoder"], second["decoder"]) == ("dali", "vision") and second["first_step"] >= 4
    assert first["data_fingerprints"] == second["data_fingerprints"]
    assert steps_done(run, 2) == 24
    # Steps that both have done saw the same images through the same windows; other five images are another loss.
    before, after = (losses(run, attempt) for attempt in (1, 2))
    common = sorted(before.keys() & after.keys())
    assert common and max(abs(before[step] - after[step]) for step in common) < 0.15, (before, after)  # observed: 0.05
    assert max(abs(before[step] - before[step + 1]) for step in range(1, max(before))) > 0.3  # observed: 0.8


def losses(run: Path, attempt: int) -> dict[int, float]:
    """Of each step."""
    return {line["data"]["step"]: line["data"]["loss"] for line in trainer_events(run, attempt, "train.progress")}


def test_what_is_not_installed_is_said_before_anything_starts(cli: Cli) -> None:
    if HAS_DALI:
        pytest.skip("NVIDIA DALI is installed")
    refused = cli.train("input.decoder=dali")
    assert refused.returncode == 4 and "pip install 'dawnrun[dali-cuda12]'" in refused.stderr
    assert not (cli.folder / "runs").exists()
