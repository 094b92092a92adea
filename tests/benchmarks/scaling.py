"""What several processes cost: `python tests/benchmarks/scaling.py [TURNS [local] [ssh] [images]]`.

1. Images per CPU-second of `dawnrun train` in two processes with a thread each, over those of a bare script of torchrun and
   DistributedDataParallel on the same model, images and batch (limit 0.93), and over those of dawnrun in one process with two
   threads. CPU-seconds of the workers between two steps of a run, decoding and exchange included, start left out.
2. Seconds from the command until both workers have been entered, less those of plain torchrun: here (limit 1 s), and by ssh
   on two hosts, where hosts of the testbed can be made (limit 2 s).

In turns; medians. Ends with 1 if a limit is broken.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "testbeds")]

from cli_runs import sets, trainer_events, workers_of  # noqa: E402
from testbed_hosts import Hosts, why_not  # noqa: E402
from testbed_place import Place  # noqa: E402
from worker_runs import TINY, tiny_data  # noqa: E402

IMAGE_SIZE, BATCH_SIZE = 64, 16
FIRST, LAST = 4, 24
PORT = 29_871
RATIO, LOCAL_S, SSH_S = 0.93, 1.0, 2.0
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}", "OMP_WAIT_POLICY": "PASSIVE"}
TICKS = os.sysconf("SC_CLK_TCK")
MARK = "import pathlib, sys, os; pathlib.Path(sys.argv[1], 'rank-' + os.environ['RANK']).touch()\n"
"""The whole program of plain torchrun's workers."""


def cpu_s(pid: int) -> float:
    """CPU-seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Training:
    """`dawnrun train` in a folder of its own."""

    def __init__(self, folder: Path, data: Path) -> None:
        """`data` holds the data set `tiny`."""
        self.folder, self.data = folder, data
        (folder / "tiny.yaml").write_text(TINY)

    def start(self, processes: int, threads: int, steps: int) -> tuple["subprocess.Popen[bytes]", Path]:
        """The command and its run directory."""
        before = set(self.folder.glob("runs/tiny-*"))
        site = f"device: cpu\nprocesses_per_node: {processes}\nthreads_per_process: {threads}\ndata_root: {self.data}\n"
        (self.folder / "site.yaml").write_text(site)
        images = 2 * BATCH_SIZE
        values = sets((
            f"phases[0].image_size={IMAGE_SIZE}", f"phases[0].global_batch_size={images}",
            f"phases[0].per_device_batch_size={images // processes}", f"phases[0].epochs={steps}", "log_every_steps=2",
            f"validation.from_epoch={steps}", f"checkpoint.every_epochs={steps}", "input.last_batch=drop",
        ))  # fmt: skip
        command = [sys.executable, "-m", "dawnrun", "train", "--config", "tiny.yaml", "--site", "site.yaml", *values]
        process = subprocess.Popen(
            command, cwd=self.folder, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
        )
        found = until(lambda: set(self.folder.glob("runs/tiny-*")) - before, "the run")
        return process, found.pop()

    def images_per_cpu_s(self, processes: int, threads: int) -> float:
        """Between two steps of one run, which is then ended."""
        process, run = self.start(processes, threads, 1000)
        readings = {}
        for step in (FIRST, LAST):
            until(lambda step=step: steps_of(run) >= step, f"step {step}")
            done, workers = steps_of(run), workers_of(run)
            readings[step] = (done, sum(map(cpu_s, workers)))
        process.kill()
        process.wait()
        until(lambda: not workers_of(run), "the end of the workers")
        (first, began), (last, ended) = readings.values()
        return (last - first) * 2 * BATCH_SIZE / (ended - began)


def steps_of(run: Path) -> int:
    """Updates that the event log tells of."""
    return max((line["data"]["step"] for line in trainer_events(run, 1, "train.progress")), default=0)


def until(condition: Callable[[], object], what: str, limit_s: float = 120) -> object:
    """What it gives once it is true."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.01)
    raise TimeoutError(what)


def torchrun(*words: str) -> list[str]:
    """Plain torchrun on this machine."""
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", *words]


def bare_images_per_cpu_s(folder: Path, data: Path) -> float:
    """The bare script's."""
    words = [str(data / "tiny"), *map(str, (IMAGE_SIZE, BATCH_SIZE, FIRST, LAST)), str(folder)]
    script = str(Path(__file__).with_name("bare_ddp.py"))
    environment = {**ENVIRONMENT, "OMP_NUM_THREADS": "1"}
    subprocess.run(torchrun(script, *words), env=environment, check=True, capture_output=True)
    taken = sum(json.loads((folder / f"bare-{rank}.json").read_text()) for rank in range(2))
    return (LAST - FIRST) * 2 * BATCH_SIZE / taken


def throughput(folder: Path, data: Path, turns: int) -> int:
    """Print both ratios; 1 if the first is below its limit."""
    training = Training(folder, data)
    over_bare, over_one = [], []
    for _ in range(turns):
        two = training.images_per_cpu_s(2, 1)
        bare = bare_images_per_cpu_s(folder, data)
        one = training.images_per_cpu_s(1, 2)
        over_bare.append(two / bare)
        over_one.append(two / one)
        print(
            f"  images per CPU-second: dawnrun 2 x 1 {two:.2f}, bare torchrun and DDP {bare:.2f}, dawnrun 1 x 2 {one:.2f}"
        )
    ratio = statistics.median(over_bare)
    print(f"dawnrun in 2 processes over bare torchrun and DDP: {ratio:.3f} (at least {RATIO})")
    print(f"dawnrun in 2 processes of 1 thread over 1 process of 2 threads: {statistics.median(over_one):.3f}")
    return int(ratio < RATIO)


def entered(folder: Path, began: float, pattern: str) -> float:
    """Seconds until the marks of both ranks were there."""
    until(lambda: len(list(folder.glob(pattern))) == 2, "both workers")
    return max(path.stat().st_mtime for path in folder.glob(pattern)) - began


def overhead(name: str, limit_s: float, ours: Callable[[], float], plain: Callable[[], float], turns: int) -> int:
    """Print the difference; 1 if it is above the limit."""
    ours()  # once, so that byte code is written and files are cached
    seconds = [(ours(), plain()) for _ in range(turns)]
    medians = [statistics.median(values) for values in zip(*seconds, strict=True)]
    more = statistics.median(one - other for one, other in seconds)
    print(
        f"start {name}: dawnrun {medians[0]:.2f} s, plain torchrun {medians[1]:.2f} s: {more:+.2f} s (under {limit_s:g} s)"
    )
    return int(more > limit_s)


def local_start(folder: Path, data: Path, turns: int) -> int:
    """On this machine."""
    training = Training(folder, data)
    (folder / "mark.py").write_text(MARK)

    def ours() -> float:
        began = time.time()
        process, run = training.start(2, 1, 2)
        took = entered(run / "attempts" / "1", began, "rank-*.started")
        process.kill()
        process.wait()
        until(lambda: not workers_of(run), "the end of the workers")
        return took

    def plain() -> float:
        with tempfile.TemporaryDirectory() as marks:
            began = time.time()
            subprocess.run(torchrun(str(folder / "mark.py"), marks), env=ENVIRONMENT, check=True, capture_output=True)
            return entered(Path(marks), began, "rank-*")

    return overhead("on this machine", LOCAL_S, ours, plain, turns)


def ssh_start(folder: Path, turns: int) -> int:
    """On two hosts."""
    hosts = Hosts(folder / "hosts")
    try:
        place = Place(folder / "place", hosts)
        (folder / "mark.py").write_text(MARK)

        def ours() -> float:
            for path in (place.folder / "runs").glob("toy-*"):
                path.rename(folder / path.name)
            began = time.time()
            process = place.train("endless")
            run = until(lambda: next((place.folder / "runs").glob("toy-*"), None), "the run")
            took = entered(run / "attempts" / "1", began, "rank-*.started")
            process.kill()
            place.until_none_is_left(30)
            return took

        def plain() -> float:
            with tempfile.TemporaryDirectory() as marks:
                began = time.time()
                started = [subprocess.Popen(by_ssh(rank, marks), stdout=subprocess.DEVNULL) for rank in range(2)]
                took = entered(Path(marks), began, "rank-*")
                [process.wait() for process in started]
                return took

        def by_ssh(rank: int, marks: str) -> list[str]:
            agent = (
                f"GLOO_SOCKET_IFNAME=eth0 {sys.executable} -m torch.distributed.run --nnodes=2 --nproc-per-node=1"
                f" --rdzv-backend=c10d --rdzv-endpoint={hosts.address(1)}:{PORT} --rdzv-id=plain"
                f" --rdzv-conf=is_host={'true' if rank == 0 else 'false'} --local-addr={hosts.address(rank + 1)}"
            )
            return ["ssh", "-F", str(hosts.ssh_config), f"node{rank + 1}", f"{agent} {folder}/mark.py {marks}"]

        return overhead("by ssh on two hosts", SSH_S, ours, plain, turns)
    finally:
        hosts.down()


def main() -> int:
    """Measure, print, judge."""
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    parts = sys.argv[2:] or ["local", "ssh", "images"]
    with tempfile.TemporaryDirectory() as folder:
        root, broken = Path(folder), 0
        data = tiny_data(root, train_per_class=2)
        for name in ("trained", "local", "hosts", "place"):
            (root / name).mkdir()
        if "local" in parts:
            broken += local_start(root / "local", data, turns)
        if "ssh" in parts and (reason := why_not()):
            print(f"start by ssh: not measured: {reason}")
        elif "ssh" in parts:
            broken += ssh_start(root, turns)
        if "images" in parts:
            broken += throughput(root / "trained", data, turns)
        return min(1, broken)


if __name__ == "__main__":
    sys.exit(main())
