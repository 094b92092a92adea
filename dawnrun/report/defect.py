"""One thing wrong with someone's entry: a code, the place, and a sentence."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

MAX_PLACES = 5
"""A defect at more scattered places than this is reported once, with the lines in its message."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Defect:
    """A departure from the competition's form; `line` counts from 1 in `file`."""

    code: str
    file: str
    line: int
    message: str

    def __str__(self) -> str:
        """`file:line: code: message`."""
        return f"{self.file}:{self.line}: {self.code}: {self.message}"


def at_lines(code: str, file: str, lines: Sequence[int], message: str) -> list[Defect]:
    """One defect for every run of neighbouring lines, or a single one where they are many."""
    runs: list[list[int]] = []
    for line in sorted(set(lines)):
        if runs and line == runs[-1][-1] + 1:
            runs[-1].append(line)
        else:
            runs.append([line])
    if len(runs) > MAX_PLACES:
        listed = ", ".join(_span(run) for run in runs)
        return [Defect(code=code, file=file, line=runs[0][0], message=f"{message} (lines {listed})")]
    return [
        Defect(
            code=code,
            file=file,
            line=run[0],
            message=message if len(run) == 1 else f"{message} (lines {_span(run)})",
        )
        for run in runs
    ]


def _span(run: Sequence[int]) -> str:
    """`7` or `7 to 9`."""
    return str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}"


def code_part(text: object) -> str:
    """Text of an entry made fit to be part of a code: no spaces or separators, 40 characters at most."""
    return re.sub(r"[^\w.+-]+", "_", str(text))[:40]
