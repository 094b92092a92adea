"""Evaluators on a machine of their own: a second host that validates what the first one trains."""

import json

import pytest
from cli_runs import trainer_events, wait_for
from testbed_place import REAL

BESIDE = {"nodes": 1, "evaluators": 1, "evaluator_node": True}


def results(run):
    return trainer_events(run, 1, "eval.finished")


def started(place):
    process = place.start(*REAL, "--set", "phases[0].epochs=4", fake=False)
    return process, wait_for(lambda: next((place.folder / "runs").glob("tiny-*"), None), what="the run")


@pytest.mark.timeout(150)
def test_over_ssh(place, tiny):
    """The training has the first host to itself; nothing is left on either."""
    place.site(data_root=str(tiny), **BESIDE)
    process, run = started(place)
    text, _ = process.communicate(timeout=120)
    assert process.returncode == 0, text
    assert [event["data"]["by"] for event in results(run)] == ["evaluators"] * 4
    parts = [json.loads(line) for line in (run / "events" / "1" / "evaluator-000.jsonl").read_text().splitlines()]
    assert [part["data"]["num_images"] for part in parts] == [30] * 4
    assert (run / "logs" / "1" / "evaluator-000.log").exists()
    assert place.processes() == {}


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_the_loss_of_the_evaluators_host_is_survived(place, tiny):
    place.site(data_root=str(tiny), **BESIDE)
    process, run = started(place)
    wait_for(lambda: results(run), what="a result")
    place.hosts.kill(2)
    text, _ = process.communicate(timeout=180)
    print(text)
    assert process.returncode == 0, text
    assert "node2, which has the evaluators, is lost" in text
    assert [event["data"]["epoch"] for event in results(run)] == [0, 1, 2, 3]
    assert place.processes() == {}


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_under_slurm(place, slurm, tiny):
    place.slurm_site(data_root=str(tiny), **BESIDE)
    process, run = started(place)
    text, _ = process.communicate(timeout=180)
    assert process.returncode == 0, text
    assert [event["data"]["by"] for event in results(run)] == ["evaluators"] * 4
    assert slurm.state(slurm.job_of(run)) == "COMPLETED"
    assert place.processes() == {}
