"""Every way a training can end, seen from the command line: codes, messages, what is kept."""

import json
import os
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path

import torch
from cli_runs import Cli, kill, sets, steps_done, trainer_events, wait_for, workers_of

from dawnrun.record.summary import summarize
from dawnrun.train.checkpoint import damage, read_manifest

ONE_EPOCH = ("phases[0].epochs=1", "phases[0].global_batch_size=20", "phases[0].per_device_batch_size=10")
LONG = (
    "phases[0].epochs=500",
    "phases[0].global_batch_size=8",
    "phases[0].per_device_batch_size=4",
    "checkpoint.every_epochs=500",
)


def started(cli: Cli, *settings: str, site: str = "site.yaml") -> tuple[subprocess.Popen[str], Path]:
    """A long run of which at least two steps are recorded."""
    process = cli.start("train", "--config", "tiny.yaml", "--site", site, *sets((*LONG, *settings)))
    run = wait_for(lambda: next(iter((cli.folder / "runs").glob("tiny-*")), None), what="a run directory")
    wait_for(lambda: steps_done(run, 1) >= 2, what="two steps")
    return process, run


def nothing_left(run: Path) -> bool:
    return not [pid for pid in workers_of(run) if not _is_zombie(pid)]


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_target_reached_stops_the_run_and_is_claimed_at_its_epoch(cli: Cli) -> None:
    """A target that any model meets: the first validation ends the run; its checkpoint is kept and sealed."""
    done = cli.train(*ONE_EPOCH, "phases[0].epochs=3", "target.top5=0.5")
    assert done.returncode == 0, done.stdout + done.stderr
    run = cli.newest()
    summary = summarize(run)
    assert summary.reason == "target_reached"
    assert [crossing.epoch for crossing in summary.crossings if crossing.name == "target"] == [1]
    manifests = [json.loads(path.read_text()) for path in (run / "checkpoints").glob("step-*/checkpoint.json")]
    assert [m["why"] for m in manifests] == [["target", "epoch"]]
    assert (run / "seal.json").exists()


def test_below_the_target_ends_with_6_and_says_what_was_best(cli: Cli) -> None:
    done = cli.train(*ONE_EPOCH, "target.top1=99.9")
    assert done.returncode == 6, done.stdout + done.stderr
    assert "99.9" in done.stdout + done.stderr


def test_ctrl_c_saves_stops_and_leaves_nothing(cli: Cli) -> None:
    """C31."""
    process, run = started(cli)
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130, out
    assert time.monotonic() - began < 30
    assert "dawnrun resume" in out
    assert nothing_left(run)
    assert len(list((run / "checkpoints").glob("step-*"))) == 1


def test_termination_signal_to_one_worker_of_two_stops_both_at_one_step(cli: Cli) -> None:
    """C30: agreed between ranks at a step boundary, saved, 75."""
    process, run = started(cli, site=cli.site(2, "two.yaml"))
    workers = workers_of(run)
    assert len(workers) == 2
    os.kill(workers[-1], signal.SIGTERM)
    out, _ = process.communicate(timeout=90)
    assert process.returncode == 75, out
    assert nothing_left(run)
    finished = trainer_events(run, 1, "run.finished")[0]["data"]
    assert finished["reason"] == "preempted"
    assert [path.name for path in (run / "checkpoints").glob("step-*")] == [f"step-{finished['step']:08d}"]


def test_a_dead_worker_of_two_is_named_and_the_other_ends(cli: Cli) -> None:
    """C27: first failure, host and rank; both rank logs exist; nothing left."""
    process, run = started(cli, site=cli.site(2, "two.yaml"))
    kill(workers_of(run)[-1:])
    out, _ = process.communicate(timeout=90)
    assert process.returncode == 5, out
    assert "SIGKILL" in out and "rank" in out, out
    assert nothing_left(run)
    assert len(list((run / "logs" / "1").glob("rank-*.log"))) == 2
    assert "Traceback" not in out


def test_the_command_killed_leaves_no_worker(cli: Cli) -> None:
    process, run = started(cli)
    process.kill()
    process.communicate()
    wait_for(lambda: nothing_left(run), timeout_s=20, what="the workers to end")


def test_a_loss_that_is_not_finite_ends_the_run_with_step_and_rate(cli: Cli) -> None:
    """C25."""
    done = cli.train(*LONG, "lr=1e8", "loss.max_consecutive_nonfinite=3", "precision=fp32")
    out = done.stdout + done.stderr
    assert done.returncode == 5, out
    assert "not finite" in out and "1e+08" in out and "step" in out and "epoch" in out
    assert "Traceback" not in out
    assert "start it anew with a changed recipe" in out and "dawnrun resume" not in out
    assert not list((cli.newest() / "checkpoints").glob("step-*"))


def test_overflow_in_fp16_skips_a_step_and_the_rates_stay(cli: Cli) -> None:
    """C23, C24, C26: a scale far too large; rates as planned; the scale goes through a checkpoint; one warning."""
    few = ("phases[0].epochs=1", "phases[0].global_batch_size=10", "phases[0].per_device_batch_size=10")
    done = cli.train(*few, "precision=fp16", "checkpoint.every_steps=3", "phases[0].image_size=32")
    assert done.returncode == 0, done.stdout + done.stderr
    run = cli.newest()
    windows = [event["data"] for event in trainer_events(run, 1, "train.progress")]
    assert windows[0]["skipped_steps"] == 1 and windows[0]["loss_scale"] == 32768
    assert {window["lr"] for window in windows} == {0.01}
    assert trainer_events(run, 1, "remark")[0]["data"]["text"].startswith("precision fp16 on a CPU")
    log = (run / "logs" / "1" / "rank-000.log").read_text()
    assert "lr_scheduler" not in log and "Warning" not in log, log
    for newer in sorted((run / "checkpoints").glob("step-*"))[1:]:
        shutil.rmtree(newer)
    kept = torch.load(run / "checkpoints" / "step-00000003" / "state.pt", weights_only=True)["loss_scale"]
    assert float(kept["scale"]) == windows[2]["loss_scale"]
    (run / "seal.json").unlink()
    assert sum(summarize(run).skipped_steps for _ in range(1)) == sum(window["skipped_steps"] for window in windows)


def test_eleven_images_on_two_processes(cli: Cli, tmp_path: Path) -> None:
    """C33: an epoch that does not divide ends, with and without its last batch, at one step count."""
    data = tmp_path / "eleven" / "tiny"
    shutil.copytree(cli.data_root / "tiny", data)
    kept = sorted(data.glob("train/*/*"))[:11]
    for path in data.glob("train/*/*"):
        if path not in kept:
            path.unlink()
    for folder in (*data.glob("train/*"), *data.glob("val/*")):
        if folder.name not in {path.parent.name for path in kept}:
            shutil.rmtree(folder)
    cli.data_root = tmp_path / "eleven"
    site = cli.site(2, "two.yaml")
    for mode, steps in (("fill", 3), ("drop", 2)):
        done = cli.train(
            "phases[0].epochs=1",
            "phases[0].global_batch_size=4",
            "phases[0].per_device_batch_size=2",
            f"input.last_batch={mode}",
            site=site,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert steps_done(cli.newest(), 1) == steps


def test_two_processes_then_three_and_one(cli: Cli) -> None:
    """C41: a checkpoint of two processes loads in three and in one, names are bare, the next rate is right."""
    recipe = (
        "phases[0].epochs=3",
        "phases[0].global_batch_size=12",
        "phases[0].per_device_batch_size=2",
        "target.top5=100",
    )
    process = cli.start("train", "--config", "tiny.yaml", "--site", cli.site(2, "two.yaml"), *sets(recipe))
    run = wait_for(lambda: next(iter((cli.folder / "runs").glob("tiny-*")), None), what="a run directory")
    wait_for(lambda: list((run / "checkpoints").glob("step-*")), what="a checkpoint")
    kill(workers_of(run))
    process.communicate(timeout=60)
    three = cli.run("resume", str(run), "--site", cli.site(3, "three.yaml"))
    assert three.returncode == 6, three.stdout + three.stderr
    weights = torch.load(sorted((run / "checkpoints").glob("step-*"))[0] / "model.pt", weights_only=True)
    assert not [name for name in weights if name.startswith(("module.", "_orig_mod."))]
    summary = summarize(run)
    assert [row.epoch for row in summary.epochs] == [1, 2, 3]
    assert [attempt.world_size for attempt in summary.attempts] == [2, 3]
    assert {point.lr for point in summary.progress} == {0.01}


def test_changed_values_on_a_resume_are_refused_unless_accepted(cli: Cli) -> None:
    """C10."""
    process, run = started(cli, "checkpoint.every_steps=2")
    wait_for(lambda: list((run / "checkpoints").glob("step-*")), what="a checkpoint")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    refused = cli.run("resume", str(run), "--set", "phases[0].epochs=1", "--set", "lr=0.5")
    assert refused.returncode == 2
    text = refused.stdout + refused.stderr
    assert "phases[0].epochs" in text and "500" in text and "lr" in text and "0.5" in text
    assert not (run / "attempts" / "2").exists()
    accepted = cli.run("resume", str(run), "--set", "phases[0].epochs=1", "--set", "lr=0.5", "--accept-changes")
    assert accepted.returncode == 0, accepted.stdout + accepted.stderr
    changes = trainer_events(run, 2, "run.started")[0]["data"]["changes"]
    assert changes["phases[0].epochs"] == [500, 1]
    assert trainer_events(run, 2, "train.progress")[0]["data"]["lr"] == 0.5


def test_a_save_that_fails_keeps_the_one_before_and_ends_with_5(cli: Cli) -> None:
    """C43: a file size limit stands for a full disk; the run goes on, but its last checkpoint is missing."""
    process, run = started(cli, "checkpoint.every_steps=2", "phases[0].epochs=2")
    wait_for(lambda: list((run / "checkpoints").glob("step-*")), what="a checkpoint")
    resource.prlimit(workers_of(run)[0], resource.RLIMIT_FSIZE, (60 << 20, 60 << 20))
    failed = wait_for(lambda: trainer_events(run, 1, "checkpoint.failed"), what="a failed save")[0]["data"]
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 5, out
    assert failed["bytes"] > 60 << 20
    assert failed["path"] in out and "File too large" in out, out
    assert "Traceback" not in out
    left = list((run / "checkpoints").iterdir())
    assert left and all(damage(read_manifest(path)) is None for path in left), "only complete ones have a name"
    assert steps_done(run, 1) == 16, "the run went on to its end"
    again = cli.run("resume", str(run))
    assert again.returncode == 0, again.stdout + again.stderr
    assert "damaged" not in again.stdout
    assert (run / "checkpoints" / "step-00000016").is_dir(), "what could not be saved is trained again"


def test_a_periodic_save_that_fails_is_a_warning_and_a_line_of_the_report(cli: Cli) -> None:
    """C43: the disk takes the last one again."""
    process, run = started(cli, "checkpoint.every_steps=2", "phases[0].epochs=3")
    worker = workers_of(run)[0]
    resource.prlimit(worker, resource.RLIMIT_FSIZE, (60 << 20, resource.RLIM_INFINITY))
    failed = wait_for(lambda: trainer_events(run, 1, "checkpoint.failed"), what="a failed save")[0]["data"]
    resource.prlimit(worker, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    out, _ = process.communicate(timeout=90)
    assert process.returncode == 0, out
    assert f"checkpoint {failed['path']} could not be saved: File too large" in out
    line = f"the checkpoint of step {failed['step']} was not saved: File too large"
    assert line in summarize(run).remarks
    report = cli.run("report", str(run))
    assert line in " ".join(report.stdout.split()), report.stdout
    saved = [event["data"] for event in trainer_events(run, 1, "checkpoint.saved")]
    assert saved[-1]["step"] == 24 and all(0 < save["blocked_s"] <= save["save_s"] for save in saved)


def test_traced_steps_are_written_and_the_report_says_so(cli: Cli) -> None:
    done = cli.run("train", "--config", "tiny.yaml", "--site", "site.yaml", "--profile", "2:3", *sets(ONE_EPOCH))
    assert done.returncode == 0, done.stdout + done.stderr
    run = cli.newest()
    assert [path.name for path in (run / "logs" / "1").glob("trace*")] == ["trace-steps-2-3.json.gz"]
    line = "profiled: steps 2 to 3 were traced, which made them slower (logs/1/trace-steps-2-3.json.gz)"
    assert line in done.stdout and line in summarize(run).remarks
    late = cli.run("train", "--config", "tiny.yaml", "--site", "site.yaml", "--profile", "4:5", *sets(ONE_EPOCH))
    assert late.returncode == 2 and "--profile 4:5: the run has 3 steps" in late.stderr


def test_bad_images_stop_the_run_with_their_path_or_are_replaced_and_counted(cli: Cli, tmp_path: Path) -> None:
    """C12."""
    data = tmp_path / "bad" / "tiny"
    shutil.copytree(cli.data_root / "tiny", data)
    victims = sorted(data.glob("train/*/*"))[3:6]
    for path in victims:
        path.write_bytes(path.read_bytes()[:400])
    cli.data_root = tmp_path / "bad"
    cli.site(1)
    done = cli.train(*ONE_EPOCH)
    out = done.stdout + done.stderr
    assert done.returncode == 3, out
    assert any(path.name in out for path in victims), out
    assert "Traceback" not in out
    done = cli.train(*ONE_EPOCH, "input.max_bad_images=3")
    assert done.returncode == 0, done.stdout + done.stderr
    summary = summarize(cli.newest())
    assert sorted(Path(str(image["path"])).name for image in summary.bad_images) == sorted(
        path.name for path in victims
    )


def test_damaged_checkpoints_are_named_and_a_shorter_recipe_is_refused(cli: Cli) -> None:
    few = (
        "phases[0].epochs=2",
        "phases[0].global_batch_size=20",
        "phases[0].per_device_batch_size=20",
        "target.top1=100",
    )
    assert cli.train(*few).returncode == 6
    run = cli.newest()
    for name in ("seal.json", "classes.json"):
        (run / name).unlink()
    log = run / "events" / "1" / "trainer.jsonl"
    log.write_text("".join(line for line in log.read_text().splitlines(True) if '"run.finished"' not in line))
    shorter = cli.run("resume", str(run), "--set", "phases[0].epochs=1", "--accept-changes")
    out = shorter.stdout + shorter.stderr
    assert shorter.returncode == 2 and "steps are done" in out and "Traceback" not in out, out
    assert not (run / "attempts" / "2").exists(), "nothing is recorded of what was refused"
    newest = run / "checkpoints" / "step-00000006" / "state.pt"
    newest.write_bytes(newest.read_bytes()[:-1])
    done = cli.run("resume", str(run), "--set", "phases[0].epochs=2", "--accept-changes")
    out = done.stdout + done.stderr
    assert done.returncode == 6, out
    assert "damaged checkpoint not used" in out and "step-00000006: state.pt does not have the checksum" in out
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == [
        "damaged-step-00000006",
        "step-00000003",
        "step-00000006",
    ]
    assert any("damaged checkpoint not used" in remark for remark in summarize(run).remarks)
