"""Charts of one or more runs as SVG texts: the same bytes for the same runs.

Text in charts is our own (runs are `run 1`, `run 2`), so no name of the user's is ever drawn.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dawnrun.clock import elapsed_s
from dawnrun.record.summary import EpochRow, ProgressPoint, RunSummary
from dawnrun.report.claim import NO_OTHERS, Claim, Others
from dawnrun.report.figure import DASHES, STYLE, legend, look, panels, svg, time_unit, whole_epochs
from dawnrun.report.steps import training_parts
from dawnrun.report.words import accuracy_name, thresholds

Runs = Sequence[RunSummary]
Chart = Callable[[Runs, Others], str]

_TIME_LOOK: Mapping[str, tuple[str, str]] = {
    "initialise": ("#E69F00", "//"),
    "data_setup": ("#56B4E9", "\\\\"),
    "training": ("#0072B2", ""),
    "waiting for input": ("#D55E00", "||"),
    "forward": ("#0072B2", ""),
    "backward": ("#5B9BC8", ""),
    "exchange": ("#F0E442", "++"),
    "update": ("#00334F", ""),
    "the rest of training": ("#BBD3E6", ""),
    "validation": ("#009E73", ".."),
    "checkpoint": ("#CC79A7", "xx"),
    "idle": ("#999999", "--"),
}
"""Colour and hatch of kinds of span, and of the parts of training, from left to right."""
_MAX_POINTS = 600
_FAR = 3
"""Others' figures that lie further out than this, in lengths of the longest run, do not stretch the axis."""


def accuracy_over_time(runs: Runs, others: Others) -> str:
    """Top-5 and top-1 in percent over DAWNBench's clock, with the target, where it was crossed, and others' figures."""
    clocks = [elapsed_s(run.spent, "dawnbench") for run in runs]
    clocks = clocks or [seconds for claim in others.claims for seconds, _ in _curve(claim, "hours", 3600)]
    longest_s = max(clocks, default=0.0)
    unit_s, unit = time_unit(longest_s)
    figure, axes = _accuracy(runs, lambda row: elapsed_s(row.spent, "dawnbench") / unit_s)
    for number, claim in enumerate(others.claims):
        _claimed(axes, number, _curve(claim, "hours", 3600 / unit_s), longest_s / unit_s)
    for record in others.records:
        seconds = None if record.seconds is None else record.seconds / unit_s
        _mark(axes, record, seconds, longest_s / unit_s, f"{record.name}, {record.rule} clock")
    clock = "dawnbench clock; others by their own" if others.claims or others.records else "dawnbench clock"
    return _accuracy_svg(figure, axes, runs, f"{unit} ({clock})")


def accuracy_over_epochs(runs: Runs, others: Others) -> str:
    """Top-5 and top-1 in percent over epochs."""
    figure, axes = _accuracy(runs, lambda row: row.epoch)
    most = float(max((row.epoch for run in runs for row in run.epochs), default=0))
    for number, claim in enumerate(others.claims):
        _claimed(axes, number, _curve(claim, "epoch"), most)
    for record in others.records:
        _mark(axes, record, record.epoch, most, record.name)
    whole_epochs(axes)
    return _accuracy_svg(figure, axes, runs, "epochs")


def schedule(runs: Runs, _others: Others) -> str:
    """Learning rate, momentum, image size and batch size over epochs, as they were used."""
    figure, axes = panels(4, height_in=5.4)
    for number, run in enumerate(runs):
        points = _thinned(run.progress)
        colour, dash = look(number)
        for panel, name in ((axes[0], "lr"), (axes[1], "momentum")):
            panel.plot([p.epoch for p in points], [getattr(p, name) for p in points], dash, color=colour)
        for panel, name in ((axes[2], "image_size"), (axes[3], "global_batch_size")):
            xs, ys = _steps(run, name)
            panel.plot(xs, ys, dash, color=colour, label=f"run {number + 1}")
    for panel, title in zip(axes, ("learning rate", "momentum", "image size, px", "global batch size"), strict=True):
        panel.set_title(title)
        panel.set_ylim(0, 1.15 * panel.dataLim.y1 if panel.dataLim.y1 > 0 else 1)
    whole_epochs(axes[-1])
    axes[-1].set_xlabel("epochs")
    _run_legend(figure, axes[-1], runs)
    return svg(figure)


def loss_over_epochs(runs: Runs, _others: Others) -> str:
    """Training loss over epochs, each point a window of steps."""
    figure, (axes,) = panels(1)
    for number, run in enumerate(runs):
        losses = [(point.epoch, point.loss) for point in _thinned(run.progress) if point.loss is not None]
        colour, dash = look(number)
        axes.plot([x for x, _ in losses], [y for _, y in losses], dash, color=colour, label=f"run {number + 1}")
    whole_epochs(axes)
    axes.set_xlabel("epochs")
    axes.set_ylabel("training loss")
    _run_legend(figure, axes, runs)
    return svg(figure)


def speed_over_time(runs: Runs, _others: Others) -> str:
    """Images per second of each window over training time, and each phase's mean."""
    figure, (axes,) = panels(1)
    unit_s, unit = time_unit(max((run.spent.get("training", 0.0) for run in runs), default=0.0))
    for number, run in enumerate(runs):
        points = _thinned(run.progress)
        colour, dash = look(number)
        xs, ys = [p.training_s / unit_s for p in points], [p.images_per_second for p in points]
        axes.plot(xs, ys, ".", color=colour, markersize=3, alpha=0.5)
        end_s = 0.0
        for phase in run.phases:
            start_s, end_s = end_s, end_s + phase.training_s
            if phase.images_per_second is not None:
                spread = [start_s / unit_s, end_s / unit_s]
                label = f"run {number + 1}" if phase is run.phases[0] else None
                axes.plot(spread, [phase.images_per_second] * 2, dash, color=colour, label=label)
                if len(runs) == 1:
                    size = f"{phase.image_size} px"
                    axes.annotate(size, (sum(spread) / 2, phase.images_per_second), (0, 4), ha="center",
                                  textcoords="offset points", fontsize=8.5)  # fmt: skip
    axes.set_ylim(0, 1.15 * axes.dataLim.y1 if axes.dataLim.y1 > 0 else 1)
    axes.set_xlabel(f"{unit} of training")
    axes.set_ylabel("images per second")
    _run_legend(figure, axes, runs)
    return svg(figure)


def time_spent(runs: Runs, _others: Others) -> str:
    """Where the whole run's time went: one bar a run, cut into kinds of span, and training into its parts."""
    figure, (axes,) = panels(1, height_in=1.9 + 0.35 * len(runs))
    unit_s, unit = time_unit(max((sum(run.spent.values()) for run in runs), default=0.0))
    spent = [_bar(run) for run in runs]
    left = [0.0] * len(runs)
    for name, (colour, hatch) in _TIME_LOOK.items():
        widths = [bar.get(name, 0.0) / unit_s for bar in spent]
        if any(widths):
            axes.barh(range(len(runs)), widths, 0.6, left, color=colour, hatch=hatch, label=name,
                      edgecolor="white", linewidth=0.5)  # fmt: skip
            left = [start + width for start, width in zip(left, widths, strict=True)]
    several = range(len(runs)) if len(runs) > 1 else range(0)
    axes.set_yticks(several, [f"run {number + 1}" for number in several])
    axes.invert_yaxis()
    axes.grid(False, axis="y")
    axes.set_xlabel(unit)
    legend(figure, axes, ncols=3)
    return svg(figure)


def _bar(run: RunSummary) -> dict[str, float]:
    """Seconds by kind of span; those of training by its parts, where they are known."""
    spent: dict[str, float] = dict(run.spent.items())
    parts = training_parts(run)
    if not parts:
        return spent
    del spent["training"]
    *known, (_, rest) = parts
    return {**spent, **dict(known), "the rest of training": rest}


CHARTS: tuple[tuple[str, str, Chart], ...] = (
    ("accuracy-over-time", "Accuracy over time", accuracy_over_time),
    ("accuracy-over-epochs", "Accuracy over epochs", accuracy_over_epochs),
    ("loss", "Training loss", loss_over_epochs),
    ("speed", "Speed over training time, and each phase's mean", speed_over_time),
    ("schedule", "Rates and sizes over epochs", schedule),
    ("time-spent", "Where the time went", time_spent),
)
"""Name, title and function of every chart, in the order of the page."""


def draw(chart: Chart, runs: Runs, others: Others = NO_OTHERS) -> str:
    """One chart's SVG text, with our style and none of the user's matplotlib settings."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE)
        return chart(runs, others)


def _accuracy(runs: Runs, x: Callable[[EpochRow], float]) -> tuple[Figure, Axes]:
    """Accuracies of validated epochs over `x`, those on training images, the target, and the crossing."""
    figure, (axes,) = panels(1, height_in=3.4)
    for number, run in enumerate(runs):
        colour, dash = look(number)
        label = f"run {number + 1}, " if len(runs) > 1 else ""
        top5 = [(x(row), row.top5) for row in run.epochs if row.top5 is not None]
        top1 = [(x(row), row.top1) for row in run.epochs if row.top1 is not None]
        seen = ", validation" if len(runs) == 1 else ""
        axes.plot([t for t, _ in top5], [y for _, y in top5], f"o{dash}", color=colour, label=f"{label}top-5{seen}")
        axes.plot(
            [t for t, _ in top1], [y for _, y in top1], "s:", color=colour, mfc="white", label=f"{label}top-1{seen}"
        )
        trained = [(x(row), row.train_top1) for row in run.epochs if row.train_top1 is not None]
        thin = "thin: top-1, training" if trained and number == 0 else None
        axes.plot(
            [t for t, _ in trained], [y for _, y in trained], "-", color=colour, alpha=0.6, linewidth=1.2, label=thin
        )
        crossing = run.crossing()
        crossed = next((row for row in run.epochs if crossing and row.epoch == crossing.epoch), None)
        if crossing is not None and crossed is not None:
            axes.plot([x(crossed)], [crossing.top5], "*", color=colour, markersize=13, mec="black", zorder=5)
            axes.axvline(x(crossed), color=colour, linewidth=0.8, linestyle=":")
    for name, value in sorted({item for run in runs for item in thresholds(run).items()}, reverse=True):
        label = f"target: {accuracy_name(name)} of {value:g} %"
        axes.axhline(value, color="#444444", linewidth=1, linestyle="--" if name == "top5" else ":", label=label)
    return figure, axes


def _curve(claim: Claim, name: Literal["hours", "epoch"], unit: float = 1.0) -> list[tuple[float, float]]:
    """Place of a claim's rows, in hours or epochs times `unit`, and top-5, or top-1 where there is none."""
    rows = [(getattr(row, name), row.top1 if row.top5 is None else row.top5) for row in claim.rows]
    return [(place * unit, top) for place, top in rows if top is not None and place is not None]


def _claimed(axes: Axes, number: int, points: Sequence[tuple[float, float]], longest: float) -> None:
    """A claim's curve: thin, grey, told apart by dashes; cut far beyond the runs, to leave them legible."""
    shown = [(x, y) for x, y in points if not longest or x <= _FAR * longest]
    label = f"claim {number + 1}" + ("" if len(shown) == len(points) else f", to {points[-1][0]:,.0f}")
    xs, ys = [x for x, _ in shown], [y for _, y in shown]
    axes.plot(xs, ys, DASHES[number % len(DASHES)], color="#777777", linewidth=1, label=label)


def _mark(axes: Axes, record: Claim, x: float | None, longest: float, label: str) -> None:
    """A published record's place and accuracy; one far beyond the runs is named at the edge."""
    if x is None:
        return
    height = record.top5 or record.top1 or 50.0
    if longest and x > _FAR * longest:
        label = f"{label}: {x:,.0f}, beyond the edge"
        axes.plot([1.0], [height], ">", color="black", label=label, transform=axes.get_yaxis_transform(), clip_on=False)
    else:
        axes.plot([x], [height], "D", color="black", mfc="white", label=label)


def _accuracy_svg(figure: Figure, axes: Axes, runs: Runs, x_label: str) -> str:
    axes.set(ylim=(0, 102), xlabel=x_label, ylabel="accuracy, %")
    axes.set_xlim(left=0)
    legend(figure, axes, ncols=2 if len(runs) <= 2 else 3)
    return svg(figure)


def _run_legend(figure: Figure, axes: Axes, runs: Runs) -> None:
    """Which line is which run, where there are several."""
    if len(runs) > 1:
        legend(figure, axes, ncols=4)


def _thinned(points: Sequence[ProgressPoint]) -> list[ProgressPoint]:
    """At most about 600 points, each phase's last and first kept, so that a long run's page stays small."""
    stride = max(1, -(-len(points) // _MAX_POINTS))
    turns = {i for i, (a, b) in enumerate(pairwise(points)) if a.image_size != b.image_size}
    kept = {*range(0, len(points), stride), *turns, *(i + 1 for i in turns), len(points) - 1} - {-1}
    return [points[i] for i in sorted(kept)]


def _steps(run: RunSummary, name: str) -> tuple[list[float], list[float]]:
    """A phase's value from the start of its first epoch to the end of its last."""
    xs = [float(x) for phase in run.phases for x in (phase.first_epoch - 1, phase.last_epoch)]
    return xs, [float(getattr(phase, name)) for phase in run.phases for _ in range(2)]
