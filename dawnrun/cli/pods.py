"""Training on Kubernetes: the manifest is printed, or applied and left to the cluster."""

import secrets
from datetime import UTC, datetime
from pathlib import Path

from dawnrun.cli.attempt import job_of, say
from dawnrun.errors import ExitCode
from dawnrun.launch.kubernetes import apply, plan_of
from dawnrun.recipe.dump import resolved_text
from dawnrun.recipe.reader import Document
from dawnrun.recipe.schema import Recipe, Site
from dawnrun.record.rundir import RunDir


def train_on_kubernetes(document: Document[Recipe], site: Site, *, dry_run: bool) -> ExitCode:
    """Pod 0 makes the run directory, below the site's run_root in the pods, because that volume is seldom seen from here."""
    moment = "DATE-TIME-ID" if dry_run else f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    run = RunDir(site.run_root / f"{document.value.name}-{moment}")
    files = {
        "recipe.yaml": document.text,
        "resolved.yaml": resolved_text(document.value),
        "site.yaml": resolved_text(site),
    }
    plan = plan_of(job_of(run, 1, document.value, site), files, str(Path.cwd() / f"{run.path.name}.yaml"))
    if dry_run:
        say(str(plan).rstrip("\n"))
        say("# nothing was started (--dry-run)")
        return ExitCode.OK
    say(apply(plan))
    for note in plan.notes:
        say(note)
    return ExitCode.OK
