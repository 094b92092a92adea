"""How every chart looks: style, colours, panels, legend, and its SVG text, the same bytes for the same figure.

Figures are made without pyplot, so no display and no backend setting matters.
"""

import io
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "dawnrun",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.6,
    "lines.markersize": 4,
    "axes.formatter.useoffset": False,
}
# Okabe and Ito's colours, told apart by colour-blind readers; dashes and hatches tell them apart without colour.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":")


def panels(number: int, *, height_in: float = 3.0) -> tuple[Figure, list[Axes]]:
    """A figure with panels below one another that share their x axis; narrow, to be readable on a telephone."""
    figure = Figure(figsize=(4.9, height_in), layout="constrained")
    grid = figure.subplots(number, 1, sharex=True, squeeze=False)
    return figure, [row[0] for row in grid]


def whole_epochs(axes: Axes) -> None:
    """Epochs are counted in whole numbers."""
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def legend(figure: Figure, axes: Axes, *, ncols: int) -> None:
    """A legend above the panels, where something has a label."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside upper left", ncols=ncols)


def look(number: int) -> tuple[str, str]:
    """Colour and dashes of a run."""
    return COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]


def time_unit(longest_s: float) -> tuple[float, str]:
    """Seconds in the unit that suits the longest time, and its name."""
    if longest_s < 180:
        return 1.0, "seconds"
    return (60.0, "minutes") if longest_s < 7200 else (3600.0, "hours")


def svg(figure: Figure) -> str:
    """The figure's SVG text, without a date."""
    text = io.StringIO()
    FigureCanvasSVG(figure).print_svg(text, metadata={"Date": None})  # type: ignore[no-untyped-call]
    return text.getvalue()
