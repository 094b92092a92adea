"""Killed and resumed: the same weights, the same log after folding."""

import random
from pathlib import Path

import pytest
import torch
from cli_runs import Cli, kill, sets, steps_done, trainer_events, wait_for, workers_of

from dawnrun.record.summary import summarize

# 60 images in batches of 5: 12 steps an epoch.
SHORT = ("phases[0].global_batch_size=5", "phases[0].per_device_batch_size=5", "checkpoint.every_steps=2")


def weights(run: Path) -> dict[str, torch.Tensor]:
    path = sorted((run / "checkpoints").glob("step-*"))[-1]
    assert path.name == "step-00000024"
    return torch.load(path / "model.pt", weights_only=True)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, data_root: Path) -> Path:
    cli = Cli(tmp_path_factory.mktemp("straight"), data_root)
    done = cli.train(*SHORT)
    assert done.returncode == 0, done.stdout + done.stderr
    return cli.newest()


def kill_after(cli: Cli, command: list[str], attempt: int, new_steps: int) -> Path:
    """Run until `new_steps` more updates are recorded, then SIGKILL the worker; the command must say so with 5."""
    process = cli.start(*command)
    run = wait_for(lambda: next(iter((cli.folder / "runs").glob("tiny-*")), None), what="a run directory")
    begun = wait_for(lambda: trainer_events(run, attempt, "run.started"), what="the start of an attempt")
    goal = min(begun[0]["data"]["first_step"] + new_steps, 23)
    wait_for(lambda: steps_done(run, attempt) >= goal, what=f"step {goal}")
    kill(workers_of(run))
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 5, out
    assert "SIGKILL" in out and "dawnrun resume" in out, out
    return run


def kill_and_resume(cli: Cli, kills: int, seed: int) -> Path:
    rng = random.Random(seed)
    run = kill_after(cli, ["train", "--config", "tiny.yaml", "--site", "site.yaml", *sets(SHORT)], 1, rng.randint(2, 4))
    for number in range(2, kills + 1):
        kill_after(cli, ["resume", str(run)], number, rng.randint(1, 3))
    done = cli.run("resume", str(run))
    assert done.returncode == 0, done.stdout + done.stderr
    return run


def check_same(run: Path, straight: Path, attempts: int) -> None:
    ours, expected = weights(run), weights(straight)
    different = [name for name, value in expected.items() if not torch.equal(ours[name], value)]
    assert not different
    folded, plain = summarize(run), summarize(straight)
    assert len(folded.attempts) == attempts
    assert [row.epoch for row in folded.epochs] == [1, 2]
    for row, other in zip(folded.epochs, plain.epochs, strict=True):
        assert (row.top1_correct, row.top5_correct, row.images) == (
            other.top1_correct,
            other.top5_correct,
            other.images,
        )
    rates = {point.step: point.lr for point in folded.progress}
    assert rates == {point.step: point.lr for point in plain.progress}, "C07: the rate of every step"


def test_killed_twice(cli: Cli, undisturbed: Path) -> None:
    check_same(kill_and_resume(cli, 2, seed=0), undisturbed, attempts=3)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_at_ten_random_steps(cli: Cli, undisturbed: Path) -> None:
    check_same(kill_and_resume(cli, 10, seed=1), undisturbed, attempts=11)


def test_finished_run_resumed_says_so_and_changes_nothing(cli: Cli, undisturbed: Path) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in undisturbed.rglob("*") if path.is_file())
    done = cli.run("resume", str(undisturbed))
    assert done.returncode == 0
    assert "finished" in done.stdout
    assert before == sorted((path, path.stat().st_mtime_ns) for path in undisturbed.rglob("*") if path.is_file())
