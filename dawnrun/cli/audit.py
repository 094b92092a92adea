"""`dawnrun report --audit`: what anyone's DAWNBench entry says, and what is wrong with it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import click

from dawnrun.errors import ExitCode, UsageError
from dawnrun.report.audit import Audit, audit
from dawnrun.report.audit_inference import InferenceAudit, audit_inference, rank
from dawnrun.report.audit_text import aligned, audit_json, audit_remarks, audit_table, inference_table
from dawnrun.report.entry import read_bytes
from dawnrun.report.entry_json import read_json

Format = Literal["table", "json"]


def audit_entries(paths: Sequence[Path], *, strict: bool, form: Format) -> ExitCode:
    """Audit TSV files, each with its JSON, and print the result; folders stand for all entries in them.

    With `strict` any defect makes the exit code CONTRADICTED. Raises UsageError for paths that are no entries.
    """
    pairs = pair(paths)
    training = [audit(tsv, json) for tsv, json in pairs if tsv or (json and not _is_inference(json))]
    inference = rank([audit_inference(json) for tsv, json in pairs if not tsv and json and _is_inference(json)])
    audits: list[Audit | InferenceAudit] = [*training, *inference]
    if form == "json":
        click.echo(audit_json(audits))
    else:
        click.echo(_tables(training, inference))
    return ExitCode.CONTRADICTED if strict and any(found.defects for found in audits) else ExitCode.OK


def pair(paths: Sequence[Path]) -> list[tuple[Path | None, Path | None]]:
    """TSV and JSON of each entry: by name, or a JSON given right after a TSV that has none of its name."""
    given = [file for path in paths for file in _files(path)]
    jsons = [file for file in given if _looks_like_json(file)]
    tables = [file for file in given if file not in jsons]
    of: dict[Path, Path] = {}
    for table in tables:
        named = next((file for file in jsons if file.with_suffix("") == table.with_suffix("")), None)
        after = given[given.index(table) + 1] if table != given[-1] else None
        if named:
            of[table] = named
        elif after in jsons and not any(after.with_suffix("") == other.with_suffix("") for other in tables):
            of[table] = after
    lone = [file for file in jsons if file not in of.values()]
    return [*((table, of.get(table)) for table in tables), *((None, file) for file in lone)]


def _files(path: Path) -> list[Path]:
    """The path itself, or a folder's entries by name. UsageError where there are none."""
    if not path.is_dir():
        if not path.exists():
            raise UsageError(f"{path}: no such file")
        return [path]
    found = sorted(file for file in path.iterdir() if file.suffix in (".tsv", ".json") and file.is_file())
    if not found:
        raise UsageError(f"{path}: no .tsv or .json files here")
    return found


def _looks_like_json(path: Path) -> bool:
    """By content: entries have been published as JSON under other endings."""
    head = read_bytes(path).removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    return head in (b"{", b"[") or (path.suffix == ".json" and not head.isdigit())


def _is_inference(json: Path) -> bool:
    return read_json(read_bytes(json), str(json)).is_inference


def _tables(training: Sequence[Audit], inference: Sequence[InferenceAudit]) -> str:
    """The tables of both kinds, then defects and notes."""
    parts = []
    if training:
        parts.append(aligned(audit_table(training)))
    if inference:
        parts.append(aligned(inference_table(inference)))
    parts.append(audit_remarks([*training, *inference]))
    return "\n\n".join(part for part in parts if part)
