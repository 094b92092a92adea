"""The command line as a user runs it, for end-to-end tests."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from worker_runs import TINY, worker_environment

SITE = """
name: test-site
device: cpu
processes_per_node: {processes}
threads_per_process: 1
data_root: {data_root}
run_root: runs
"""


class Cli:
    """`dawnrun` in a folder of its own; `data_root` holds the data set `tiny`."""

    def __init__(self, folder: Path, data_root: Path) -> None:
        self.folder, self.data_root = folder, data_root
        (folder / "tiny.yaml").write_text(TINY)
        self.site(1)

    def site(self, processes: int, name: str = "site.yaml", extra: str = "") -> str:
        text = SITE.format(processes=processes, data_root=self.data_root) + extra
        (self.folder / name).write_text(text)
        return name

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "dawnrun", *arguments]

    def run(self, *arguments: str, timeout: float = 110) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env=worker_environment(),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def train(self, *settings: str, site: str = "site.yaml", timeout: float = 110) -> subprocess.CompletedProcess[str]:
        return self.run("train", "--config", "tiny.yaml", "--site", site, *sets(settings), timeout=timeout)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.folder,
            env=worker_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def newest(self) -> Path:
        """The run made last."""
        return max((self.folder / "runs").glob("[!.]*"), key=lambda path: path.stat().st_mtime)


def sets(settings: Sequence[str]) -> list[str]:
    """`--set` for each."""
    return [part for setting in settings for part in ("--set", setting)]


def wait_for(condition: Callable[[], Any], *, timeout_s: float = 90, what: str = "") -> Any:
    """Poll until `condition` is truthy and return it."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.05)
    raise AssertionError(f"waited {timeout_s} s in vain for {what or condition}")


def trainer_events(run: Path, attempt: int, kind: str | None = None, writer: str = "trainer") -> list[dict[str, Any]]:
    """Complete lines of an attempt's log so far."""
    path = run / "events" / str(attempt) / f"{writer}.jsonl"
    if not path.exists():
        return []
    lines = [json.loads(line) for line in path.read_text().split("\n")[:-1]]
    return [line for line in lines if kind is None or line["kind"] == kind]


def steps_done(run: Path, attempt: int) -> int:
    """Updates recorded by an attempt."""
    return max((line["data"]["step"] for line in trainer_events(run, attempt, "train.progress")), default=0)


def workers_of(run: Path) -> list[int]:
    """Processes of the trainer for this run that are alive now."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            starters = {b"dawnrun.launch.guard", b"torch.distributed.run"}
            if {b"dawnrun.train", os.fsencode(run.resolve())} <= set(words) and not starters & set(words):
                found.append(int(entry.name))
    return found


def kill(pids: Sequence[int]) -> None:
    """SIGKILL, as the kernel or an operator would."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
