"""`--profile FIRST:LAST`: which steps of a run are traced."""

import re

import click

from dawnrun.errors import UsageError

Steps = tuple[int, int]


def _steps(ctx: click.Context, param: click.Parameter, value: str | None) -> Steps | None:
    """`10:20` to (10, 20): numbers of steps, from 1, the last one included."""
    if value is None:
        return None
    found = re.fullmatch(r"([1-9]\d*):([1-9]\d*)", value)
    if found is None or int(found[1]) > int(found[2]):
        raise click.BadParameter(f"{value!r} is not two numbers of steps from 1 on, like 10:20", ctx, param)
    return int(found[1]), int(found[2])


PROFILE = click.option(
    "--profile",
    callback=_steps,
    metavar="FIRST:LAST",
    help="Write a trace of these steps of rank 0; they are slower for it, and the report says so.",
)


def check_profile(profile: Steps | None, total_steps: int | None) -> None:
    """UsageError if the run ends before its first traced step; `total_steps`: None where that is not known here."""
    if profile is not None and total_steps is not None and profile[0] > total_steps:
        raise UsageError(f"--profile {profile[0]}:{profile[1]}: the run has {total_steps:,} steps")
