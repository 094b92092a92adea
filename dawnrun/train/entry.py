"""A worker process before anything is built: what its attempt is to do, its device, its threads, its peers."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from dawnrun.errors import LaunchError
from dawnrun.recipe.reader import Document, read, read_resolved
from dawnrun.recipe.schema import Recipe, Site
from dawnrun.record.rundir import RunDir
from dawnrun.train.affinity import keep_to_share
from dawnrun.train.peers import Peers, connect
from dawnrun.train.startup import Startup


@dataclass(frozen=True, kw_only=True, slots=True)
class Worker:
    """One process of one attempt. `began`: reading of time.perf_counter when it was entered."""

    run: RunDir
    attempt: int
    began: float
    recipe: Document[Recipe]
    site: Site
    device: torch.device
    peers: Peers
    startup: Startup
    threads: int

    @property
    def decode_threads(self) -> int:
        """Threads that decode images: all of the process's where a GPU computes, half where the CPU does that too."""
        return self.threads if self.device.type != "cpu" else max(1, self.threads // 2)


def attempt_file(run: RunDir, attempt: int, name: str) -> Path:
    """A recipe or site that this attempt uses: its own where a resume changed it, else the run's."""
    own = run.attempt_dir(attempt) / name
    return own if own.exists() else run.path / name


def choose_device(asked: str, index: int | None = None) -> torch.device:
    """The device of this process; `index` counts devices of one kind on a machine, left out: LOCAL_RANK does."""
    if asked == "auto":
        found = torch.accelerator.current_accelerator(check_available=True)
        asked = found.type if found else "cpu"
    if asked == "cpu":
        return torch.device("cpu")
    found = torch.accelerator.current_accelerator(check_available=True)
    index = int(os.environ.get("LOCAL_RANK", "0")) if index is None else index
    if found is None or found.type != asked or index >= torch.accelerator.device_count():
        there = f"{torch.accelerator.device_count()} x {found.type}" if found else "only the CPU"
        raise LaunchError(f"device {asked}, number {index} of this machine, is not there: torch finds {there}")
    torch.accelerator.set_device_index(index)
    return torch.device(asked, index)


def enter(run: RunDir, attempt: int, *, began: float, startup: Startup) -> Worker:
    """Read what this attempt is to do, take the device, join the others."""
    recipe, site = _asked_for(run, attempt)
    device = choose_device(site.device)
    threads = _set_up(recipe.value, site, evaluator=None)
    with startup.part("process_group_s"):
        peers = connect(device, site.comm_timeout_s)
    startup.seconds["slowest_imports_s"] = peers.largest(startup.seconds["imports_s"], device)
    return Worker(
        run=run,
        attempt=attempt,
        began=began,
        recipe=recipe,
        site=site,
        device=device,
        peers=peers,
        startup=startup,
        threads=threads,
    )


def enter_beside(run: RunDir, attempt: int, *, began: float, number: int, device_index: int) -> Worker:
    """The same for a process that belongs to the run, not to the training: evaluator `number`."""
    recipe, site = _asked_for(run, attempt)
    threads = _set_up(recipe.value, site, evaluator=number)
    return Worker(
        run=run,
        attempt=attempt,
        began=began,
        recipe=recipe,
        site=site,
        device=choose_device(site.device, device_index),
        peers=Peers(),
        startup=Startup(0.0),
        threads=threads,
    )


def _asked_for(run: RunDir, attempt: int) -> tuple[Document[Recipe], Site]:
    recipe = read_resolved(attempt_file(run, attempt, "resolved.yaml"))
    return recipe, read(attempt_file(run, attempt, "site.yaml"), Site).value


def _set_up(recipe: Recipe, site: Site, *, evaluator: int | None) -> int:
    """Settings that hold for the whole process; its number of CPU threads."""
    threads = threads_of(site)  # before the process is bound to as many
    place, number = seat(site, os.environ, evaluator=evaluator)
    bound = keep_to_share(site.threads_per_process, place=place, number=number)
    print(bound or "not bound to cores of its own", flush=True)
    torch.set_num_threads(threads)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = recipe.compute.tf32
    torch.backends.cudnn.benchmark = recipe.compute.cudnn_benchmark
    return threads


def seat(site: Site, environment: Mapping[str, str], *, evaluator: int | None) -> tuple[int, int]:
    """This process's place among those of the run on its machine, from 0, and how many they are.

    Behind the ranks of the training come the evaluators, on the first machine or on one of their own.
    """
    processes = site.world_size // site.nodes
    if evaluator is not None:
        return (
            (evaluator, site.evaluators)
            if site.evaluator_node
            else (processes + evaluator, processes + site.evaluators)
        )
    shares = not site.evaluator_node and environment.get("GROUP_RANK", "0") == "0"
    return int(environment.get("LOCAL_RANK", "0")), processes + (site.evaluators if shares else 0)


def threads_of(site: Site) -> int:
    """CPU threads of a process: the site's, or this machine's cores over its processes, evaluators among them."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return site.threads_per_process or max(1, cores // max(1, site.world_size // site.nodes + site.evaluators))
