"""Traces of steps."""

import gzip
import json
from pathlib import Path

import torch

from dawnrun.train.trace import Trace, read_steps


def run_steps(trace: Trace, numbers: range) -> None:
    for step in numbers:
        with trace.around(step), torch.profiler.record_function(f"step {step}"):
            torch.ones(8).sum()


def traced(folder: Path, name: str) -> set[str]:
    with gzip.open(folder / name, "rt") as file:
        events = json.load(file)["traceEvents"]
    return {event["name"] for event in events if str(event.get("name", "")).startswith("step ")}


def test_the_steps_asked_for_are_in_the_trace_and_no_others(tmp_path: Path) -> None:
    folder, said = tmp_path / "3", []
    folder.mkdir()
    trace = Trace((2, 4), folder, said.append)
    run_steps(trace, range(1, 7))
    trace.close()
    assert [path.name for path in folder.iterdir()] == ["trace-steps-2-4.json.gz"]
    assert traced(folder, "trace-steps-2-4.json.gz") == {"step 2", "step 3", "step 4"}
    (text,) = said
    assert text.startswith("profiled: steps 2 to 4 were traced") and "logs/3/trace-steps-2-4.json.gz" in text


def test_a_run_that_ends_earlier_or_begins_later_traces_what_there_is(tmp_path: Path) -> None:
    said: list[str] = []
    trace = Trace((2, 9), tmp_path, said.append)
    run_steps(trace, range(4, 6))
    trace.close()
    assert traced(tmp_path, "trace-steps-4-5.json.gz") == {"step 4", "step 5"}
    assert said[0].startswith("profiled: steps 4 to 5")


def test_a_run_that_has_none_of_them_says_so(tmp_path: Path) -> None:
    said: list[str] = []
    trace = Trace((20, 29), tmp_path, said.append)
    run_steps(trace, range(1, 4))
    trace.close()
    assert said == ["no step of --profile 20:29 was trained, so there is no trace"]
    assert not list(tmp_path.iterdir())


def test_what_was_asked_for_is_read_from_the_attempt(tmp_path: Path) -> None:
    assert read_steps(tmp_path / "profile.json") is None
    (tmp_path / "profile.json").write_text('{"first_step": 3, "last_step": 5}')
    assert read_steps(tmp_path / "profile.json") == (3, 5)
