"""`dawnrun train` and `resume` on this machine, with real processes and a fake worker in the trainer's place."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dawnrun.launch.outcome import newest_checkpoint, read_node
from dawnrun.record.rundir import RunDir
from dawnrun.record.summary import summarize

TESTS = Path(__file__).parents[1]
RECIPE = """\
name: toy
phases:
  - {epochs: 2, image_size: 64, global_batch_size: 32, per_device_batch_size: 16}
  - {epochs: 2, image_size: 96, global_batch_size: 16, per_device_batch_size: 8}
lr: 0.1
target: {top5: 93}
"""


class Workplace:
    """A folder with a recipe, data and runs, and the command line to use there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {**os.environ, "PYTHONPATH": f"{TESTS.parent}{os.pathsep}{TESTS}", "PYTHONWARNINGS": "error"}
        self.env["DAWNRUN_CACHE"] = str(folder / "cache")
        (folder / "recipe.yaml").write_text(RECIPE)
        for split in ("train", "val"):
            for name in "abcdef":
                (folder / "data" / split / name).mkdir(parents=True)
                for number in range(8):
                    shutil.copyfile(TESTS / "data/one_pixel.png", folder / "data" / split / name / f"{number}.png")

    def site(self, fake: str, processes: int = 1, **values: object) -> str:
        lines = [f"processes_per_node: {processes}", f"env: {{FAKE: '{fake}'}}", "device: cpu"]
        lines += [f"{key}: {value}" for key, value in values.items()]
        (self.folder / "site.yaml").write_text("\n".join(lines) + "\n")
        return "site.yaml"

    def start(self, *words: str) -> "subprocess.Popen[str]":
        command = [sys.executable, str(TESTS / "fake_cli.py"), *words]
        return subprocess.Popen(
            command, cwd=self.folder, env=self.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip

    def train(self, fake: str, processes: int = 1, **values: object) -> "subprocess.Popen[str]":
        return self.start("train", "--config", "recipe.yaml", "--site", self.site(fake, processes, **values))

    def run(self, *words: str) -> tuple[int, str]:
        process = self.start(*words)
        text, _ = process.communicate(timeout=60)
        return process.returncode, text

    @property
    def run_dir(self) -> RunDir:
        (path,) = (self.folder / "runs").glob("toy-*")
        return RunDir(path)

    def wait_for(self, path: str, timeout_s: float = 40) -> Path:
        """Wait until a file of the run exists."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            for found in (self.folder / "runs").glob(f"toy-*/{path}"):
                return found
            time.sleep(0.05)
        raise TimeoutError(path)

    def left(self) -> list[str]:
        """Command lines of processes that still belong to this folder."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and int(entry.name) != os.getpid():
                try:
                    words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                except OSError:
                    continue
                if any(str(self.folder) in word for word in words):
                    found.append(" ".join(words))
        return found

    def wait_until_none_is_left(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while self.left() and time.monotonic() < deadline:
            time.sleep(0.1)
        assert self.left() == []


@pytest.fixture
def place(tmp_path):
    return Workplace(tmp_path)


def finish(process, timeout_s: float = 60) -> str:
    text, _ = process.communicate(timeout=timeout_s)
    return text


def test_a_run_that_reaches_its_target(place):
    """C44 and C45: piped output is plain, its first line comes early."""
    began = time.monotonic()
    process = place.train("finish")
    first = process.stdout.readline()
    assert time.monotonic() - began < 2
    text = first + finish(process)
    assert process.returncode == 0, text
    assert "target reached (top-5 93 %): top-5 94.00 %" in text
    assert "\r" not in text and "\x1b" not in text
    assert text.count("images/s") <= 2  # the whole run takes less than two intervals
    assert f"dawnrun report {place.run_dir.path}" in text
    summary = summarize(place.run_dir)
    assert summary.status == "finished"
    assert (place.run_dir.path / "seal.json").is_file()
    assert "dawnrun.launch.guard" in (place.run_dir.attempt_dir(1) / "plan.txt").read_text()
    assert (place.run_dir.logs / "1" / "rank-000.log").read_text() == "fake worker 0 of 1 started\n"
    assert place.left() == []


def test_a_finished_run_is_not_resumed(place):
    finish(place.train("finish"))
    files = {path: path.stat().st_mtime_ns for path in place.run_dir.path.rglob("*")}
    code, text = place.run("resume", str(place.run_dir.path))
    assert code == 0
    assert "is finished, nothing to resume: target reached" in text
    assert {path: path.stat().st_mtime_ns for path in place.run_dir.path.rglob("*")} == files


def test_a_run_that_ends_below_its_target(place):
    process = place.train("below")
    text = finish(process)
    assert process.returncode == 6
    assert "finished below the target (top-5 99 %); best: top-5 96.00 %, top-1 65.00 % in epoch 4" in text


@pytest.mark.parametrize(
    ("fake", "code", "message"),
    [
        ("raise:0", 5, "ValueError: weights went missing"),
        ("kill:0", 5, "SIGKILL: ended by signal 9"),
    ],
)
def test_a_worker_that_fails(place, fake, code, message):
    process = place.train(fake)
    text = finish(process)
    assert process.returncode == code, text
    *_, cause, resume = text.splitlines()
    assert "cause: rank 0 on " in cause
    assert message in cause
    assert f"go on with: dawnrun resume {place.run_dir.path}" in resume
    assert "Traceback (most recent call last)" not in text
    assert "    fake worker 0 of 1 started" in text  # the last lines of its log
    assert place.left() == []


def test_a_worker_that_meets_bad_data(place):
    """C05: its message, once; neither a log nor a resume would help."""
    process = place.train("data:0")
    text = finish(process)
    assert process.returncode == 3, text
    assert text.endswith("\ndawnrun: data/train/a/1.jpg: truncated\n")
    assert text.count("truncated") == 1
    assert "resume" not in text


def test_rank_1_of_2_fails(place):
    """C27: the last lines name the rank, the host and its error; both logs exist."""
    process = place.train("raise:1", processes=2)
    text = finish(process)
    assert process.returncode == 5, text
    assert f"cause: rank 1 on {os.uname().nodename} at step " in text.splitlines()[-2]
    assert "ValueError: weights went missing" in text.splitlines()[-2]
    logs = place.run_dir.logs / "1"
    assert (logs / "rank-000.log").exists()
    assert "weights went missing" in (logs / "rank-001.log").read_text()
    assert place.left() == []


def test_rank_1_of_2_is_killed(place):
    """C27: also where the rank could not write a report."""
    process = place.train("kill:1", processes=2)
    text = finish(process)
    assert process.returncode == 5, text
    assert "cause: rank 1 on " in text.splitlines()[-2]
    assert "SIGKILL" in text.splitlines()[-2]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 75)])
def test_a_signal_ends_a_run_after_a_checkpoint(place, number, code):
    process = place.train("endless")
    place.wait_for("attempts/1/rank-000.started")
    time.sleep(1)
    process.send_signal(number)
    text = finish(process, 15)
    assert process.returncode == code, text
    kept = newest_checkpoint(place.run_dir.checkpoints)
    assert kept is not None
    assert f"kept: {kept}; go on with: dawnrun resume {place.run_dir.path}" in text
    assert place.left() == []
    assert summarize(place.run_dir).status in ("preempted", "interrupted")


def test_ctrl_c_leaves_no_process_of_a_2_process_run(place):
    """C31: a terminal sends Ctrl-C to every process in the foreground; the workers must hear of it from us alone."""
    process = place.train("endless", processes=2)
    place.wait_for("attempts/1/rank-001.started")
    time.sleep(1)
    assert os.getpgid(read_node(place.run_dir.attempt_dir(1))["pid"]) != process.pid
    os.killpg(process.pid, signal.SIGINT)
    text = finish(process, 15)
    assert process.returncode == 130, text
    assert place.left() == []
    assert newest_checkpoint(place.run_dir.checkpoints) is not None


def test_a_second_ctrl_c_kills_at_once(place):
    """C31: workers that do not listen are not waited for."""
    process = place.train("stubborn")
    place.wait_for("attempts/1/rank-000.started")
    process.send_signal(signal.SIGINT)
    time.sleep(1)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    text = finish(process, 5)
    assert process.returncode == 130
    assert place.left() == []
    assert "killed at once, as the second signal asked" in text
    assert "SIGKILL" not in text and "memory runs out" not in text


def test_nothing_survives_the_command_line(place):
    """The guard's lease: a launcher killed with SIGKILL takes the run with it, after a checkpoint."""
    process = place.train("endless")
    place.wait_for("attempts/1/rank-000.started")
    time.sleep(1)
    process.kill()
    finish(process, 15)
    place.wait_until_none_is_left(10)
    assert read_node(place.run_dir.attempt_dir(1))["reason"] == "lost"
    assert newest_checkpoint(place.run_dir.checkpoints) is not None


def test_a_run_whose_command_was_killed_is_resumed_at_once(place):
    """C32: its guard is waited for."""
    process = place.train("endless")
    place.wait_for("attempts/1/rank-000.started")
    time.sleep(1)
    process.kill()
    code, text = place.run("resume", str(place.run_dir.path), "--site", place.site("finish"))
    finish(process)
    assert code == 0, text
    assert "resumed from checkpoints/step-" in text


def test_any_path_will_do(place):
    """C44: bytes that are no UTF-8, and what would steer the terminal, which is shown as it is written in Python."""
    name = os.fsdecode(b"b\xff\x1bd\nz")
    (place.folder / "data").rename(place.folder / name)
    words = ("--data-root", name, "--run-root", f"{name}/runs", "--site", place.site("finish", 2))
    code, text = place.run("train", "--config", "recipe.yaml", *words)
    assert code == 0, text
    assert f"data        full: {place.folder}/b\\xff\\x1bd\\nz\n" in text
    assert f"run directory: {place.folder}/b\\xff\\x1bd\\nz/runs/toy-" in text
    assert "\x1b" not in text
    (run,) = (place.folder / name / "runs").glob("toy-*")
    assert os.fsencode(run) in (run / "attempts/1/plan.txt").read_bytes()
    assert place.run("validate", str(run))[0] == 0


def test_a_second_ctrl_c_that_kills_ranks_is_not_called_a_lack_of_memory(place):
    """C31."""
    process = place.train("stubborn", processes=2)
    place.wait_for("attempts/1/rank-001.started")
    process.send_signal(signal.SIGINT)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    text = finish(process, 10)
    assert process.returncode == 130, text
    assert "killed at once, as the second signal asked" in text
    assert "SIGKILL" not in text
    assert place.left() == []


def test_a_run_that_hangs_is_ended_with_its_position(place):
    """C45: no step for the site's limit: where it hangs is printed, and the run fails."""
    process = place.train("hang:0", hang_timeout_s=2)
    text = finish(process)
    assert process.returncode == 5, text
    assert "in wait_for_a_gradient_that_never_comes" in text
    assert "no step for 2 s" in text
    assert place.left() == []


def test_a_rank_that_does_not_start_is_named(place):
    """C45: within 30 s."""
    process = place.train("late:1", processes=2)
    text = finish(process)
    assert process.returncode == 0, text
    assert "waiting for rank 1 of 2 to start" in text


def test_a_running_run_is_not_resumed_and_a_stopped_one_is(place):
    process = place.train("endless")
    place.wait_for("attempts/1/rank-000.started")
    time.sleep(1)
    run = place.run_dir
    code, text = place.run("resume", str(run.path))
    assert code == 2
    node = read_node(run.attempt_dir(1))
    assert f"attempt 1 is still running: its guard is process {node['pid']} on {node['host']}; stop it with" in text
    process.send_signal(signal.SIGTERM)
    finish(process, 15)

    code, text = place.run("resume", str(run.path), "--set", "seed=7", "--site", place.site("finish"))
    assert code == 2
    assert "    seed: 0 -> 7\n" in text
    assert run.attempts() == [1]

    recipe_yaml = run.path / "recipe.yaml"
    recipe_yaml.write_text(recipe_yaml.read_text().replace("lr: 0.1", "lr: 77"))
    words = ("--set", "seed=7", "--accept-changes", "--site", place.site("finish"))
    code, text = place.run("resume", str(run.path), *words)
    assert code == 0, text
    assert "resumed from checkpoints/step-" in text
    assert json.loads((run.attempt_dir(2) / "changes.json").read_text()) == {"seed": [0, 7]}
    assert "seed: 7" in (run.attempt_dir(2) / "resolved.yaml").read_text()
    assert "77" not in (run.attempt_dir(2) / "resolved.yaml").read_text()
    assert "seed: 0" in run.resolved_yaml.read_text()
    assert summarize(run).status == "finished"


def test_validate_reads_a_run_and_leaves_it_alone(place):
    finish(place.train("finish"))
    run = place.run_dir
    files = {path: path.stat().st_mtime_ns for path in run.path.rglob("*")}
    code, text = place.run("validate", str(run.path))
    assert code == 0, text
    assert f"validating {run.checkpoints}/step-00000060 on cpu" in text
    assert "70.00 % (700 of 1,000)" in text
    assert "95.00 % (950 of 1,000)" in text
    assert "96 px centre crop of the image at 109 px" in text
    code, text = place.run("validate", str(run.checkpoints / "step-00000020"), "--image-size", "128")
    assert code == 0, text
    assert "128 px centre crop of the image at 145 px" in text
    code, text = place.run("validate", str(run.path), "--site", place.site("data:0"))
    assert code == 3, text
    assert text.splitlines()[-1] == "dawnrun: data/val/a/1.jpg: truncated"
    assert text.count("truncated") == 1
    assert {path: path.stat().st_mtime_ns for path in run.path.rglob("*")} == files


@pytest.mark.parametrize(
    ("harm", "told"), [("broken", "step-00000060: damaged: model.pt"), ("leaves", "step-00000060: gone since")]
)
def test_validate_goes_around_a_checkpoint_that_is_damaged_or_leaves(place, harm, told):
    """C25: a run that goes on removes its older checkpoints."""
    finish(place.train("finish"))
    checkpoints = place.run_dir.checkpoints
    newest = checkpoints / "step-00000060"
    (newest / harm).touch()
    code, text = place.run("validate", str(place.run_dir.path))
    assert code == 0, text
    assert f"{told}; taking the next one" in text
    assert "70.00 % (700 of 1,000)" in text
    if harm == "broken":
        code, text = place.run("validate", str(newest))
        assert code == 2
        assert text.count("damaged") == 1
        assert "the run failed" not in text


def test_validate_of_what_is_no_checkpoint(place):
    process = place.train("raise:0")
    finish(process)
    code, text = place.run("validate", str(place.run_dir.path))
    assert code == 2
    assert "no complete checkpoint in it yet" in text
    code, text = place.run("validate", str(place.run_dir.checkpoints / "step-00000099"))
    assert code == 2
    assert "step-00000099: no such checkpoint" in text


def test_dry_run_starts_and_writes_nothing(place):
    words = ("train", "--config", "recipe.yaml", "--site", place.site("finish", 2), "--dry-run")
    code, text = place.run(*words)
    assert code == 0
    assert "-m torch.distributed.run --nnodes=1 --nproc-per-node=2" in text
    assert "nothing was started" in text
    assert not list((place.folder / "runs").glob("*"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--data-root", "nowhere"), "{folder}/nowhere: no such folder"),
        (("--set", "phases=1"), "phases"),
        (("--set", "phases[0].global_batch_size=24"), "phases[0].global_batch_size"),
    ],
)
def test_what_cannot_work_fails_before_a_start(place, words, message):
    """C05: in under 5 s, before any worker, with the absolute path."""
    began = time.monotonic()
    code, text = place.run("train", "--config", "recipe.yaml", *words)
    assert time.monotonic() - began < 5
    assert code == (3 if "--data-root" in words else 2), text
    assert message.format(folder=place.folder) in text
    assert not list((place.folder / "runs").glob("*"))


@pytest.mark.parametrize(
    ("harm", "setting", "code", "message"),
    [
        ("rm train/a/*", "seed=1", 3, "1 class folder without an image"),
        ("echo x > val/b/0.png", "seed=1", 3, "val/b/0.png (class b)"),
        ("mv val/c val/other", "seed=1", 3, "class lists differ"),
        ("true", "input.num_train_images=3", 3, "full has 48; the recipe needs input.num_train_images = 3"),
        ("rm -r */[ef]", "seed=1", 2, "recipe.yaml:6:16: target.top5: the data have 4 classes"),
    ],
)
def test_bad_data_fail_before_a_start(place, harm, setting, code, message):
    """C05."""
    subprocess.run(["bash", "-c", harm], cwd=place.folder / "data", check=True)
    found, text = place.run("train", "--config", "recipe.yaml", "--set", setting)
    assert found == code, text
    assert message in text
    assert "the run failed" not in text and "dawnrun resume" not in text
    assert not list((place.folder / "runs").glob("*"))


def test_an_unwritable_run_root(place):
    (place.folder / "file").touch()
    code, text = place.run("train", "--config", "recipe.yaml", "--run-root", "file/runs")
    assert code == 2
    assert f"{place.folder}/file/runs: runs cannot be kept here: not a directory" in text
