"""docs/timing.md: every example is replayed from its table, and every figure compared."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from record_values import one_phase, site_values

from dawnrun import text
from dawnrun.clock import RULES, SPAN_KINDS
from dawnrun.record.events import Event
from dawnrun.record.summary import RunSummary, summarize_events

PAGE = (Path(__file__).parents[3] / "docs" / "timing.md").read_text(encoding="utf-8")
EXAMPLES = {
    section.splitlines()[0]: section for section in re.split(r"^## ", PAGE, flags=re.M) if section.startswith("Example")
}
STEPS = 10


def cells(section: str, header: str) -> list[list[str]]:
    """The rows of the table below that header."""
    lines = section[section.index(header) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def data_of(words: str, epoch: int) -> Iterator[tuple[str, dict]]:
    """Kind and fields of the events that a cell describes; `epoch` from 0, each of ten steps."""
    step = (epoch + 1) * STEPS
    if found := re.fullmatch(r"span (\w+)", words):
        yield "span", {"span": found[1]}
    elif found := re.fullmatch(r"started from step (\d+)", words):
        plan = [{"steps": STEPS, "validates": True}] * 2
        site = site_values(usd_per_node_hour=36.0)
        yield (
            "run.started",
            {"recipe": one_phase(2), "site": site, "first_step": int(found[1]), "epochs": plan, "num_val_images": 1000},
        )
        sizes = dict.fromkeys(("image_size", "global_batch_size", "per_device_batch_size", "accumulate_steps"), 1)
        yield "phase.started", {"phase_index": 0, "step": int(found[1]), "epoch": int(found[1]) // STEPS, **sizes}
    elif re.fullmatch(r"epoch \d trained", words):
        zeros = dict.fromkeys(("phase_index", "lr", "momentum", "image_size", "skipped_steps", "input_wait_s"), 0)
        yield (
            "train.progress",
            {"step": step, "first_step": step - STEPS, "epoch": epoch, "images": 1, "window_s": 1, "loss": 1, **zeros},
        )
    elif words == "weights frozen":
        yield "snapshot.taken", {"step": step, "epoch": epoch}
    elif found := re.fullmatch(r"(\d+) of (\d+) right", words):
        counts = {"top1_correct": 0, "top5_correct": int(found[1]), "num_images": int(found[2])}
        yield "eval.finished", {"step": step, "epoch": epoch, "valid": True, "loss": 1, **counts}
    elif words in ("finished", "preempted"):
        yield (
            "run.finished",
            {"reason": "target_reached" if words == "finished" else words, "step": step, "epoch": epoch},
        )
    elif found := re.fullmatch(r"ended by signal (\d+)", words):
        yield "launch.ended", {"reason": "signalled", "signal": int(found[1])}
    else:
        assert words == "beat", words
        yield "beat", {}


def replay(section: str) -> RunSummary:
    events, epoch = [], 0
    for attempt, writer, t_s, utc, words in cells(section, "| attempt |"):
        if found := re.fullmatch(r"epoch (\d) trained", words):
            epoch = int(found[1]) - 1
        for kind, data in data_of(words, epoch):
            utc_text = f"2026-01-31T{utc}.000Z"
            events.append(
                Event(kind=kind, t_s=float(t_s), utc=utc_text, attempt=int(attempt), writer=writer, data=data)
            )
    return summarize_events(events)


def figure(summary: RunSummary, name: str) -> str:
    """The value of a figure as the page writes it."""
    crossing = summary.crossing()
    assert crossing is not None
    if found := re.fullmatch(r"(\w+) until (frozen|known)", name):
        spent = crossing.spent if found[2] == "frozen" else crossing.known_spent
        return f"{spent[found[1]]:.0f}"
    if name == "whole run":
        return f"{sum(summary.spent.values()):.0f}"
    what, rule = re.fullmatch(r"(time|cost) by (\w+)", name).groups()
    if what == "cost":
        return text.money(summary.cost_to_accuracy_usd(rule))
    seconds = crossing.time_to_accuracy_s(rule)
    return f"{seconds:.0f} = {text.duration(seconds)}"


@pytest.mark.parametrize("title", EXAMPLES)
def test_the_examples_figures_are_what_the_program_computes(title):
    """C36"""
    summary = replay(EXAMPLES[title])
    figures = cells(EXAMPLES[title], "| figure |")
    assert [[name, figure(summary, name)] for name, _ in figures] == figures


def test_all_examples_are_found():
    assert len(EXAMPLES) == 4


def test_the_page_names_every_kind_and_rule():
    assert [row[0].strip("`") for row in cells(PAGE, "| kind |")] == list(SPAN_KINDS)
    assert sorted(row[0].strip("`") for row in cells(PAGE, "| rule |")) == sorted(RULES)
