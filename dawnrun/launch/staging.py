"""Stages data on all nodes of a site, through its own launcher; `dawnrun.launch.stage` is one node's part."""

import json
import secrets
import subprocess
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dawnrun.errors import LaunchError, UsageError
from dawnrun.launch.node import MARK
from dawnrun.launch.preflight import table
from dawnrun.launch.slurm import ask_command
from dawnrun.launch.ssh import SshLauncher
from dawnrun.launch.stage import StageOrder, stage
from dawnrun.recipe.schema import Site

Answer = Mapping[str, Any]


def stage_site(
    site: Site,
    sets: Mapping[str, tuple[Path, Path]],
    folder: Path,
    *,
    check: bool,
    advance: Callable[[int, int, int], None],
) -> list[Answer]:
    """Copy the data sets to every node; what each node says of it, in the order of the nodes.

    `sets`: data set -> folder on the shared disk, folder of the copy; `folder`: a new one below the run root;
    `advance` gets a node's number, the bytes that it has and those that it is to get. Raises LaunchError with what
    went wrong on which node, causes before consequences.
    """
    if site.launcher.kubernetes is not None:
        raise UsageError("data are staged on local, ssh and Slurm sites; in a pod use a local site")
    order = StageOrder(
        folder=str(folder),
        nodes=site.machines,
        token=secrets.token_hex(32),
        sources={name: str(source) for name, (source, _) in sets.items()},
        places={name: str(place) for name, (_, place) in sets.items()},
        interface=site.interface,
        check=check,
    )
    done: dict[int, Answer] = {}
    errors: dict[int, Answer] = {}
    with closing(_answers(site, order, folder)) as answers:
        for answer in answers:
            rank = int(answer["rank"])
            if "staging" in answer:
                advance(rank, *answer["staging"])
            elif "staged" in answer:
                done[rank] = answer["staged"]
            elif rank not in done and rank not in errors:
                errors[rank] = answer
    errors |= {
        rank: {"left": "it said nothing"} for rank in range(site.machines) if rank not in done and rank not in errors
    }
    if errors:
        raise LaunchError("\n".join([*_told(errors), "what was copied is kept; the same command goes on"]))
    return [done[rank] for rank in sorted(done)]


def _told(errors: Mapping[int, Answer]) -> list[str]:
    """One line a node, the causes alone unless there are only consequences."""
    causes = {rank: answer for rank, answer in errors.items() if not answer.get("in_consequence")}
    return [
        f"node {rank} ({answer.get('host', 'host not known')}): {answer.get('error') or answer.get('left')}"
        for rank, answer in sorted((causes or errors).items())
    ]


def _answers(site: Site, order: StageOrder, folder: Path) -> Generator[Answer]:
    if site.launcher.ssh is not None:
        launcher = SshLauncher(site)
        try:
            _, findings, _ = launcher.examine(folder, folder)
            fatal = [finding for finding in findings if finding.fatal]
            if fatal:
                raise LaunchError(f"{table(fatal)}\nnothing was copied")
            yield from launcher.ask_long("stage", asdict(order))
        finally:
            launcher.close()
    elif site.launcher.slurm is not None:
        yield from _through_srun(site, order, folder)
    else:
        told: list[Answer] = []
        yield {"staged": stage(order, 0, told.append), "rank": 0}


def _through_srun(site: Site, order: StageOrder, folder: Path) -> Generator[Answer]:
    assert site.launcher.slurm is not None
    question = folder / "question.json"
    question.write_text(json.dumps({"stage": asdict(order)}), encoding="utf-8")
    command, errors = ask_command(site, site.launcher.slurm, question), folder / "srun.log"
    try:
        with errors.open("wb") as file:
            srun = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=file, text=True)
    except OSError as error:
        raise LaunchError(f"srun: {(error.strerror or str(error)).lower()}; is this a Slurm cluster?") from error
    said = False
    try:
        assert srun.stdout is not None
        for line in srun.stdout:
            if MARK in line:
                said = True
                yield json.loads(line.partition(MARK)[2])
    finally:
        srun.terminate()
        srun.wait()
    if not said:
        raise LaunchError(f"srun: {errors.read_text(errors='replace').strip()}")
