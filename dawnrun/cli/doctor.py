"""`dawnrun doctor`: would a run on this site start and find what it needs?"""

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from dawnrun.cli.attempt import say
from dawnrun.cli.machine import find_machine
from dawnrun.cli.train import DATA_ROOT, SET, SITE
from dawnrun.errors import DawnrunError, ExitCode, LaunchError
from dawnrun.launch.checks import check_output, data_folders, node_needs
from dawnrun.launch.doctor import examine
from dawnrun.launch.preflight import Finding
from dawnrun.launch.trial import Measured, judge_trial, try_out
from dawnrun.recipe.dump import resolved_text
from dawnrun.recipe.reader import read
from dawnrun.recipe.schedule import Schedule
from dawnrun.recipe.schema import Recipe, Site
from dawnrun.text import plural, size


@click.command()
@click.option("--config", required=True, metavar="RECIPE", help="Recipe file, or the name of a shipped recipe.")
@SITE
@SET
@DATA_ROOT
@click.option("--run-root", type=click.Path(path_type=Path), metavar="DIR", help="Where run directories would be made.")
@click.option("--quick", is_flag=True, help="Ask the nodes only: no processes are started to measure anything.")
def doctor(
    config: str,
    site_name: str | None,
    overrides: tuple[str, ...],
    data_root: Path | None,
    run_root: Path | None,
    quick: bool,
) -> ExitCode:
    """Examine every node of a site before a run.

    Versions and code, data, shared run root, disk, shared memory, clock, names and addresses; then, in the processes that
    the run would have, memory of every batch shape (on a CPU of the largest), all-reduce and input speed. Exit code 4
    if a run would fail.
    """
    document = read(config, Recipe, overrides)
    recipe = document.value
    site = find_machine(read(site_name, Site).value, data_root=data_root, run_root=run_root).site
    most = max(phase.global_batch_size for phase in recipe.phases)
    Schedule.compile(recipe, recipe.input.num_train_images or most, site.world_size, document=document)
    check_output(site.run_root, recipe.checkpoint.keep)
    folder = Path(tempfile.mkdtemp(prefix=".doctor-", dir=site.run_root))
    try:
        answers, findings = examine(site, {**node_needs(site, data_folders(recipe, site)), "measure": True}, folder)
        measured: list[Measured] = []
        if not quick and not any(finding.fatal for finding in findings):
            more, measured = _try_out(recipe, site, folder / "trial", answers)
            findings += more
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    _print_table(answers, findings, measured)
    fatal = [finding for finding in findings if finding.fatal]
    if fatal:
        raise LaunchError(f"a run would fail: {plural(len(fatal), 'problem')} on {_nodes(fatal)}; nothing was started")
    return ExitCode.OK


def _try_out(
    recipe: Recipe, site: Site, folder: Path, answers: Mapping[str, Mapping[str, Any]]
) -> tuple[list[Finding], list[Measured]]:
    """Findings and figures of a trial; a trial that fails is a finding itself."""
    names = {str(facts["host"]): node for node, facts in answers.items()}
    texts = {"resolved.yaml": resolved_text(recipe), "site.yaml": resolved_text(site)}
    say(f"trying out memory, exchange and input in {plural(site.world_size, 'process', 'processes')}")
    try:
        return judge_trial(try_out(site, texts, folder, data_folders(recipe, site), say), site, names)
    except DawnrunError as error:
        cause, *others = str(error).splitlines()
        todo = "; ".join(f"in consequence: {line}" for line in others[:2])
        host = next((name for name in names if f" on {name}" in cause or f"host {name}" in cause), "")
        return [Finding(node=names.get(host, "a node"), what=f"the trial failed: {cause}", todo=todo)], []


def _print_table(answers: Mapping[str, Mapping[str, Any]], findings: list[Finding], measured: list[Measured]) -> None:
    """A line for everything there is to say of a node: the node with the worst finding first, its worst line first."""
    worst = dict.fromkeys((*answers, *(finding.node for finding in findings)), 2)
    for finding in findings:
        worst[finding.node] = min(worst[finding.node], 0 if finding.fatal else 1)
    for node in sorted(worst, key=lambda node: worst[node]):
        for finding in findings:
            if finding.node == node:
                say(f"{'fails' if finding.fatal else 'note '}  {finding}")
        if worst[node] and node in answers:
            say(f"good   {node}: {describe(answers[node])}")
        for line in measured:
            if line.node == node:
                say(f"good   {node}: {line.what}")


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
