"""Examines every node of a site through its own launcher, before anything is started."""

import json
import secrets
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dawnrun.errors import LaunchError, UsageError
from dawnrun.launch.facts import node_facts, versions
from dawnrun.launch.node import MARK
from dawnrun.launch.preflight import Finding, judge
from dawnrun.launch.slurm import ask_command
from dawnrun.launch.ssh import SshLauncher
from dawnrun.recipe.schema import Site

QUEUE_S = 600.0
"""Time for Slurm to give the nodes and for them to answer."""

Answers = dict[str, dict[str, Any]]


def examine(site: Site, needs: Mapping[str, Any], folder: Path) -> tuple[Answers, list[Finding]]:
    """What each node says and what there is to say about it. `needs`: what the nodes must have (checks.node_needs).

    `folder`: a new one below the run root, for small files.

    Raises LaunchError if the launcher's own program cannot be started or refuses.
    """
    if site.launcher.ssh is not None:
        launcher = SshLauncher(site, needs=needs)
        try:
            answers, findings, _ = launcher.examine(folder, folder)
        finally:
            launcher.close()
        return answers, findings
    if site.launcher.kubernetes is not None:
        raise UsageError("doctor examines local, ssh and Slurm sites; for Kubernetes run it in a pod with a local site")
    nonce = secrets.token_hex(16)
    (folder / "nonce").write_text(nonce, encoding="utf-8")
    question = {"nonce": str(folder / "nonce"), "run_root": str(folder), **needs}
    began = time.time()
    answers = (
        {"this machine": node_facts(question, first=True)}
        if site.launcher.local
        else _ask_slurm(site, question, folder)
    )
    for facts in answers.values():
        facts["offset_s"] = facts["time"] - min(max(facts["time"], began), time.time())
    return answers, judge(answers, site, here=versions(), nonce=nonce)


def _ask_slurm(site: Site, question: Mapping[str, Any], folder: Path) -> Answers:
    """One task a node prints what `node_facts` finds."""
    slurm = site.launcher.slurm
    assert slurm is not None
    (folder / "question.json").write_text(json.dumps({"facts": question}), encoding="utf-8")
    command = ask_command(site, slurm, folder / "question.json")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=QUEUE_S, check=False)
    except OSError as error:
        raise LaunchError(f"srun: {(error.strerror or str(error)).lower()}; is this a Slurm cluster?") from error
    except subprocess.TimeoutExpired as error:
        raise LaunchError(f"Slurm gave no nodes, or they did not answer, within {QUEUE_S:g} s") from error
    lines = [line.partition(MARK)[2] for line in done.stdout.splitlines() if MARK in line]
    answers = {str(facts["host"]): facts for facts in (json.loads(line)["facts"] for line in lines)}
    if len(lines) < site.machines:
        raise LaunchError(f"{len(lines)} of {site.machines} nodes answered: {done.stderr.strip()}")
    return dict(sorted(answers.items()))
