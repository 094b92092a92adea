"""`dawnrun doctor`: would a run on this site start and find what it needs?"""

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from dawnrun.cli.attempt import say
from dawnrun.cli.machine import find_machine
from dawnrun.cli.train import DATA_ROOT, SITE
from dawnrun.errors import ExitCode, LaunchError
from dawnrun.launch.checks import check_output, data_folders, node_needs
from dawnrun.launch.doctor import examine
from dawnrun.launch.preflight import Finding
from dawnrun.recipe.reader import read
from dawnrun.recipe.schedule import Schedule
from dawnrun.recipe.schema import Recipe, Site
from dawnrun.text import plural, size


@click.command()
@click.option("--config", required=True, metavar="RECIPE", help="Recipe file, or the name of a shipped recipe.")
@SITE
@DATA_ROOT
@click.option("--run-root", type=click.Path(path_type=Path), metavar="DIR", help="Where run directories would be made.")
def doctor(config: str, site_name: str | None, data_root: Path | None, run_root: Path | None) -> ExitCode:
    """Examine every node of a site before a run.

    Versions and code, data, shared run root, disk, shared memory, clock, names and addresses. Exit code 4 if a run
    would fail.
    """
    document = read(config, Recipe)
    recipe = document.value
    site = find_machine(read(site_name, Site).value, data_root=data_root, run_root=run_root).site
    most = max(phase.global_batch_size for phase in recipe.phases)
    Schedule.compile(recipe, recipe.input.num_train_images or most, site.world_size, document=document)
    check_output(site.run_root, recipe.checkpoint.keep)
    folder = Path(tempfile.mkdtemp(prefix=".doctor-", dir=site.run_root))
    try:
        answers, findings = examine(site, {**node_needs(site, data_folders(recipe, site)), "measure": True}, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for finding in findings:
        say(f"{'fails' if finding.fatal else 'note '}  {finding}")
    for node, facts in answers.items():
        if not any(finding.node == node and finding.fatal for finding in findings):
            say(f"good   {node}: {describe(facts)}")
    fatal = [finding for finding in findings if finding.fatal]
    if fatal:
        raise LaunchError(f"a run would fail: {plural(len(fatal), 'problem')} on {_nodes(fatal)}; nothing was started")
    return ExitCode.OK


def _nodes(findings: list[Finding]) -> str:
    return ", ".join(dict.fromkeys(finding.node for finding in findings))


def describe(facts: Mapping[str, Any]) -> str:
    """One node in a line."""
    networks = [
        f"{name} {addresses[0]}" for name, addresses in facts["interfaces"].items() if addresses and name != "lo"
    ]
    parts = [
        f"dawnrun {facts['dawnrun']} ({facts['code']}), torch {facts['torch']}, Python {facts['python']}",
        plural(facts["cores"], "core"),
        plural(facts["devices"], "device file"),
        f"{size(facts['free_bytes'] or 0)} free, shared memory {size(facts['shm_bytes'] or 0)}",
        f"clock {facts['offset_s']:+.1f} s",
        ", ".join(networks) or "no network",
    ]
    return "; ".join(parts)
