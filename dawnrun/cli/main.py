"""The command line: one lazy group, and the only place that prints an error and chooses an exit code."""

import errno
import importlib
import os
import sys
import tempfile
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any, NoReturn

import click

from dawnrun import __version__
from dawnrun.errors import DawnrunError, ExitCode, RecipeError
from dawnrun.text import escaped, nearest

COMMANDS: dict[str, tuple[str, str, str]] = {
    "train": ("dawnrun.cli.train", "train", "Train a recipe on a site, from the start."),
    "resume": ("dawnrun.cli.train", "resume", "Go on with a run from its newest checkpoint."),
    "report": ("dawnrun.cli.report", "report", "State the time to the target of one or more runs."),
    "plan": ("dawnrun.cli.plan", "plan", "Show what a recipe amounts to: sizes, batches, steps, rates."),
    "validate": ("dawnrun.cli.validate", "validate", "Measure the accuracy of a run or checkpoint."),
    "verify": (
        "dawnrun.cli.verify",
        "verify",
        "Check what a run claims, as far as it can be done here.",
    ),
    "bundle": ("dawnrun.cli.bundle", "bundle", "Make one archive of what a stranger needs to check a run."),
    "doctor": ("dawnrun.cli.doctor", "doctor", "Examine every node of a site before a run."),
    "jobs": ("dawnrun.cli.jobs", "jobs", "List, follow and stop runs."),
    "recipe": ("dawnrun.cli.recipe", "recipe", "Check or show a recipe."),
    "data": ("dawnrun.cli.data", "data", "Make and check data sets."),
}
"""Command -> module, attribute, one-line help. `--help` reads this table and imports no command."""

EXIT_BROKEN_PIPE = 141
"""What a shell reports for a program that wrote to a closed pipe: 128 + SIGPIPE."""

_PATH_ERRORS = {
    errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.EROFS, errno.EEXIST,
    errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTEMPTY, errno.ESTALE, errno.EIO,
}  # fmt: skip
_ROOM_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.ENOMEM}


@dataclass(slots=True)
class Options:
    """What was asked of the group itself."""

    debug: bool = False


def variable_part(name: str) -> str:
    """`data-root` as it stands in the name of a variable."""
    return name.replace("-", "_").upper()


def name_variables(command: click.Command, prefix: str) -> None:
    """Let every option of a command be given as `DAWNRUN_COMMAND_OPTION`.

    By the option as the user knows it; click would take the name of the function's parameter.
    """
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.expose_value:
            longest = max(parameter.opts, key=len)
            parameter.envvar = f"{prefix}_{variable_part(longest.lstrip('-'))}"
    for name, inner in getattr(command, "commands", {}).items():
        name_variables(inner, f"{prefix}_{variable_part(name)}")


class LazyGroup(click.Group):
    """Commands of the table, each imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the command, or None if there is no such name."""
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        name_variables(command, f"DAWNRUN_{variable_part(cmd_name)}")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, but an unknown command is told the nearest one."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            guess = nearest(args[0], COMMANDS)
            hint = f"did you mean {guess}?" if guess else f"there are {', '.join(COMMANDS)}"
            raise click.UsageError(f"no such command: {args[0]}; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the table."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in COMMANDS.items()])


VARIABLES = """\
Every option can be a variable: DAWNRUN_TRAIN_DATA_ROOT=DIR is --data-root of train. What stands on the command line
wins. Several values of an option are separated by blanks: DAWNRUN_TRAIN_SET="seed=1 lr=0.2"."""


@click.command(cls=LazyGroup, epilog=VARIABLES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dawnrun", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, envvar="DAWNRUN_DEBUG", help="Show the traceback of every error.")
@click.pass_obj
def cli(options: Options, debug: bool) -> None:
    """Train ResNet-50 to a target accuracy as fast as the machines allow, and report how long it took."""
    options.debug = debug


def _say(text: str) -> None:
    """One message on standard error; a closed one is no reason to fail again."""
    with suppress(OSError, ValueError):
        print(escaped(text, keep="\n\t"), file=sys.stderr, flush=True)


def _traceback_file(error: BaseException) -> str:
    """Write the traceback of an unforeseen error to a file of its own and return where."""
    with (
        suppress(OSError),
        tempfile.NamedTemporaryFile(
            "w", prefix="dawnrun-traceback-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file,
    ):
        file.write(f"dawnrun {__version__}, Python {sys.version}\n{sys.argv}\n\n")
        traceback.print_exception(error, file=file)
        return file.name
    return ""


def _usage_text(error: click.ClickException) -> str:
    """One line: the command, what is wrong, where to read on."""
    context = getattr(error, "ctx", None)
    where = context.command_path if context else "dawnrun"
    message = " ".join(error.format_message().split()).rstrip(".")
    return f"{where}: {message[:1].lower()}{message[1:]} (see {where} --help)"


def _silence(stream: IO[str]) -> None:
    """Point a stream whose reader is gone at nothing, so that the interpreter's last flush is quiet."""
    with suppress(OSError, ValueError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, stream.fileno())
        os.close(nothing)


def _explain(error: BaseException, options: Options) -> int:
    """Tell the user about an error and return the exit code."""
    if isinstance(error, BrokenPipeError):
        _silence(sys.stdout)
        return EXIT_BROKEN_PIPE
    if options.debug:
        with suppress(OSError, ValueError):
            traceback.print_exception(error, file=sys.stderr)
    if isinstance(error, KeyboardInterrupt | click.Abort):
        _say("dawnrun: interrupted")
        return ExitCode.INTERRUPTED
    if isinstance(error, DawnrunError):
        # A recipe's problems start with path:line:column, for editors; they stay as they are.
        _say(str(error) if isinstance(error, RecipeError) else f"dawnrun: {error}")
        return error.exit_code
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        _say(error.format_message())
        return ExitCode.USAGE
    if isinstance(error, click.ClickException):
        _say(_usage_text(error))
        return ExitCode.USAGE
    if isinstance(error, OSError) and error.errno in _PATH_ERRORS | _ROOM_ERRORS:
        what = (error.strerror or str(error)).lower()
        _say(f"dawnrun: {error.filename}: {what}" if error.filename else f"dawnrun: {what}")
        return ExitCode.USAGE if error.errno in _PATH_ERRORS else ExitCode.LAUNCH
    path = _traceback_file(error)
    where = f"; the traceback is in {path}, please send it with a report" if path else ""
    _say(f"dawnrun: a bug in dawnrun: {type(error).__name__}: {error}{where}")
    return ExitCode.BUG


def run(arguments: Sequence[str] | None = None) -> int:
    """Carry out a command line (default: this process's) and return its exit code. Nothing is raised but SystemExit.

    A command returns its exit code, or None for 0.
    """
    options = Options()
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        # Not cli.main(): it ends a broken pipe and an interrupt in its own way.
        with cli.make_context("dawnrun", words, obj=options) as context:
            result: Any = cli.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as error:
        return _flushed(error.exit_code, options)
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001 - the one border where everything ends
        return _explain(error, options)
    return result if isinstance(result, int) else ExitCode.OK


def _flushed(code: int, options: Options) -> int:
    """The code of a command that ended early, such as `--help`, unless its output could not be written."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return _explain(error, options)
    return code


def main() -> NoReturn:
    """Entry point of `dawnrun` and `python -m dawnrun`."""
    sys.exit(run())
