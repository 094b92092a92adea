"""`dawnrun train` and `dawnrun resume`: read what was asked, check it, start it, follow it."""

import json
import shlex
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from dawnrun import __version__
from dawnrun.cli.attempt import job_of, result_text, run_attempt, say
from dawnrun.cli.machine import check, find_machine, print_choices
from dawnrun.cli.pods import train_on_kubernetes
from dawnrun.cli.profile import PROFILE, Steps, check_profile
from dawnrun.cli.variants import RESCALE, SHRINK, changed
from dawnrun.cli.watch import POLL_S
from dawnrun.errors import ExitCode, LaunchError, NonFiniteLossError, TrainError, UsageError
from dawnrun.launch.checks import data_folders
from dawnrun.launch.choose import open_launcher
from dawnrun.launch.outcome import is_running, newest_checkpoint, read_node
from dawnrun.launch.queue import held_by
from dawnrun.recipe.dump import differences, resolved_text
from dawnrun.recipe.reader import PLACES, Document, read
from dawnrun.recipe.schedule import Schedule
from dawnrun.recipe.schema import Recipe, Site
from dawnrun.record.rundir import RunDir
from dawnrun.record.summary import summarize
from dawnrun.text import escaped

T = TypeVar("T", Recipe, Site)
END_LIMIT_S = 8.0
"""So long a resume waits for the end of an attempt whose command was just killed."""

SET = click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a value of the recipe; may be repeated."
)
SITE = click.option("--site", "site_name", metavar="SITE", help="Site file or name; left out: this machine.")
RUN_SITE = click.option(
    "--site", "site_name", metavar="SITE", help="Site file or name; left out: the site that the run used last."
)
DATA_ROOT = click.option(
    "--data-root",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of the data sets, instead of the site's.",
)
NO_WARM_UP = click.option(
    "--no-warm-up", is_flag=True, help="Leave out the warm-up: what it saves the first steps falls on them."
)
DETACH = click.option("--detach", is_flag=True, help="Submit the job and leave it to the scheduler (Slurm).")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Print every file and command; start nothing.")


@click.command()
@click.option("--config", required=True, metavar="RECIPE", help="Recipe file, or the name of a shipped recipe.")
@SITE
@SET
@click.option("--run-root", type=click.Path(path_type=Path), metavar="DIR", help="Where the run directory is made.")
@DATA_ROOT
@SHRINK
@RESCALE
@NO_WARM_UP
@PROFILE
@DETACH
@DRY_RUN
def train(
    config: str,
    site_name: str | None,
    overrides: tuple[str, ...],
    run_root: Path | None,
    data_root: Path | None,
    shrink: str | None,
    rescale: bool,
    no_warm_up: bool,
    profile: Steps | None,
    detach: bool,
    dry_run: bool,
) -> ExitCode:
    """Train a recipe on a site, from the start.

    Makes a new run directory and follows the run to its end. Exit code 0: target reached, or none asked;
    6: finished below it; 5: failed; 75 or 130: stopped, go on with `dawnrun resume`.
    """
    say(f"dawnrun {__version__}")
    document = read(config, Recipe, (*overrides, *["compute.warm_up=false"] * no_warm_up))
    machine = find_machine(read(site_name, Site).value, data_root=data_root, run_root=run_root)
    document = changed(document, machine.site.world_size, shrink=shrink, rescale=rescale)
    if detach and machine.site.launcher.slurm is None and machine.site.launcher.kubernetes is None:
        raise UsageError("--detach: runs of the local and ssh launchers end with their command; use nohup or tmux")
    schedule = check(document, machine.site)
    check_profile(profile, schedule.total_steps if schedule else None)
    print_choices(document.value, machine, document.source)
    if machine.site.launcher.kubernetes is not None:
        if profile is not None:
            raise UsageError("--profile is not offered on Kubernetes yet")
        return train_on_kubernetes(document, machine.site, dry_run=dry_run)
    if dry_run:
        _print_dry_run(document.value, machine.site)
        return ExitCode.OK
    run = RunDir.create(
        machine.site.run_root,
        name=document.value.name,
        recipe_text=document.text,
        resolved_text=resolved_text(document.value),
        site_text=resolved_text(machine.site),
    )
    say(f"run         {escaped(run.path)}")
    try:
        return _start(run, document, machine.site, profile=profile, detach=detach)
    except (LaunchError, UsageError):
        _discard(run)
        raise


def _discard(run: RunDir) -> None:
    """Take away a new run directory in which nothing was started."""
    folder = run.attempt_dir(1)
    if list(run.attempts()) == [1] and not any([*folder.glob("node-*.json"), *folder.glob("*.started")]):
        shutil.rmtree(run.path, ignore_errors=True)


def _start(
    run: RunDir,
    document: Document[Recipe],
    site: Site,
    changes: dict[str, tuple[Any, Any]] | None = None,
    *,
    profile: Steps | None = None,
    detach: bool = False,
) -> ExitCode:
    """A new attempt; after a failure further ones, as many as the site allows."""
    for left in range(site.max_restarts, 0, -1):
        try:
            return _attempt(run, document, site, changes, profile=profile, detach=detach)
        except NonFiniteLossError:
            raise  # it would come again
        except TrainError as error:
            say(str(error))
            say(f"starting again; restarts left after this one: {left - 1}")
    return _attempt(run, document, site, changes, profile=profile, detach=detach)


def _attempt(
    run: RunDir,
    document: Document[Recipe],
    site: Site,
    changes: dict[str, tuple[Any, Any]] | None,
    *,
    profile: Steps | None,
    detach: bool,
) -> ExitCode:
    """One attempt, with the recipe and site it uses in its folder."""
    attempt, recipe = run.new_attempt(), document.value
    folder = run.attempt_dir(attempt)
    (folder / PLACES).write_text(document.places_text(), encoding="utf-8")
    (folder / "resolved.yaml").write_text(resolved_text(recipe), encoding="utf-8")
    (folder / "site.yaml").write_text(resolved_text(site), encoding="utf-8")
    if changes:
        (folder / "changes.json").write_text(json.dumps(changes) + "\n", encoding="utf-8")
    if profile:
        asked = dict(zip(("first_step", "last_step"), profile, strict=True))
        (folder / "profile.json").write_text(json.dumps(asked) + "\n", encoding="utf-8")
    return run_attempt(run, attempt, recipe, job_of(run, attempt, recipe, site), detach=detach)


def _print_dry_run(recipe: Recipe, site: Site) -> None:
    """The files and the command of a first attempt; the run's own name is made when it starts."""
    run = RunDir(site.run_root / f"{recipe.name}-DATE-TIME-ID")
    for path, text in ((run.resolved_yaml, resolved_text(recipe)), (run.site_yaml, resolved_text(site))):
        say(f"# file {path}:\n{text}# end of {path}")
    _print_plan(recipe, run, 1, site)


def _print_plan(recipe: Recipe, run: RunDir, attempt: int, site: Site) -> None:
    launcher = open_launcher(site, data=data_folders(recipe, site), tell=say)
    say(str(launcher.plan(job_of(run, attempt, recipe, site))).rstrip("\n"))
    say("# nothing was started (--dry-run)")


@click.command()
@click.argument("run_path", metavar="RUN", type=click.Path(path_type=Path))
@RUN_SITE
@SET
@click.option("--accept-changes", is_flag=True, help="Go on although --set changes the recipe; both values are kept.")
@DATA_ROOT
@DRY_RUN
def resume(
    run_path: Path,
    site_name: str | None,
    overrides: tuple[str, ...],
    accept_changes: bool,
    data_root: Path | None,
    dry_run: bool,
) -> ExitCode:
    """Go on with a run from its newest checkpoint.

    Uses the recipe as it was resolved at the start. --site goes on elsewhere or with another number of processes.
    """
    run = RunDir.open(run_path.absolute())
    newest = max(run.attempts(), default=0)
    if newest:
        _wait_for_end(run, newest)
    summary = summarize(run)
    if summary.status == "finished":
        say(f"{run.path} is finished, nothing to resume: {result_text(summary)}")
        return ExitCode.OK
    before = newest_document(run, "resolved.yaml", Recipe)
    document = newest_document(run, "resolved.yaml", Recipe, overrides)
    changes = differences(before.value, document.value)
    if changes and not accept_changes:
        listed = "\n".join(f"    {key}: {old} -> {new}" for key, (old, new) in changes.items())
        raise UsageError(
            f"this would change the run:\n{listed}\nadd --accept-changes to go on with them; both are recorded"
        )
    machine = find_machine(site_of(run, site_name), data_root=data_root, run_root=run.path.parent)
    if machine.site.launcher.kubernetes is not None:
        raise UsageError("resume on Kubernetes is not offered yet; resume in a pod with --site of its own")
    checkpoint = newest_checkpoint(run.checkpoints)
    _check_reach(check(document, machine.site), checkpoint)
    print_choices(document.value, machine, document.source)
    if dry_run:
        _print_plan(document.value, run, newest + 1, machine.site)
        return ExitCode.OK
    say(f"run         {escaped(run.path)}, attempt {newest + 1}, from {escaped(checkpoint or 'the start')}")
    return _start(run, document, machine.site, changes)


def _check_reach(schedule: Schedule | None, checkpoint: Path | None) -> None:
    """A recipe that ends before the checkpoint is refused before it is recorded; the worker looks again."""
    if schedule is None or checkpoint is None:
        return
    done = int(checkpoint.name.removeprefix("step-"))
    if done > schedule.total_steps:
        raise UsageError(
            f"{escaped(checkpoint)}: {done:,} steps are done and the recipe now has {schedule.total_steps:,};"
            " give it at least as many epochs as are done, or start a new run"
        )


def _wait_for_end(run: RunDir, newest: int) -> None:
    """Return once the newest attempt is over. UsageError if it goes on: whose command was killed ends by itself."""
    folder, log = run.attempt_dir(newest), run.events_dir(newest) / "trainer.jsonl"
    number = held_by(folder)
    if number:
        raise UsageError(
            f"{run.path}: job {number} of Slurm still holds it; stop it with: dawnrun jobs stop {run.path}"
        )
    deadline, told = time.monotonic() + END_LIMIT_S, False
    while is_running(folder, log):
        node = read_node(folder)
        who = f"attempt {newest} is still running: its guard is process {node.get('pid')} on {node.get('host')}"
        if time.monotonic() > deadline:
            raise UsageError(f"{run.path}: {who}; stop it with: dawnrun jobs stop {shlex.quote(str(run.path))}")
        if not told:
            say(f"{who}; waiting up to {END_LIMIT_S:g} s for its end")
        told = True
        time.sleep(POLL_S)


def site_of(run: RunDir, name: str | None) -> Site:
    """The site that was named, else the run's own; a site that says nothing of data gets the run's data root."""
    recorded = newest_document(run, "site.yaml", Site).value
    return recorded if name is None else with_data_root(read(name, Site), recorded.data_root)


def with_data_root(site: Document[Site], data_root: Path) -> Site:
    """The site, with this data root unless its file states one."""
    return site.value if "data_root" in site.places else site.value.model_copy(update={"data_root": data_root})


def newest_document(run: RunDir, name: str, kind: type[T], overrides: Sequence[str] = ()) -> Document[T]:
    """The recipe or site that the newest attempt used, else the run's own."""
    folders = [run.attempt_dir(attempt) for attempt in reversed(run.attempts())]
    path = next((folder / name for folder in folders if (folder / name).is_file()), run.path / name)
    return read(path, kind, overrides)
