"""Validation that the training does not stop for: the same counts, the right claim, and evaluators that die."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from cli_runs import Cli, kill, sets, trainer_events, wait_for, workers_of

from dawnrun.record.summary import summarize

# 60 images in batches of 12: 5 steps an epoch.
SHORT = ("phases[0].epochs=2", "phases[0].global_batch_size=12", "phases[0].per_device_batch_size=6")
LONG = (*SHORT, "phases[0].epochs=200", "checkpoint.every_epochs=200")
EVALUATORS = "evaluators: 2\n"


def counts(run: Path, attempt: int = 1) -> list[tuple[Any, ...]]:
    names = ("epoch", "step", "num_images", "top1_correct", "top5_correct")
    return [tuple(event["data"][name] for name in names) for event in trainer_events(run, attempt, "eval.finished")]


def evaluators_of(run: Path) -> list[int]:
    """Evaluator processes of the run that are alive, without the one that watches over them."""
    words = {pid: (Path("/proc") / str(pid) / "cmdline").read_bytes().split(b"\0") for pid in workers_of(run)}
    return [pid for pid, line in words.items() if b"--evaluator" in line and b"dawnrun.launch.beside" not in line]


def started(cli: Cli, *settings: str, evaluators: int = 1) -> tuple[Any, Path]:
    cli.site(1, extra=f"evaluators: {evaluators}\n")
    process = cli.start("train", "--config", "tiny.yaml", "--site", "site.yaml", *sets(settings))
    return process, wait_for(lambda: next(iter((cli.folder / "runs").glob("tiny-*")), None), what="a run directory")


@pytest.mark.timeout(150)
def test_inline_beside_and_after_count_the_same(cli: Cli) -> None:
    """Three ways to validate one training: the same counts at the same steps, and the same trained weights."""
    found = []
    for extra, more in (("", ()), (EVALUATORS, ()), ("", ("validation.when=after",))):
        done = cli.train(*SHORT, *more, site=cli.site(1, extra=extra))
        assert done.returncode == 0, done.stdout + done.stderr
        run = cli.newest()
        weights = json.loads(max((run / "checkpoints").glob("*/checkpoint.json")).read_text())["files"]["model.pt"]
        found.append((counts(run), weights["sha256"]))
        assert len(list((run / "snapshots").glob("*"))) == bool(extra or more)  # the best
        summarize(run)
    inline, beside, after = found
    assert len(inline[0]) == 2
    assert beside == inline
    assert after == inline
    late = trainer_events(run, 1)
    assert [e["kind"] for e in late if e["kind"] in ("snapshot.taken", "eval.finished")] == [
        *["snapshot.taken"] * 2, *["eval.finished"] * 2,
    ]  # fmt: skip


def test_a_late_crossing_ends_the_run_and_its_snapshot_bears_the_claim(cli: Cli) -> None:
    """The first epoch reaches the target, which is known some steps later: the claim is the first epoch's second."""
    process, run = started(cli, *LONG, "target.top5=0.5")
    text, _ = process.communicate(timeout=100)
    assert process.returncode == 0, text
    summary = summarize(run)
    crossing = summary.crossing()
    assert summary.reason == "target_reached"
    assert crossing is not None and crossing.epoch == 1
    assert summary.steps_done > crossing.step
    assert crossing.time_to_accuracy_s("dawnbench") < crossing.time_to_accuracy_s("everything")
    kept = run / "snapshots" / f"step-{crossing.step:08d}"
    assert {path.name for path in kept.iterdir()} == {"checkpoint.json", "model.pt", "result.json"}
    assert f"snapshots/{kept.name}/model.pt" in json.loads((run / "seal.json").read_text())["sha256"]
    done = cli.run("verify", str(run))
    assert "confirmed   accuracy of epoch 1" in done.stdout, done.stdout + done.stderr


def test_an_evaluator_killed_once_goes_on_and_killed_twice_is_done_without(cli: Cli) -> None:
    """Its second start goes on where the first ended; after the second end the training validates by itself."""
    process, run = started(cli, *SHORT, "phases[0].epochs=15", "checkpoint.every_epochs=15")
    wait_for(lambda: counts(run), what="the first result")
    first = evaluators_of(run)
    kill(first)
    second = wait_for(lambda: [pid for pid in evaluators_of(run) if pid not in first], what="a second start")
    before = len(counts(run))
    wait_for(lambda: len(counts(run)) > before, what="a result of the second start")
    kill(second)
    text, _ = process.communicate(timeout=100)
    assert process.returncode == 0, text
    assert [row[0] for row in counts(run)] == list(range(15))
    by = [event["data"]["by"] for event in trainer_events(run, 1, "eval.finished")]
    assert by == sorted(by)  # first the evaluator's, then the training's own
    assert {"evaluators", "training"} == set(by)
    assert any("evaluator 0 ended twice" in remark for remark in summarize(run).remarks)
    assert len(list((run / "snapshots").glob("*"))) == 1  # the best


def test_what_waits_for_a_result_is_taken_up_by_the_next_attempt(cli: Cli) -> None:
    """Stopped while its evaluator stands still: the snapshots are validated by whoever goes on, each once."""
    process, run = started(cli, *SHORT, "phases[0].epochs=200", "checkpoint.every_epochs=1")
    wait_for(lambda: counts(run), what="the first result")
    (evaluator,) = evaluators_of(run)
    os.kill(evaluator, signal.SIGSTOP)
    wait_for(lambda: len(list((run / "snapshots").glob("step-*"))) >= 2, what="snapshots that wait")
    process.send_signal(signal.SIGTERM)
    text, _ = process.communicate(timeout=100)
    assert process.returncode == 75, text
    assert evaluators_of(run) == []
    done_before = {row[0] for row in counts(run)}
    ended = trainer_events(run, 1, "run.finished")[0]["data"]["step"] // 5
    changes = sets((f"phases[0].epochs={ended + 1}", "lr=0.01"))
    site = cli.site(1, "other.yaml")  # without evaluators: the training validates what was left, then its own
    done = cli.run("resume", str(run), "--site", site, "--accept-changes", *changes)
    assert done.returncode == 0, done.stdout + done.stderr
    done_after = {row[0] for row in counts(run, 2)}
    assert done_before | done_after == set(range(ended + 1))
    assert not done_before & done_after
    assert [row.top1 is not None for row in summarize(run).epochs] == [True] * (ended + 1)
