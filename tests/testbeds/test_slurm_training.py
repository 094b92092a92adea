"""The real trainer over two nodes of Slurm: preempted, requeued, and on to its end with the same weights."""

import json
import time

import pytest
from cli_runs import steps_done, trainer_events, wait_for
from testbed_place import REAL


@pytest.mark.timeout(240)
def test_preempted_requeued_and_finished(place, slurm, tiny, undisturbed):
    """C30, with the real workers: all ranks save at one step, and the next attempt of the job ends as if nothing had been."""
    place.slurm_site(data_root=str(tiny))
    process = place.start(*REAL, fake=False)
    run = wait_for(lambda: next((place.folder / "runs").glob("tiny-*"), None), what="the run")
    wait_for(lambda: steps_done(run, 1) >= 1, what="step 1")
    slurm.preempt()
    text, _ = process.communicate(timeout=60)
    print(text)
    assert process.returncode == 75, text
    assert "is back in the queue" in text
    (ended,) = trainer_events(run, 1, "run.finished")
    assert ended["data"]["reason"] == "preempted"
    told = json.loads((run / "attempts" / "1" / "outcome.json").read_text())
    assert told == {"reason": "preempted", "step": ended["data"]["step"]}
    wait_for(lambda: trainer_events(run, 2, "run.finished"), what="the end of the second attempt")
    (started,) = trainer_events(run, 2, "run.started")
    assert started["data"]["first_step"] == ended["data"]["step"] < 12
    wait_for(lambda: slurm.state(slurm.job_of(run)) == "COMPLETED", what="the end of the job")
    assert undisturbed.differences(place.run_dir, saved_elsewhere=True) == []
    assert place.processes() == {}


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_to_its_end(place, slurm, tiny, undisturbed):
    place.slurm_site(data_root=str(tiny))
    code, text = place.run(*REAL, fake=False)
    assert code == 0, text
    assert undisturbed.differences(place.run_dir) == []


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("harm", ["kill", "cut"])
def test_a_lost_node_ends_the_run(place, slurm, tiny, harm):
    """A host or link lost: 15 s beyond the smaller of SlurmdTimeout (15 s) and comm_timeout_s; the job waits for it."""
    place.slurm_site(data_root=str(tiny), comm_timeout_s=10)
    process = place.start(*REAL, "--set", "phases[0].epochs=200", fake=False)
    run = wait_for(lambda: next((place.folder / "runs").glob("tiny-*"), None), what="the run")
    wait_for(lambda: steps_done(run, 1) >= 3, what="step 3")
    job = slurm.job_of(run)
    began = time.monotonic()
    getattr(place.hosts, harm)(2)
    try:
        wait_for(lambda: not place.on_host(1, "dawnrun.train"), timeout_s=60, what="the end on node1")
        gone_s = time.monotonic() - began
        text, _ = process.communicate(timeout=120)
        print(
            f"MEASURED slurm {harm} {time.monotonic() - began:.1f} s until the command ended, {gone_s:.1f} s on node1"
        )
        assert process.returncode == 75, text
        assert f"job {job} is back in the queue" in text, f"{slurm.state(job)}: {text[-600:]}"
        assert gone_s < 25
    finally:
        slurm.ask("scancel", job)
        place.hosts.boot()
        if harm == "kill":
            slurm.start_node(2)
        wait_for(lambda: slurm.usable(), timeout_s=60, what="node2")
