"""A folder that hosts share, with a site for them and the command line to use there."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import torch
from cli_runs import sets, wait_for
from ruamel.yaml import YAML
from testbed_hosts import Hosts
from worker_runs import TINY, newest_weights

from dawnrun.record.rundir import RunDir

TESTS = Path(__file__).parents[1]
PATHS = f"{TESTS.parent}{os.pathsep}{TESTS}"
# 60 images in batches of 10: 6 steps an epoch.
SHORT = ("phases[0].global_batch_size=10", "phases[0].per_device_batch_size=5", "checkpoint.every_steps=2")
REAL = ("train", "--config", "tiny.yaml", "--site", "site.yaml", *sets(SHORT))
"""Arguments of the real trainer, to be begun with `fake=False`."""
TOY = """\
name: toy
phases:
  - {epochs: 2, image_size: 64, global_batch_size: 32, per_device_batch_size: 16}
  - {epochs: 2, image_size: 96, global_batch_size: 16, per_device_batch_size: 8}
lr: 0.1
target: {top5: 93}
"""


class Undisturbed:
    """The weights that a run without any harm ended with."""

    def __init__(self, run: RunDir) -> None:
        self._weights = newest_weights(run)

    def differences(self, run: RunDir, *, saved_elsewhere: bool = False) -> list[str]:
        """Names of the tensors that are not equal bit for bit in the newest checkpoint of `run`.

        `saved_elsewhere`: `run` saved at a step at which this one did not. A save averages BatchNorm's running
        statistics over the processes, which is linear as their updates are: once more is the same but for rounding.
        """
        ours = newest_weights(run)
        assert ours.keys() == self._weights.keys()
        different = [name for name, value in self._weights.items() if not torch.equal(ours[name], value)]
        if saved_elsewhere:
            statistics = [name for name in different if "running_" in name]
            for name in statistics:
                torch.testing.assert_close(ours[name], self._weights[name], rtol=1e-5, atol=1e-6, msg=name)
            different = [name for name in different if name not in statistics]
        return different


class Place:
    """Recipes `toy.yaml` (for the fake worker) and `tiny.yaml`, runs in `runs`."""

    def __init__(self, folder: Path, hosts: Hosts) -> None:
        self.folder, self.hosts = folder, hosts
        self.env = {**os.environ, "PYTHONPATH": PATHS, "OMP_NUM_THREADS": "1"}
        self._started: list[subprocess.Popen[str]] = []
        (folder / "toy.yaml").write_text(TOY)
        (folder / "tiny.yaml").write_text(TINY)
        for split in ("train", "val"):
            for name in ("a", "b"):
                (folder / "data" / split / name).mkdir(parents=True)

    def site(self, *, fake: str = "", ssh: dict | None = None, **values: object) -> str:
        """Write a site of two hosts with a process each."""
        settings = {"hosts": ["node1", "node2"], "config": str(self.hosts.ssh_config), "directory": str(TESTS.parent)}
        text = {
            "launcher": {"ssh": {**settings, **(ssh or {})}},
            "nodes": 2,
            "processes_per_node": 1,
            "threads_per_process": 1,
            "device": "cpu",
            **values,
        }
        text["env"] = {"PYTHONPATH": PATHS, **({"FAKE": fake} if fake else {}), **values.get("env", {})}
        with (self.folder / "site.yaml").open("w") as file:
            YAML().dump(text, file)
        return "site.yaml"

    def slurm_site(self, *, fake: str = "", slurm: dict | None = None, **values: object) -> str:
        """Write a site of two Slurm nodes with a process each."""
        launcher = {"slurm": {"cpus_per_node": 2, "directory": str(TESTS.parent), **(slurm or {})}}
        return self.site(fake=fake, launcher=launcher, **values)

    def command(self, *words: str, fake: bool = True) -> list[str]:
        """The command line, with the fake worker or the real one."""
        program = [str(TESTS / "fake_cli.py")] if fake else ["-m", "dawnrun"]
        return [sys.executable, *program, *words]

    def start(self, *words: str, fake: bool = True) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            self.command(*words, fake=fake), cwd=self.folder, env=self.env, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        self._started.append(process)
        return process

    def train(self, fake: str, **values: object) -> "subprocess.Popen[str]":
        return self.start("train", "--config", "toy.yaml", "--site", self.site(fake=fake, **values))

    def run(self, *words: str, fake: bool = True, timeout_s: float = 110) -> tuple[int, str]:
        process = self.start(*words, fake=fake)
        text, _ = process.communicate(timeout=timeout_s)
        return process.returncode, text

    def run_by_hand(self, printed: str) -> "tuple[Path, subprocess.CompletedProcess[str]]":
        """What `--dry-run` printed, typed into a shell for a run directory of one's own; that, and how it went."""
        run = self.folder / "runs" / "by-hand"
        for folder in ("attempts/1", "logs/1", "events", "checkpoints"):
            (run / folder).mkdir(parents=True)
        script = ""
        for line in printed.splitlines():
            if line.startswith("# file ") and line.endswith(":"):
                script += f"cat > '{line[7:-1]}' <<'END OF FILE'\n"
            elif line.startswith("# end of "):
                script += "END OF FILE\n"
            else:
                script += f"{line}\n"
        there = next(line for line in printed.splitlines() if line.startswith("# file "))[7:].rpartition("/")[0]
        script = script[script.index("cat > ") :].replace(there, str(run)).replace(Path(there).name, run.name)
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return run, done

    @property
    def run_dir(self) -> RunDir:
        (path,) = (path for path in (self.folder / "runs").iterdir() if not path.name.startswith("."))
        return RunDir(path)

    def wait_for(self, path: str, timeout_s: float = 90) -> Path:
        """Wait until a file of the run exists."""
        return wait_for(lambda: next((self.folder / "runs").glob(f"*/{path}"), None), timeout_s=timeout_s, what=path)

    def processes(self, word: str = "") -> dict[int, str]:
        """Processes of this folder's runs on any host and here, guards and ssh too, with their command lines."""
        spaces = self.hosts.spaces()
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and int(entry.name) != os.getpid():
                with suppress(OSError):
                    line = (entry / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
                    on_host = "dawnrun" in line and str((entry / "ns" / "pid").readlink()) in spaces
                    if (str(self.folder) in line or str(self.hosts.ssh_config) in line or on_host) and word in line:
                        found[int(entry.name)] = line
        return found

    def on_host(self, number: int, word: str) -> list[int]:
        """Those on one host."""
        found = []
        for pid in self.processes(word):
            with suppress(OSError):
                if str(Path(f"/proc/{pid}/ns/pid").readlink()) == self.hosts.spaces()[number - 1]:
                    found.append(pid)
        return found

    def until_none_is_left(self, timeout_s: float) -> float:
        """Seconds until no process of this folder was left anywhere."""
        began = time.monotonic()
        while left := self.processes():
            assert time.monotonic() - began < timeout_s, left
            time.sleep(0.05)
        return time.monotonic() - began

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
