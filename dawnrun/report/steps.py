"""What a run's seconds went into, down to the parts of a step, and how far apart its processes were."""

from collections.abc import Iterator, Mapping, Sequence

from dawnrun.clock import SPAN_KINDS, SpanKind
from dawnrun.record.rows import PARTS, PhaseRow
from dawnrun.record.summary import RunSummary

Row = tuple[str, ...]
Parts = list[tuple[str, float]]

STEP_COLUMNS: Row = ("phase", "a step, ms", "input wait", *PARTS)
_STARTUP_PARTS: Mapping[SpanKind, Sequence[tuple[str, str]]] = {
    "initialise": (
        ("imports_s", "imports"),
        ("process_group_s", "process group"),
        ("model_s", "model"),
        ("warm_up_s", "warm-up"),
    ),
    "data_setup": (("index_s", "index of the images"), ("first_batch_s", "first batch")),
}


def time_parts(summary: RunSummary) -> Parts:
    """Every kind of span with its seconds, each followed by its own parts (indented), which add up to it.

    The parts of start-up are the first attempt's.
    """
    found: Parts = []
    for kind in SPAN_KINDS:
        parts = training_parts(summary) if kind == "training" else _startup_parts(summary, kind)
        found += [(kind, summary.spent.get(kind, 0.0)), *((f"  {name}", value) for name, value in parts)]
    return found


def training_parts(summary: RunSummary) -> Parts:
    """Waiting for input, the parts of steps as far as they are recorded, and the rest; they add up to the training."""
    whole = summary.spent.get("training", 0.0)
    if not whole:
        return []
    spent = {name: sum(phase.parts_s.get(name, 0.0) for phase in summary.phases) for name in PARTS}
    timed = any(spent.values())
    known = [("waiting for input", summary.input_wait_s), *(spent.items() if timed else ())]
    return _with_rest(
        known, whole, "between steps, lost or not timed" if timed else "forward, backward, exchange, update"
    )


def _startup_parts(summary: RunSummary, kind: SpanKind) -> Parts:
    known = [(name, summary.startup_s[key]) for key, name in _STARTUP_PARTS.get(kind, ()) if key in summary.startup_s]
    rest = "the rest" if len(summary.attempts) <= 1 else "the rest, and later attempts"
    return _with_rest(known, summary.spent.get(kind, 0.0), rest)


def _with_rest(known: Parts, whole: float, rest: str) -> Parts:
    """What is known of a span's inside, and the rest; nothing if what is known is more than the whole."""
    left = whole - sum(value for _, value in known)
    if not known or left < -1e-3:
        return []
    return [*known, (rest, max(0.0, left))]


def step_rows(summary: RunSummary) -> list[Row]:
    """What a step of each phase was made of, in milliseconds; nothing where no step was timed."""
    return [_step_cells(phase) for phase in summary.phases if phase.timed_steps]


def _step_cells(phase: PhaseRow) -> Row:
    share = phase.timed_steps / phase.steps
    parts = (phase.parts_s[name] / phase.timed_steps for name in PARTS)
    return (
        str(phase.phase_index + 1) + ("" if share > 0.995 else f" ({100 * share:.0f} % timed)"),
        _ms(phase.training_s / phase.steps),
        _ms(phase.input_wait_s / phase.steps),
        *map(_ms, parts),
    )


def spread_text(summary: RunSummary) -> Iterator[str]:
    """How far apart the processes of a run were, one line a phase; nothing for one process."""
    for phase in summary.phases:
        if not phase.ranks:
            continue
        waits, own = phase.ranks["input_wait_s"], phase.ranks.get("own_s")
        told = f"phase {phase.phase_index + 1}: a step waits {_ms(waits['least'])} to {_ms(waits['most'])} ms for input"
        if own:
            told += f", own work {_ms(own['least'])} to {_ms(own['most'])} ms"
            told += (
                f"; most often slowest: rank {phase.ranks['slowest']}, in {100 * phase.ranks['slowest_share']:.0f} %"
            )
        yield told


def _ms(seconds: float) -> str:
    """Milliseconds, with three digits or more."""
    value = 1000 * seconds
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
