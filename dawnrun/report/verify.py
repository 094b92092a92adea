"""Checks a run's claim from its event log alone, and against what else is there: files, recipe, code, data.

Nothing here starts a process: initial weights and the checkpoint of the crossing are checked by `judge_*` from what a
worker found (dawnrun/cli/verify.py).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

import dawnrun
from dawnrun import text
from dawnrun.clock import RULES
from dawnrun.dataset.index import build_index
from dawnrun.errors import DataError, RecipeError, ReportError
from dawnrun.recipe.dump import values_sha256
from dawnrun.recipe.reader import read
from dawnrun.recipe.schema import Recipe
from dawnrun.record.machine import git_commit, package_versions
from dawnrun.record.rundir import RunDir
from dawnrun.record.seal import check_seal
from dawnrun.record.summary import EpochRow, RunSummary
from dawnrun.report import words

Verdict = Literal["confirmed", "not checked", "contradicts"]
SAME_S = 1e-3
"""Two times that differ by less are the same: reports print floats, the log rounds to microseconds."""
SEAL_LIMITS = "a seal shows accidents and naive edits, not forgery: whoever edits the log can seal it anew"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """What became of one check."""

    name: str
    verdict: Verdict
    text: str


def check_claim(summary: RunSummary) -> Finding:
    """The claim, recomputed from the event log; a log that contradicts itself never gets here."""
    crossing = summary.crossing()
    said = words.outcome(summary)
    if crossing is not None:
        said += "; " + ", ".join(f"{rule} {text.duration(crossing.time_to_accuracy_s(rule))}" for rule in RULES)
    return Finding(name="claim from the log", verdict="confirmed", text=said)


def check_reports(run: RunDir, summary: RunSummary) -> Iterator[Finding]:
    """Reports beside the log say what the log says."""
    path = run.report / "report.json"
    if not path.is_file():
        yield Finding(name="report", verdict="not checked", text="no report/report.json beside the log")
        return
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        runs = [item for item in document["runs"] if item["run"]["id"] == summary.run_id]
        told = [item["time_to_accuracy"] for item in runs]
        stated = [None if item is None else {rule: float(item[rule]["seconds"]) for rule in RULES} for item in told]
    except (OSError, ValueError, KeyError, TypeError) as error:
        yield Finding(name="report", verdict="contradicts", text=f"{path}: not a report.json ({error!r})")
        return
    crossing = summary.crossing()
    own = None if crossing is None else {rule: crossing.time_to_accuracy_s(rule) for rule in RULES}
    if not stated:
        yield Finding(name="report", verdict="not checked", text=f"{path} is about other runs")
    elif all(_same_times(item, own) for item in stated):
        yield Finding(name="report", verdict="confirmed", text=f"{path} states the times of the log")
    else:
        yield Finding(name="report", verdict="contradicts", text=f"{path} states {stated[0]}, the log {own}")


def _same_times(stated: Mapping[Any, float] | None, own: Mapping[Any, float] | None) -> bool:
    if stated is None or own is None:
        return stated is None and own is None
    return all(abs(stated[rule] - own[rule]) < SAME_S for rule in RULES)


def check_sealed(run: RunDir) -> Finding:
    """The files are those that were sealed; a checkpoint that was not copied along is no contradiction."""
    try:
        differences = check_seal(run)
    except ReportError as error:
        there = run.seal_json.exists()
        return Finding(name="seal", verdict="contradicts" if there else "not checked", text=str(error))
    weights = ("checkpoints/", "snapshots/")
    absent = [line for line in differences if line.startswith(weights) and line.endswith(": missing")]
    changed = [line for line in differences if line not in absent]
    if changed:
        return Finding(name="seal", verdict="contradicts", text="; ".join(changed))
    if absent:
        left = f"event files as sealed, but not here: {', '.join(line.removesuffix(': missing') for line in absent)}"
        return Finding(name="seal", verdict="not checked", text=f"{left} ({SEAL_LIMITS})")
    return Finding(name="seal", verdict="confirmed", text=f"no file differs from it ({SEAL_LIMITS})")


def recipe_of(values: Mapping[str, Any]) -> Recipe | None:
    """The recipe that the log holds, None if it is none of this version's."""
    try:
        return Recipe.model_validate(values)
    except (ValidationError, RecipeError):
        return None


def check_recipe(run: RunDir, summary: RunSummary, starts: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """The hash of each attempt's recipe, and whether the recipe files beside the log are the ones that ran."""
    for number, started in enumerate(starts, 1):
        name = "recipe" if len(starts) == 1 else f"recipe of start {number}"
        found, stated = values_sha256(started.get("recipe", {})), started.get("recipe_sha256")
        if found == stated:
            yield Finding(name=name, verdict="confirmed", text=f"its values have the SHA-256 {found[:16]}...")
        else:
            said = f"its values have the SHA-256 {found}, the log states {stated}"
            yield Finding(name=name, verdict="contradicts", text=said)
    yield from _recipe_file(run, summary)


def _recipe_file(run: RunDir, summary: RunSummary) -> Iterator[Finding]:
    """resolved.yaml, or that of the newest attempt that changed it, holds the last start's recipe."""
    folders = [run.attempt_dir(attempt) for attempt in reversed(run.attempts())]
    path = next(
        (folder / "resolved.yaml" for folder in folders if (folder / "resolved.yaml").is_file()), run.resolved_yaml
    )
    recipe = recipe_of(summary.recipe)
    if recipe is None:
        said = "the log's recipe has keys that this version does not know: files were not compared with it"
        yield Finding(name="recipe file", verdict="not checked", text=said)
        return
    try:
        same = read(path, Recipe).value == recipe
    except RecipeError:
        same = False
    verdict: Verdict = "confirmed" if same else "contradicts"
    said = (
        "holds the recipe that ran" if same else "is not the recipe that ran: it was edited, or comes from another run"
    )
    yield Finding(name="recipe file", verdict=verdict, text=f"{path} {said}")


def check_code(started: Mapping[str, Any]) -> Finding:
    """Whether this is the code that made the run; other code can read the log, but is no proof of the rest."""
    stated, here = started.get("git_commit"), git_commit(Path(dawnrun.__file__).parent)
    if stated is None:
        return Finding(name="code", verdict="not checked", text="the run did not record a commit")
    if str(stated).endswith("-dirty"):
        return Finding(name="code", verdict="not checked", text=f"the run was made from changed files ({stated})")
    if stated == here:
        return Finding(name="code", verdict="confirmed", text=f"this is the commit of the run, {stated}")
    other = f"this is {here}" if here else "this code has no commit"
    return Finding(name="code", verdict="not checked", text=f"the run was made by commit {stated}, {other}")


def check_data(recipe: Recipe, data_root: Path, started: Mapping[str, Any]) -> Iterator[Finding]:
    """The data set's fingerprint: names and sizes of its files (dawnrun/dataset/index.py)."""
    stated: Mapping[str, Mapping[str, str]] = started.get("data_fingerprints") or {}
    if recipe.input.import_ is not None:
        text = f"the images were listed by the run's own {recipe.input.import_}, which is not imported here"
        yield Finding(name="data", verdict="not checked", text=text)
        return
    for name, splits in stated.items():
        dataset = recipe.validation_dataset if name == "validation" else name
        for split, fingerprint in splits.items():
            folder = data_root / recipe.input.datasets.get(dataset, dataset)
            yield _data_finding(f"data {name}/{split}", folder, split, fingerprint)


def _data_finding(name: str, folder: Path, split: str, stated: str) -> Finding:
    # Whether a set lies in class folders or in shards is build_index's business.
    try:
        found = build_index(folder, "train" if split == "train" else "val", max_bad=10**9).fingerprint
    except DataError as error:
        return Finding(name=name, verdict="not checked", text=str(error))
    if found == stated:
        return Finding(
            name=name, verdict="confirmed", text=f"{folder / split}: names and sizes of all files as in the run"
        )
    said = f"{folder / split}: not the files of the run (fingerprint {found[:16]}..., the run's {stated[:16]}...)"
    return Finding(name=name, verdict="contradicts", text=said)


def other_versions(started: Mapping[str, Any], names: Sequence[str] = ("torch", "torchvision")) -> list[str]:
    """`torch 2.9.0 there, 2.14.1 here` for each that differs."""
    there, here = started.get("versions") or {}, package_versions(names)
    return [f"{name} {there.get(name)} there, {here[name]} here" for name in names if there.get(name) != here[name]]


def judge_weights(found: str | None, started: Mapping[str, Any]) -> Finding:
    """The initial weights rebuilt from the seed have the hash that the log states."""
    name, stated = "initial weights", started.get("initial_weights_sha256")
    if found is None:
        return Finding(name=name, verdict="not checked", text="they could not be rebuilt here")
    if found == stated:
        return Finding(
            name=name, verdict="confirmed", text=f"rebuilt from the seed, SHA-256 {found[:16]}...: untrained"
        )
    if others := other_versions(started):
        said = f"rebuilt, they differ, but so do the versions: {'; '.join(others)}"
        return Finding(name=name, verdict="not checked", text=said)
    said = f"rebuilt from the seed they have the SHA-256 {found}, the log states {stated}"
    return Finding(name=name, verdict="contradicts", text=said)


def judge_counts(found: Mapping[str, Any], row: EpochRow, started: Mapping[str, Any], device: str) -> Finding:
    """The checkpoint, validated again, gives the counts of the log."""
    name = f"accuracy of epoch {row.epoch}"
    stated = (row.num_val_images, row.top1_correct, row.top5_correct)
    measured = (found["num_images"], found["top1_correct"], found["top5_correct"])
    shown = f"{measured[1]:,} right in top-1 and {measured[2]:,} in top-5 of {measured[0]:,} images"
    if measured == stated:
        return Finding(name=name, verdict="confirmed", text=f"validated again: {shown}, as in the log")
    said = f"validated again: {shown}; the log states {stated[1]}, {stated[2]} of {stated[0]}"
    others = other_versions(started)
    others += [f"device {started.get('device')} there, {device} here"] if started.get("device") != device else []
    if others and measured[0] == stated[0]:
        return Finding(name=name, verdict="not checked", text=f"{said}; other arithmetic: {'; '.join(others)}")
    return Finding(name=name, verdict="contradicts", text=said)


def validated_row(summary: RunSummary) -> EpochRow | None:
    """The epoch whose checkpoint bears the claim: that of the crossing, else the last one validated."""
    crossing = summary.crossing()
    if crossing is None:
        return words.final(summary)
    return next(row for row in summary.epochs if row.epoch == crossing.epoch)


def checkpoint_of(run: RunDir, summary: RunSummary, row: EpochRow) -> Path | None:
    """The checkpoint saved at the row's step, if it is here; a path that leads out of the run is not followed."""
    for saved in summary.checkpoints:
        path = run.path / str(saved.get("path"))
        if saved.get("step") == row.step and path.is_dir() and path.resolve().is_relative_to(run.path.resolve()):
            return path
    return None
