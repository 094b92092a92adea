"""Several runs of one recipe on one kind of machine that differ in their seed: how long they took, as a sample."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median, stdev
from typing import Any

from dawnrun.clock import RULES, Rule
from dawnrun.record.summary import RunSummary
from dawnrun.report import words
from dawnrun.report.rows import Row, run_name

_SAME_MACHINE = (
    "world_size",
    "device",
    "device_name",
    "precision",
    "num_train_images",
    "num_val_images",
    "num_classes",
)
CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """Seconds of those runs that reached the target, under one rule; None where too few did.

    `interval_s`: two-sided 95 % for the mean, mean -+ t(n - 1) * standard deviation / sqrt(n) (Student, 1908).
    """

    times_s: tuple[float, ...]
    mean_s: float | None
    median_s: float | None
    stdev_s: float | None
    interval_s: tuple[float, float] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Runs that differ in their seed alone, in the order given."""

    name: str
    runs: tuple[RunSummary, ...]

    @property
    def num_reached(self) -> int:
        """Runs that reached the target."""
        return sum(run.crossing() is not None for run in self.runs)

    def sample(self, rule: Rule) -> Sample:
        """The times under a rule."""
        crossings = [run.crossing() for run in self.runs]
        return describe([crossing.time_to_accuracy_s(rule) for crossing in crossings if crossing is not None])


def group(summaries: Sequence[RunSummary]) -> list[Group]:
    """Groups of two runs or more; runs of another recipe, machine, data set or number of processes are not mixed."""
    found: dict[str, list[RunSummary]] = {}
    for summary in summaries:
        found.setdefault(_key(summary), []).append(summary)
    return [Group(name=words.plain(runs[0].name), runs=tuple(runs)) for runs in found.values() if len(runs) > 1]


def _key(summary: RunSummary) -> str:
    """What runs of one group have in common."""
    recipe = {key: value for key, value in summary.recipe.items() if key != "seed"}
    machine = {key: summary.started.get(key) for key in _SAME_MACHINE}
    return json.dumps([recipe, summary.nodes, machine], sort_keys=True, default=str)


def describe(times_s: Sequence[float]) -> Sample:
    """Mean, median, standard deviation (n - 1) and interval of a sample."""
    number = len(times_s)
    spread = stdev(times_s) if number > 1 else None
    middle = mean(times_s) if number else None
    interval = None
    if spread is not None and middle is not None:
        half = student_t(number - 1) * spread / math.sqrt(number)
        interval = (middle - half, middle + half)
    return Sample(
        times_s=tuple(times_s),
        mean_s=middle,
        median_s=median(times_s) if number else None,
        stdev_s=spread,
        interval_s=interval,
    )


def student_t(degrees: int, confidence: float = CONFIDENCE) -> float:
    """The two-sided quantile of Student's distribution, by halving; 12.706 for one degree of freedom at 95 %."""
    low, high = 0.0, 1.0
    while _inside(high, degrees) < confidence:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _inside(middle, degrees) < confidence else (low, middle)
    return high


def _inside(t: float, degrees: int) -> float:
    """Probability of a value within -+t (Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(degrees))
    cosine = math.cos(angle)
    odd = degrees % 2
    term = cosine if odd else 1.0
    total = 0.0 if degrees == 1 else term
    for place in range(2 + odd, degrees - 1, 2):
        term *= cosine**2 * (place - 1) / place
        total += term
    return 2 / math.pi * (angle + math.sin(angle) * total) if odd else math.sin(angle) * total


def headline(found: Group) -> str:
    """`demo: 4 of 5 runs reached the target (80 %)`."""
    reached, number = found.num_reached, len(found.runs)
    same = len({run.recipe.get("seed") for run in found.runs}) < number
    said = f"{found.name}: {reached} of {number} runs reached the target ({100 * reached / number:.0f} %)"
    return f"{said}; some of them have the same seed" if same else said


RUN_COLUMNS: Row = ("seed", "run", "outcome", *RULES)
FIGURE_COLUMNS: Row = ("time to target", *RULES)


def run_cells(run: RunSummary) -> Row:
    """Seed and time of one run, `not reached` without one."""
    crossing = run.crossing()
    times = ["not reached" if crossing is None else f"{crossing.time_to_accuracy_s(rule):,.1f} s" for rule in RULES]
    return (words.plain(run.recipe.get("seed", "?")), run_name(run), _outcome(run), *times)


def figure_cells(found: Group) -> list[Row]:
    """The sample's figures under each rule, over the runs that reached the target."""
    samples = [found.sample(rule) for rule in RULES]
    return [
        ("mean", *(_seconds(sample.mean_s) for sample in samples)),
        ("median", *(_seconds(sample.median_s) for sample in samples)),
        ("standard deviation", *(_seconds(sample.stdev_s) for sample in samples)),
        ("95 % interval of the mean", *(_interval(sample.interval_s) for sample in samples)),
    ]


def document(found: Group) -> Mapping[str, Any]:
    """The group for report.json."""
    return {
        "name": found.name,
        "runs": [run.path for run in found.runs],
        "seeds": [run.recipe.get("seed") for run in found.runs],
        "num_reached": found.num_reached,
        "share_reached": found.num_reached / len(found.runs),
        "time_to_accuracy": {rule: found.sample(rule) for rule in RULES},
    }


def _outcome(run: RunSummary) -> str:
    crossing = run.crossing()
    if crossing is not None:
        return f"reached in epoch {crossing.epoch}"
    best = words.best(run, words.leading(run))
    return f"{run.status}; best top-5 {words.percent(best.top5 if best else None)} %"


def _seconds(value: float | None) -> str:
    return words.number(value, ",.1f") + ("" if value is None else " s")


def _interval(interval: tuple[float, float] | None) -> str:
    return "-" if interval is None else f"{interval[0]:,.1f} to {interval[1]:,.1f} s"
