"""Tries a run's parts out on all nodes of a site: starts `dawnrun.train --probe` as a job, and judges what it found."""

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dawnrun.errors import LaunchError
from dawnrun.launch.base import Job, JobStatus, Launcher
from dawnrun.launch.choose import open_launcher
from dawnrun.launch.outcome import find_failures
from dawnrun.launch.preflight import Finding
from dawnrun.recipe.schema import Site
from dawnrun.record.rundir import RunDir
from dawnrun.text import size

LIMIT_S = 900.0
"""Time for a scheduler to give the nodes, and for the trial itself."""
POLL_S = 0.2
NEARLY_FULL = 0.95
"""A share of the memory above which the first fragmentation ends a run."""
GRADIENT_BYTES = 102_228_128
"""ResNet-50's 25,557,032 weights in fp32: what is summed over the processes in a step."""

Found = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """One line of what a trial measured on a node."""

    node: str
    what: str


def try_out(
    site: Site, texts: Mapping[str, str], folder: Path, data: Mapping[str, Path], tell: Callable[[str], None]
) -> list[Found]:
    """What each process found, in the order of the ranks. `texts`: resolved.yaml and site.yaml; `folder`: a new one.

    Raises LaunchError with the failures, the cause first, if a process failed or the job did not come to its end.
    """
    run = RunDir(folder)
    job = Job(
        folder=run.attempt_dir(1),
        logs=run.logs / "1",
        site=site,
        command=("-m", "dawnrun.train", str(run.path), "--probe", "--attempt", "1"),  # the number last: see batch.begin
    )
    for path in (job.folder, job.logs, run.events_dir(1), run.checkpoints):
        path.mkdir(parents=True)
    for name, text in texts.items():
        (run.path / name).write_text(text, encoding="utf-8")
    launcher = open_launcher(site, data=data, tell=tell)
    ended = _wait(launcher, job)
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(job.folder.glob("probe-rank-*.json"))]
    if len(found) == site.world_size:
        return found
    failures = find_failures(job.folder, job.logs)
    if failures:
        raise LaunchError("\n".join(map(str, failures)))
    kept = folder.with_name("doctor-logs")
    shutil.copytree(job.logs, kept, dirs_exist_ok=True)
    raise LaunchError(
        f"the trial {ended}, {len(found)} of {site.world_size} processes answered; their logs are in {kept}"
    )


def _wait(launcher: Launcher, job: Job) -> str:
    """Start the job and wait for its end; how it ended, in words."""
    deadline = time.monotonic() + LIMIT_S
    try:
        launcher.submit(launcher.plan(job))
        while launcher.status() in (JobStatus.QUEUED, JobStatus.RUNNING):
            if time.monotonic() > deadline:
                launcher.cancel("now")
                return f"took longer than {LIMIT_S:g} s"
            time.sleep(POLL_S)
        return f"ended as {launcher.status()}"
    finally:
        launcher.close()


def judge_trial(found: Sequence[Found], site: Site, names: Mapping[str, str]) -> tuple[list[Finding], list[Measured]]:
    """What could go wrong, and what was measured, a line each. `names`: a host's own name -> what the user calls it."""
    findings: list[Finding] = []
    measured: list[Measured] = []
    by_node: dict[str, list[Found]] = {}
    for one in found:
        by_node.setdefault(names.get(str(one["host"]), str(one["host"])), []).append(one)
    for node, ones in by_node.items():
        for shapes in zip(*(one["shapes"] for one in ones), strict=True):
            _judge_shape(node, shapes, on_cpu=site.device == "cpu", findings=findings, measured=measured)
        _judge_exchange(node, ones, findings, measured)
    return findings, measured


def _judge_shape(
    node: str, shapes: Sequence[Found], *, on_cpu: bool, findings: list[Finding], measured: list[Measured]
) -> None:
    """Memory and input speed of one batch shape, over the processes of a node."""
    batch = f"{shapes[0]['batch_size']} images of {shapes[0]['image_size']} px"
    used, total = max(shape["used_bytes"] for shape in shapes), shapes[0]["total_bytes"]
    if on_cpu:  # one memory for all processes
        used = sum(shape["used_bytes"] for shape in shapes)
    measured.append(Measured(node=node, what=f"memory with {batch}: {size(used)} of {size(total)}"))
    if used > NEARLY_FULL * total:
        what = f"{batch} take {size(used)} of {size(total)}"
        findings.append(Finding(node=node, what=what, todo="set a smaller per_device_batch_size", fatal=on_cpu))
    needed = sum(shape["batch_size"] / shape["step_s"] for shape in shapes)
    gives = sum(shape["input_images_per_s"] for shape in shapes)
    speeds = f"input alone gives {gives:.4g} images/s, steps of {shapes[0]['image_size']} px take {needed:.4g}"
    measured.append(Measured(node=node, what=speeds))
    if gives < needed:
        todo = "more cores, smaller copies of the images (dawnrun data resize), or input.decoder: dali"
        findings.append(Finding(node=node, what=speeds, todo=todo, fatal=False))


def _judge_exchange(node: str, ones: Sequence[Found], findings: list[Finding], measured: list[Measured]) -> None:
    words = {"all": "between all", "node": "within the node, between"}
    for kind in ("all", "node"):
        of_kind = [one["exchange"][kind] for one in ones if kind in one["exchange"]]
        if not of_kind:
            continue
        latency_s = max(one["latency_s"] for one in of_kind)
        bytes_per_s = min(one["bytes_per_s"] for one in of_kind)
        processes = of_kind[0]["processes"]
        what = f"all-reduce {words[kind]} {processes} processes: {latency_s * 1e3:.2f} ms, {bytes_per_s / 1e9:.3g} GB/s"
        measured.append(Measured(node=node, what=what))
        step_s = min(shape["step_s"] for one in ones for shape in one["shapes"])
        takes_s = 2 * (processes - 1) / processes * GRADIENT_BYTES / bytes_per_s
        if kind == "all" and takes_s > step_s:
            slow = f"the gradients of a step would take {takes_s:.3g} s to exchange, its computation {step_s:.3g} s"
            todo = "name a faster interface in the site, or larger batches"
            findings.append(Finding(node=node, what=slow, todo=todo, fatal=False))
