"""What users read when something is wrong, and the exit codes that go with it."""

import pytest

from dawnrun import errors
from dawnrun.errors import ExitCode, Place, Problem, RecipeError


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.DawnrunError, 1),
        (errors.UsageError, 2),
        (errors.RecipeError, 2),
        (errors.ReportError, 2),
        (errors.DataError, 3),
        (errors.LaunchError, 4),
        (errors.TrainError, 5),
    ],
)
def test_each_error_has_its_exit_code(error, code):
    assert error.exit_code == code


def test_exit_codes_are_those_of_the_documentation():
    assert {code.name: int(code) for code in ExitCode} == {
        "OK": 0,
        "BUG": 1,
        "USAGE": 2,
        "DATA": 3,
        "LAUNCH": 4,
        "TRAIN": 5,
        "BELOW_TARGET": 6,
        "CONTRADICTED": 7,
        "PREEMPTED": 75,
        "INTERRUPTED": 130,
    }


def test_a_problem_starts_with_its_place_and_key():
    place = Place(source="mine.yaml", line=4, column=5)
    problem = Problem(
        message="unknown key", key="phases[0].imagesize", place=place, hints=("did you mean image_size?",)
    )
    assert str(problem) == "mine.yaml:4:5: phases[0].imagesize: unknown key\n    did you mean image_size?"


def test_a_value_set_on_the_command_line_has_no_line():
    assert (
        str(Problem(message="not a number", key="seed", place=Place(source="--set seed=x")))
        == "--set seed=x: seed: not a number"
    )
    assert str(Problem(message="nothing else")) == "nothing else"


def test_a_recipe_error_shows_every_problem_and_their_number():
    problems = [Problem(message="first"), Problem(message="second")]
    assert (
        str(RecipeError(problems, subject="mine.yaml")) == "first\nsecond\n2 problems in mine.yaml; nothing was started"
    )
    assert str(RecipeError(problems[:1])) == "first\n1 problem; nothing was started"
    assert RecipeError(problems).problems == tuple(problems)
