"""Writes reports to a folder: figures first, the page last, each file under its name only when it is complete."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dawnrun.errors import ReportError
from dawnrun.record.summary import RunSummary
from dawnrun.report.dawnbench import Author, dawnbench_files, reached_dawnbench, refusal
from dawnrun.report.document import report_json


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """What was written, what is to be said about it, and whether an entry that was asked for was refused."""

    paths: tuple[Path, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    refused: bool


def write_reports(
    summaries: Sequence[RunSummary], folder: Path, *, author: Author | None = None, partial: bool = False
) -> Written:
    """Write report.json, DAWNBench's files of each run (into a folder each if there are several), and report.html.

    A chart that cannot be drawn is a warning; ReportError if the folder cannot be written.
    """
    paths = [write_text(folder / "report.json", report_json(summaries))]
    notes: list[str] = []
    refused = False
    for summary, place in zip(summaries, _places(summaries, folder), strict=True):
        if author is None:
            if reached_dawnbench(summary):
                notes.append("DAWNBench's files are written with --author and --email")
        elif reached_dawnbench(summary) or partial:
            files = dawnbench_files(summary, author, partial=partial)
            paths.append(write_text(place / files.json_name, files.json_text))
            paths.append(write_text(place / files.tsv_name, files.tsv_text))
            notes += [f"{files.json_name} lacks {missing}" for missing in files.missing]
        else:
            refused = True
            notes.append(f"{summary.path}: {refusal(summary)}; --partial writes the files all the same")
    page, warnings = _page(summaries)
    paths.append(write_text(folder / "report.html", page))
    return Written(paths=tuple(paths), notes=tuple(dict.fromkeys(notes)), warnings=warnings, refused=refused)


def _places(summaries: Sequence[RunSummary], folder: Path) -> Iterator[Path]:
    """Where each run's entry goes: the names of two entries may be the same, as for two seeds."""
    if len(summaries) == 1:
        yield folder
        return
    for number, summary in enumerate(summaries, start=1):
        yield folder / f"{number}-{Path(summary.path).resolve().name or 'run'}"


def _page(summaries: Sequence[RunSummary]) -> tuple[str, tuple[str, ...]]:
    """The page and its warnings; what it needs is imported here, because a table must not wait for it."""
    from dawnrun.report.html import html_page

    return html_page(summaries)


def write_text(path: Path, content: str) -> Path:
    """Write a file aside and rename it; ReportError says which file could not be written and why."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text(content, encoding="utf-8", errors="replace", newline="\n")
        aside.replace(path)
    except OSError as error:
        with suppress(OSError):
            aside.unlink()
        why = (error.strerror or str(error)).lower()
        raise ReportError(f"{path}: cannot be written: {why}; choose another folder with --output") from error
    return path
