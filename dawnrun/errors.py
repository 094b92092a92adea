"""Every foreseen failure: what the user reads, and the exit code that goes with it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of the command line and of the worker processes (docs/errors.md)."""

    OK = 0
    BUG = 1
    USAGE = 2
    DATA = 3
    LAUNCH = 4
    TRAIN = 5
    BELOW_TARGET = 6
    CONTRADICTED = 7
    PREEMPTED = 75
    INTERRUPTED = 130


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a value was written: a file with line and column from 1, or a `--set` argument (no line)."""

    source: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        """`path:line:column`, or the source alone where there is no line."""
        return self.source if self.line is None else f"{self.source}:{self.line}:{self.column or 1}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One thing wrong with an input; `hints` say what is allowed and what to do."""

    message: str
    key: str = ""
    place: Place | None = None
    hints: tuple[str, ...] = ()

    def __str__(self) -> str:
        """First line `place: key: message`, then one indented line a hint."""
        head = ": ".join(part for part in (str(self.place or ""), self.key, self.message) if part)
        return "\n    ".join((head, *self.hints))


class DawnrunError(Exception):
    """Base of all foreseen errors. `str()` is what the user reads; no traceback is shown."""

    exit_code = ExitCode.BUG


class UsageError(DawnrunError):
    """A command line that cannot be carried out, or a path that is not what the command takes."""

    exit_code = ExitCode.USAGE


class RecipeError(DawnrunError):
    """A recipe or site that cannot be used; carries every problem found, in file order."""

    exit_code = ExitCode.USAGE

    def __init__(self, problems: Sequence[Problem], *, subject: str = "") -> None:
        """`subject`: the file in question, named in the last line."""
        self.problems = tuple(problems)
        self.subject = subject
        count = f"{len(self.problems)} problem{'s' if len(self.problems) != 1 else ''}"
        where = f" in {subject}" if subject else ""
        super().__init__("\n".join([*map(str, self.problems), f"{count}{where}; nothing was started"]))


class DataError(DawnrunError):
    """Data that are missing, unreadable, or not what the recipe says."""

    exit_code = ExitCode.DATA


class LaunchError(DawnrunError):
    """A start that was refused: scheduler, host, permission, missing program."""

    exit_code = ExitCode.LAUNCH


class TrainError(DawnrunError):
    """A run that failed after it started: dead worker, non-finite loss, out of memory."""

    exit_code = ExitCode.TRAIN


class NonFiniteLossError(TrainError):
    """Too many steps in a row without a finite loss: the same recipe from a checkpoint would meet it again."""


class ReportError(DawnrunError):
    """A run directory or entry that cannot be reported: not one, damaged, or contradictory."""

    exit_code = ExitCode.USAGE


class VersionError(ReportError):
    """A record of a newer format than this version reads: nothing can be said of it, good or bad."""
