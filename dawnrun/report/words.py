"""What a report says about a run, in plain words: the same on the terminal, on the page and in DAWNBench's files."""

import math
import unicodedata
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from dawnrun import text
from dawnrun.clock import SPAN_KINDS, Rule, SpanKind, elapsed_s
from dawnrun.record.changes import target_changes
from dawnrun.record.summary import Crossing, EpochRow, RunSummary, Spent

RULE_MEANING: Mapping[Rule, str] = {
    "dawnbench": "initialise + data_setup + training, until the weights were frozen",
    "mlperf": "all but idle and the first 30 min of initialise, until the result was known",
    "training": "training alone, until the weights were frozen",
    "everything": "every second, idle between attempts included, until the result was known",
}
CONFIDENCE: Mapping[str, str] = {
    "own": "own recipe, no published run behind it",
    "complete": "published run, all of its settings are known",
    "partial": "published run, some of its settings are not known",
    "guessed": "published run, most settings are guessed",
    "shrunk": "NOT A REPRODUCTION: a schedule made small for the demo data",
}
_CONTROL = ("Cc", "Cf", "Cs", "Zl", "Zp")


def plain(value: object) -> str:
    """Text without control, bidirectional, line separating or unpaired surrogate characters: `?` for each."""
    return "".join("?" if unicodedata.category(char) in _CONTROL else char for char in str(value))


def percent(value: float | None) -> str:
    """Two decimals, cut and not rounded, so that 92.999 never reads as 93; `-` for None."""
    return "-" if value is None else f"{math.floor(value * 100 + 1e-6) / 100:.2f}"


def number(value: float | None, form: str) -> str:
    """A number in a form, `-` for None."""
    return "-" if value is None else format(value, form)


def clock_text(seconds: float) -> str:
    """`0:02:03` for a minute and more, else seconds."""
    return text.duration(seconds) if seconds >= 60 else text.seconds(seconds)


def counted(spent: Spent, rule: Rule) -> dict[SpanKind, float]:
    """Seconds of each kind that count under a rule; they add up to `elapsed_s` because every rule is a sum over kinds."""
    return {kind: elapsed_s({kind: spent.get(kind, 0.0)}, rule) for kind in SPAN_KINDS}


def spent_until(crossing: Crossing, rule: Rule) -> Spent:
    """The crossing's seconds that `rule` reads: when the result was known, or when the weights were frozen."""
    return crossing.known_spent if rule in ("mlperf", "everything") else crossing.spent


def thresholds(summary: RunSummary) -> dict[str, float]:
    """The target's accuracies in percent, top-5 first; empty if none was asked."""
    asked = summary.recipe.get("target") or {}
    return {name: float(asked[name]) for name in ("top5", "top1") if asked.get(name) is not None}


def accuracy_name(name: str) -> str:
    """`top5` as people write it."""
    return name.replace("top", "top-")


def target_text(summary: RunSummary) -> str:
    """`top-5 of 93 % and top-1 of 75 %`."""
    return " and ".join(f"{accuracy_name(name)} of {value:g} %" for name, value in thresholds(summary).items())


def below_target(summary: RunSummary) -> bool:
    """Whether the run finished without the accuracy that it was asked for."""
    return summary.status == "finished" and bool(thresholds(summary)) and summary.crossing() is None


def leading(summary: RunSummary) -> str:
    """The accuracy that a run is judged by: `top5`, unless only `top1` was asked."""
    return next(iter(thresholds(summary)), "top5")


def best(summary: RunSummary, name: str) -> EpochRow | None:
    """The epoch with the highest `top5` or `top1`, the first of equals; None if nothing was validated."""
    rows = [row for row in summary.epochs if getattr(row, name) is not None]
    return max(rows, key=lambda row: (getattr(row, name), -row.epoch), default=None)


def final(summary: RunSummary) -> EpochRow | None:
    """The last epoch that was validated."""
    return next((row for row in reversed(summary.epochs) if row.top5 is not None), None)


def accuracy_text(row: EpochRow | None) -> str:
    """`top-5 93.10 %, top-1 76.01 % (epoch 16)`."""
    if row is None:
        return "nothing validated"
    return f"top-5 {percent(row.top5)} %, top-1 {percent(row.top1)} % (epoch {row.epoch})"


def status_text(summary: RunSummary) -> str:
    """Where the run stands, with the epochs done of those planned."""
    done = f"{len(summary.epochs)} of {text.plural(summary.total_epochs, 'epoch')}"
    why = plain(summary.reason).replace("_", " ")
    if summary.status == "running":
        return f"still running, {done} done: figures are those so far"
    if summary.status == "finished":
        return f"finished after {done}" + (f" ({why})" if why and why != "finished" else "")
    if not summary.total_epochs:
        done = "nothing"  # the plan is recorded once a trainer has read the data
    return f"not finished: {summary.status}, {done} done" + (f" ({why})" if why and why != summary.status else "")


def outcome(summary: RunSummary) -> str:
    """The first line of every report: target reached or not, by how much, and when."""
    asked, crossing = thresholds(summary), summary.crossing()
    if not asked:
        return f"no target asked; best {accuracy_text(best(summary, leading(summary)))}"
    if crossing is not None:
        return (
            f"target reached: {target_text(summary)} in epoch {crossing.epoch} "
            f"(top-5 {percent(crossing.top5)} %, top-1 {percent(crossing.top1)} %){_target_changed(summary)}"
        )
    verb = "target not reached yet" if summary.status == "running" else "target not reached"
    return f"{verb}: {target_text(summary)}; {', '.join(_gaps(summary, asked))}{_target_changed(summary)}"


def _target_changed(summary: RunSummary) -> str:
    """That the target is not the one the run began with, and from when on it counts; else nothing."""
    changes = target_changes(summary.attempts)
    return f"; the target was changed in attempt {changes[-1][0]} and counts from there on" if changes else ""


def _gaps(summary: RunSummary, asked: Mapping[str, float]) -> Iterator[str]:
    """Per accuracy asked: the best there was, its epoch, and what was missing."""
    for name, threshold in asked.items():
        row = best(summary, name)
        if row is None:
            yield f"no {accuracy_name(name)} measured"
            continue
        value = float(getattr(row, name))
        short = math.ceil((threshold - value) * 100 - 1e-6) / 100
        gap = f"{short:.2f} short" if value < threshold else "enough"
        yield f"best {accuracy_name(name)} {percent(value)} % in epoch {row.epoch} ({gap})"


def recipe_text(summary: RunSummary) -> str:
    """Name of the recipe and how well its source is known."""
    provenance: Mapping[str, Any] = summary.recipe.get("provenance") or {}
    confidence = str(provenance.get("confidence", "own"))
    told = [f"{summary.recipe.get('name', summary.name)}: {CONFIDENCE.get(confidence, confidence)}"]
    told += [str(provenance[key]) for key in ("published", "source", "changed") if provenance.get(key)]
    return plain("; ".join(told))


def machine_text(summary: RunSummary) -> str:
    """`2 nodes, 8 processes, cuda (Tesla V100), fp16, cuda_graph`; nothing of the last where every call was made as written."""
    started = summary.started
    processes = int(started.get("world_size") or 1)
    device = str(started.get("device") or "unknown device")
    name = started.get("device_name") or summary.site.get("gpu")
    where = f"{text.plural(summary.nodes, 'node')}, {processes} process{'' if processes == 1 else 'es'}"
    if evaluators := summary.site.get("evaluators"):
        where += f" and {text.plural(int(evaluators), 'evaluator')}"
    kind = f"{device} ({name})" if name and name != device else device
    execution = execution_of(summary)
    how = [str(started.get("precision") or ""), "" if execution == "eager" else execution]
    return plain(", ".join([where, kind, *filter(None, how)]))


def execution_of(summary: RunSummary) -> str:
    """`eager`, `compile` or `cuda_graph`; runs of before there was a choice were eager."""
    return str((summary.recipe.get("compute") or {}).get("execution", "eager"))


def view_text(row: EpochRow) -> str:
    """How an epoch's validation images were seen, how many there were, and by how many processes."""
    validation = row.validation
    if not validation:
        return "not validated"
    size = validation.get("image_size")
    batch = validation.get("rectangular_batch")
    by_batch = f" by the mean of {batch}" if batch else ""
    shape = (
        f"short side {size} px, rectangular{by_batch}" if validation.get("rectangular") else f"{size} px centre crop"
    )
    flip = ", mean of image and mirror image" if validation.get("flip_average") else ""
    images = text.plural(row.num_val_images or 0, "image")
    processes = validation.get("num_processes") or 1
    who = "evaluator" if validation.get("by") == "evaluators" else "process"
    by = text.plural(processes, who, "processes" if who == "process" else "evaluators")
    invalid = "; INVALID: outputs not finite" if validation.get("valid") is False else ""
    return plain(f"{shape} of {validation.get('resize_px')} px{flip}; {images}, {by}{invalid}")


def span(first: int, last: int) -> str:
    """`3` or `3-7`."""
    return str(first) if first == last else f"{first}-{last}"


def epoch_span(first: int, last: int) -> str:
    """`epoch 3` or `epochs 3-7`."""
    return f"epoch{'' if first == last else 's'} {span(first, last)}"


def views(summary: RunSummary) -> list[tuple[str, str]]:
    """Runs of epochs whose validation saw the images in the same way: (epochs, how)."""
    told = [(row.epoch, view_text(row)) for row in summary.epochs]
    groups = [(how, [epoch for epoch, _ in rows]) for how, rows in groupby(told, key=lambda pair: pair[1])]
    return [(epoch_span(epochs[0], epochs[-1]), how) for how, epochs in groups]


def lost_steps(summary: RunSummary) -> int:
    """Steps that were done and had to be done again."""
    return sum(attempt.lost_steps for attempt in summary.attempts)


def attempts_text(summary: RunSummary) -> str:
    """`1` for an undisturbed run, else their number, the steps lost and the seconds between them."""
    if len(summary.attempts) <= 1:
        return "1 attempt"
    idle_s = sum(attempt.idle_s for attempt in summary.attempts)
    lost = text.plural(lost_steps(summary), "step")
    return f"{len(summary.attempts)} attempts, {lost} lost and redone, {clock_text(idle_s)} between them"


def cost_text(summary: RunSummary) -> str:
    """Cost to the target under DAWNBench's rule, with the price it rests on."""
    price, cost = summary.usd_per_hour, summary.cost_to_accuracy_usd()
    if price is None:
        return "no price: set usd_per_node_hour in the site"
    per_hour = f"{text.money(price)}/h for {text.plural(summary.nodes, 'node')}"
    return f"no cost to the target, not reached ({per_hour})" if cost is None else f"{text.money(cost)} ({per_hour})"


def speed_text(summary: RunSummary) -> str:
    """Images per second over the training time, and how much of it went into waiting for images."""
    if summary.images_per_second is None:
        return "not measured"
    training_s = summary.spent.get("training", 0.0)
    share = f", {100 * summary.input_wait_s / training_s:.1f} % of it waiting for input" if training_s > 0 else ""
    return f"{summary.images_per_second:,.1f} images/s over {clock_text(training_s)} of training{share}"


def data_text(summary: RunSummary) -> str:
    """Images and classes that were trained on and validated."""
    started = summary.started
    counts = [started.get(key) for key in ("num_train_images", "num_val_images", "num_classes")]
    train, val, classes = ("?" if number is None else text.count(number) for number in counts)
    return f"{train} training images, {val} validation images, {classes} classes"
