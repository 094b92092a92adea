"""The command group and the border where errors end."""

import importlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from record_factory import make_run

from dawnrun import __version__
from dawnrun.cli import main
from dawnrun.errors import DataError, ExitCode, Place, Problem, RecipeError

HEAVY = ("torch", "torchvision", "numpy", "pydantic", "rich", "matplotlib", "ruamel")


@pytest.fixture
def fail_with(monkeypatch):
    """Make `dawnrun plan` raise the given error, and run it."""

    def run(error: BaseException, *options: str) -> int:
        @click.command()
        def plan():
            raise error

        monkeypatch.setattr(main.LazyGroup, "get_command", lambda self, ctx, name: plan)
        return main.run([*options, "plan"])

    return run


def test_help_lists_every_command_and_imports_none_of_them():
    code = (
        "import sys; from dawnrun.cli.main import run\n"
        "assert run(['--help']) == 0\n"
        f"bad = [m for m in sys.modules if m.split('.')[0] in {HEAVY}]\n"
        "bad += [m for m in sys.modules if m.startswith('dawnrun.cli.') and m != 'dawnrun.cli.main']\n"
        "assert not bad, bad"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    for name, (_, _, text) in main.COMMANDS.items():
        assert name in done.stdout
        assert text in done.stdout


@pytest.mark.parametrize("name", main.COMMANDS)
def test_the_table_names_real_commands_with_the_help_they_give(name):
    module, attribute, text = main.COMMANDS[name]
    if importlib.util.find_spec(module) is None:
        pytest.fail(f"{module} is missing")
    command = getattr(importlib.import_module(module), attribute)
    assert isinstance(command, click.Command)
    assert command.name == name
    assert (command.help or "").strip(), f"{name} has no help of its own beside {text!r}"


def test_version(capsys):
    assert main.run(["--version"]) == 0
    assert capsys.readouterr().out == f"dawnrun {__version__}\n"


def test_an_unknown_command_is_one_line_with_the_nearest_name(capsys):
    """C46."""
    assert main.run(["trian"]) == ExitCode.USAGE
    text = capsys.readouterr().err
    assert text == "dawnrun: no such command: trian; did you mean train? (see dawnrun --help)\n"


def test_an_unknown_option_is_one_line(capsys):
    assert main.run(["--vresion"]) == ExitCode.USAGE
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    assert "--version" in text


def test_no_command_shows_help_and_is_a_usage_error(capsys):
    assert main.run([]) == ExitCode.USAGE
    assert "Commands:" in capsys.readouterr().err


def test_a_foreseen_error_is_its_message_and_its_code(fail_with, capsys):
    assert fail_with(DataError("data/train: no such folder")) == ExitCode.DATA
    assert capsys.readouterr().err == "dawnrun: data/train: no such folder\n"


def test_problems_of_a_recipe_start_with_their_place(fail_with, capsys):
    place = Place(source="r.yaml", line=4, column=5)
    error = RecipeError([Problem(message="unknown key", key="lrr", place=place)], subject="r.yaml")
    assert fail_with(error) == ExitCode.USAGE
    assert capsys.readouterr().err.startswith("r.yaml:4:5: lrr: unknown key\n")


def test_debug_adds_the_traceback(fail_with, capsys):
    assert fail_with(DataError("bad"), "--debug") == ExitCode.DATA
    assert "Traceback" in capsys.readouterr().err


def test_a_bug_writes_its_traceback_to_a_file_and_names_it(fail_with, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert fail_with(ValueError("odd")) == ExitCode.BUG
    text = capsys.readouterr().err
    (file,) = tmp_path.iterdir()
    assert str(file) in text
    assert text.count("\n") == 1
    assert "ValueError: odd" in file.read_text()
    assert "Traceback" in file.read_text()


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (PermissionError(13, "Permission denied", "runs/x"), ExitCode.USAGE, "dawnrun: runs/x: permission denied\n"),
        (OSError(28, "No space left on device", "runs/y"), ExitCode.LAUNCH, "dawnrun: runs/y: no space left on device\n"),
        (OSError(28, "No space left on device"), ExitCode.LAUNCH, "dawnrun: no space left on device\n"),
        (KeyboardInterrupt(), ExitCode.INTERRUPTED, "dawnrun: interrupted\n"),
    ],
)  # fmt: skip
def test_errors_of_the_system_are_one_line(fail_with, capsys, error, code, message):
    assert fail_with(error) == code
    assert capsys.readouterr().err == message


def test_a_command_returns_its_exit_code(monkeypatch):
    @click.command()
    def plan():
        return ExitCode.BELOW_TARGET

    monkeypatch.setattr(main.LazyGroup, "get_command", lambda self, ctx, name: plan)
    assert main.run(["plan"]) == ExitCode.BELOW_TARGET


def test_a_closed_pipe_is_quiet():
    """The reader of a pipe going away is no failure of ours: no traceback, no message."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "dawnrun", "--help"],
        stdout=write, stderr=subprocess.PIPE, text=True, timeout=60, check=False, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    os.close(write)
    assert done.stderr == ""
    assert done.returncode == main.EXIT_BROKEN_PIPE


@pytest.mark.parametrize("command", ["plan", "report"])
def test_commands_that_only_read_leave_torch_alone(command, tmp_path):
    recipe = tmp_path / "toy.yaml"
    phases = "[{epochs: 1, image_size: 64, global_batch_size: 8, per_device_batch_size: 8}]"
    recipe.write_text(f"{{name: toy, lr: 0.1, phases: {phases}, input: {{num_train_images: 64}}}}")
    words = ["plan", "--config", str(recipe)] if command == "plan" else ["report", str(make_run(tmp_path).path)]
    code = (
        "import sys; from dawnrun.cli.main import run\n"
        f"assert run({words!r}) == 0\n"
        "bad = [m for m in sys.modules if m.split('.')[0] in ('torch', 'torchvision', 'matplotlib')]\n"
        "assert not bad, bad"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_every_exit_code_is_documented():
    text = (Path(__file__).parents[3] / "docs" / "errors.md").read_text(encoding="utf-8")
    for code in [*ExitCode, main.EXIT_BROKEN_PIPE]:
        assert f"\n| {int(code)} | " in text


def options(command: click.Command, words: tuple[str, ...] = ()):
    """(words of the command, option) of everything below a command."""
    yield from ((words, option) for option in command.params if isinstance(option, click.Option))
    for name in getattr(command, "commands", {}):
        yield from options(command.commands[name], (*words, name))


@pytest.mark.parametrize("name", main.COMMANDS)
def test_every_option_is_a_variable_named_as_the_option(name, monkeypatch):
    command = main.cli.get_command(click.Context(main.cli), name)
    for words, option in options(command, (name,)):
        if not option.expose_value:
            continue
        longest = max(option.opts, key=len)
        variable = "_".join(("DAWNRUN", *words, longest[2:])).replace("-", "_").upper()
        monkeypatch.setenv(variable, "1")
        _, source = option.consume_value(click.Context(command), {})
        assert source is click.core.ParameterSource.ENVIRONMENT, (variable, option.name)
        monkeypatch.delenv(variable)


def test_a_bad_value_in_a_variable_is_a_usage_error(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("DAWNRUN_REPORT_FORMAT", "xml")
    assert main.run(["report", str(tmp_path)]) == ExitCode.USAGE
    assert "'xml' is not one of" in capsys.readouterr().err


def test_the_command_line_wins_over_a_variable_and_several_values_are_split(monkeypatch, capsys):
    monkeypatch.setenv("DAWNRUN_PLAN_SET", "seed=7 name=from-variable")
    monkeypatch.setenv("DAWNRUN_PLAN_FORMAT", "json")
    words = ["plan", "--config", "fastai-1x8"]
    assert main.run(words) == ExitCode.OK
    assert '"name": "from-variable"' in capsys.readouterr().out
    assert main.run([*words, "--set", "name=given"]) == ExitCode.OK
    assert '"name": "given"' in capsys.readouterr().out


def test_help_says_that_options_can_be_variables(capsys):
    assert main.run(["--help"]) == ExitCode.OK
    assert "DAWNRUN_TRAIN_DATA_ROOT" in capsys.readouterr().out


def test_errors_hold_no_control_characters(fail_with, capsys):
    """C44."""
    assert fail_with(DataError("a\x1b[31mb: no\nsecond line \udcff")) == ExitCode.DATA
    assert capsys.readouterr().err == "dawnrun: a\\x1b[31mb: no\nsecond line \\xff\n"
