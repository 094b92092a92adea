"""`--profile FIRST:LAST` as it is typed."""

import click
import pytest
from click.testing import CliRunner

from dawnrun.cli.profile import PROFILE, check_profile
from dawnrun.errors import UsageError


@click.command()
@PROFILE
def command(profile: tuple[int, int] | None) -> None:
    click.echo(repr(profile))


@pytest.mark.parametrize(("text", "steps"), [("1:1", "(1, 1)"), ("10:200", "(10, 200)")])
def test_two_numbers_from_one_on(text: str, steps: str) -> None:
    assert CliRunner().invoke(command, ["--profile", text]).output.strip() == steps
    assert CliRunner().invoke(command, []).output.strip() == "None"


@pytest.mark.parametrize("text", ["", "5", "0:3", "4:3", "a:b", "1:2:3", "-1:4", "1 : 4"])
def test_anything_else_is_a_usage_error_with_an_example(text: str) -> None:
    done = CliRunner().invoke(command, ["--profile", text])
    assert done.exit_code == 2 and "like 10:20" in done.output


def test_steps_that_the_run_does_not_have_are_refused() -> None:
    check_profile((3, 90), 3)
    check_profile((3, 90), None)
    check_profile(None, 3)
    with pytest.raises(UsageError, match="--profile 4:5: the run has 3 steps"):
        check_profile((4, 5), 3)
