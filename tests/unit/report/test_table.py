"""The report on a terminal."""

import io
from dataclasses import replace

import pytest
from report_samples import sample, sample_attempt
from rich.console import Console

from dawnrun.report.table import terminal_report

HOSTILE = "x\x1b[31m[bold]<b>\r\n\u202e\x07:smile:"


def shown(summaries, width=80, **options) -> str:
    out = Console(width=width, file=io.StringIO(), highlight=False, emoji=False, **options)
    out.print(terminal_report(summaries, width=width))
    return out.file.getvalue()


def test_headline_clocks_and_epochs():
    """C36, C37: four clocks with their parts, the first crossing, one row an epoch."""
    said = shown([sample()])
    assert said.splitlines()[0].startswith("sample: target reached: top-5 of 93 % in epoch 2")
    assert said.splitlines()[-1] == said.splitlines()[0]
    times = next(line.split() for line in said.splitlines() if "time to target" in line)
    assert times[3:] == ["0:12:00", "0:12:20", "0:12:00", "0:12:20"]
    assert "validation - 20.0 s - 20.0 s" in " ".join(said.split())
    assert "78.34 USD (391.68 USD/h for 16 nodes)" in said
    assert "epochs 1-4: 128 px centre crop of 146 px; 50,000 images, 8 processes" in " ".join(said.split())
    assert "3 224 1,792 0.1667 2.3333 - 72.80 92.80 0.3000 1,234.5" in " ".join(said.split())
    assert "2 3-4 224 1,792 14 x 1 200 2,500.0 7.20 s" in " ".join(said.split())
    assert "published run, some of its settings are not" in said


def test_not_reached_has_no_time():
    """C37."""
    said = shown([sample((90, 92.81))])
    assert "target not reached: top-5 of 93 %; best top-5 92.81 % in epoch 2 (0.19" in said
    times = next(line for line in said.splitlines() if "time to target" in line)
    assert times.count("not reached") == 4
    assert "no cost to the target" in said


def test_remarks_and_attempts():
    """C19: what the record remarks is shown."""
    attempts = (sample_attempt(1, 150), sample_attempt(2, 400, lost_steps=50, idle_s=30.0))
    said = shown([sample(remarks=("not the full ILSVRC2012 set",), attempts=attempts)])
    assert "note: not the full ILSVRC2012 set" in said
    assert "2 attempts, 50 steps lost and redone, 30.0 s between them" in said


@pytest.mark.parametrize("width", [80, 120])
def test_fits_the_width_without_control_characters(width):
    """C44: nothing but printable text, no line wider than the terminal, whatever the names."""
    runs = [sample(name=HOSTILE, path=HOSTILE, remarks=(HOSTILE,))] * 5
    for said in (shown(runs[:1], width), shown(runs, width)):
        assert all(len(line) <= width for line in said.splitlines())
        assert all(char.isprintable() or char == "\n" for char in said)
        # Headline, path and a note twice, or a column and a note a run: none is taken for markup.
        assert "".join(said.split()).count("[31m[bold]<b>") >= 5


def test_runs_side_by_side():
    said = shown([sample(path="runs/first"), sample((90, 91), path="runs/second")])
    head = next(line for line in said.splitlines() if line.split()[:1] == ["run"])
    assert head.split() == ["run", "first", "second"]
    line = next(line for line in said.splitlines() if "time, dawnbench" in line)
    assert line.split()[2:] == ["0:12:00", "-"]


def test_many_runs_are_stacked():
    said = shown([sample(path=f"runs/run{i}") for i in range(7)])
    assert all(f"run{i}" in said for i in range(7))
    assert said.count("time, dawnbench") == 3


def test_a_live_run_says_so():
    said = shown([sample((90,), status="running", reason="", total_epochs=9)])
    assert "still running, 1 of 9 epochs done: figures are those so far" in said


def test_a_log_that_is_not_what_was_sealed_comes_before_any_figure():
    doubted = sample(seal_faults=("the event log is not what was sealed: x",), remarks=("another",))
    single = shown([doubted]).splitlines()
    assert single[1] == "sample: the event log is not what was sealed: x"
    assert shown([sample(), doubted]).splitlines()[0] == "sample: the event log is not what was sealed: x"


def test_accuracy_on_training_images_stands_apart_from_validation():
    """Within 80 columns, with every figure whole."""
    epochs = tuple(replace(row, train_top1=51.239) for row in sample().epochs)
    lines = shown([sample(epochs=epochs)]).splitlines()
    (heads,) = (number for number, line in enumerate(lines) if line.split()[:3] == ["epoch", "px", "batch"])
    assert lines[heads - 1].strip() == "train" and len(lines[heads]) <= 80
    assert "3 224 1,792 0.1667 2.3333 51.23 72.80 92.80 0.3000 1,234.5" in " ".join(" ".join(lines).split())
