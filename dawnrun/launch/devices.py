"""What this machine has to train on, found without importing torch here."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dawnrun.errors import LaunchError, UsageError
from dawnrun.recipe.schema import Site

DEVICE_NODES = ("nvidia[0-9]*", "kfd", "accel*", "accel/accel*", "dri/renderD*", "davinci[0-9]*", "habanalabs*")
ASK_TORCH = """
import json, torch
here = torch.accelerator.is_available()
print(json.dumps([str(torch.accelerator.current_accelerator()) if here else "cpu", torch.accelerator.device_count()]))
"""
ASK_LIMIT_S = 120.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """Kind and number of devices; `how` says for people where that comes from."""

    device: str
    count: int
    how: str


def hints(dev: Path = Path("/dev"), environment: Mapping[str, str] = os.environ) -> list[str]:
    """Device files that may belong to an accelerator; none if the user hid NVIDIA's."""
    found = [str(path) for pattern in DEVICE_NODES for path in sorted(dev.glob(pattern))]
    if environment.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1"):
        found = [path for path in found if "nvidia" not in path and "/dri/" not in path]
    return found


def find_device(wanted: str = "auto", *, hinted: list[str] | None = None) -> Found:
    """The accelerator torch would use, or the CPU; torch is asked, in a process of its own, only if something hints at one.

    LaunchError if `wanted` is a device that torch does not find here.
    """
    if wanted == "cpu":
        return Found(device="cpu", count=1, how="as the site says")
    hinted = hints() if hinted is None else hinted
    if not hinted and wanted == "auto" and sys.platform != "darwin":
        return Found(device="cpu", count=1, how="no accelerator in /dev")
    device, count, problem = _ask_torch()
    if wanted not in ("auto", device):
        there = "no accelerator, only the CPU" if device == "cpu" else f"{count} x {device}"
        seen = problem or f"torch finds {there}"
        raise LaunchError(f"device {wanted} was asked for, but {seen}; set device: auto or device: cpu in the site")
    if device == "cpu":
        return Found(device="cpu", count=1, how=problem or "torch finds no accelerator")
    return Found(device=device, count=max(1, count), how="torch.accelerator")


def _ask_torch() -> tuple[str, int, str]:
    """Device, how many, and what went wrong if torch could not say."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", ASK_TORCH], capture_output=True, text=True, timeout=ASK_LIMIT_S, check=False
        )
        device, count = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return "cpu", 0, f"torch did not answer within {ASK_LIMIT_S:.0f} s"
    except (OSError, ValueError, IndexError):
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        return "cpu", 0, f"torch could not be asked: {last}"
    return str(device), int(count), ""


def available_cores(cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """CPU cores this process may use: its affinity, and a container's quota rounded down, at least 1."""
    cores = len(os.sched_getaffinity(0))
    try:
        quota, period = (cgroup / "cpu.max").read_text().split()
        return cores if quota == "max" else max(1, min(cores, int(quota) // int(period)))
    except (OSError, ValueError):
        return cores


def remote_site(site: Site) -> Site:
    """A site on other machines with absolute folders. UsageError where it leaves open what only they could tell."""
    if site.processes_per_node == "auto":
        raise UsageError(
            f"site {site.name}: say processes_per_node; how many devices its nodes have cannot be seen from here"
        )
    return site.model_copy(update=_roots(site))


def _roots(site: Site) -> dict[str, Path | None]:
    return {
        "environment_archive": site.environment_archive and site.environment_archive.expanduser().absolute(),
        "local_data_root": site.local_data_root and site.local_data_root.expanduser().absolute(),
        "data_root": site.data_root.expanduser().absolute(),
        "run_root": site.run_root.expanduser().absolute(),
    }


def resolve_site(site: Site, found: Found, cores: int) -> Site:
    """The site with nothing left to `auto`, and absolute folders."""
    auto = site.processes_per_node == "auto"
    left = max(1, found.count - site.evaluators)
    processes = left if auto else site.processes_per_node
    assert isinstance(processes, int)
    if found.device != "cpu" and processes + site.evaluators > found.count:
        evaluators = f" and {site.evaluators} evaluators" if site.evaluators else ""
        raise LaunchError(
            f"the site asks for {processes} processes{evaluators}, but there are {found.count} x {found.device} here"
        )
    return site.model_copy(
        update={
            "device": found.device,
            "processes_per_node": processes,
            "threads_per_process": site.threads_per_process or max(1, cores // (processes + site.evaluators)),
            **_roots(site),
        }
    )
