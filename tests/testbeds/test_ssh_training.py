"""The real trainer over two hosts by ssh: to its end, and through the loss of a host with the same weights."""

import signal

import pytest
from cli_runs import steps_done, wait_for
from testbed_place import REAL


@pytest.mark.timeout(240)
def test_a_host_lost_and_resumed(place, tiny, undisturbed):
    """The undisturbed run and the one that lost a host after a checkpoint end with the same weights."""
    place.site(data_root=str(tiny))
    process = place.start(*REAL, fake=False)
    run = wait_for(lambda: next((place.folder / "runs").glob("tiny-*"), None), what="the run")
    wait_for(lambda: steps_done(run, 1) >= 3, what="step 3")
    place.hosts.kill(2)
    text, _ = process.communicate(timeout=60)
    print(text)
    assert process.returncode == 5, text
    assert "cause: host node2: lost: nothing heard from it for 10 s" in text.splitlines()[-2]
    assert place.processes() == {}
    place.hosts.boot()
    code, text = place.run("resume", str(run), fake=False)
    assert code == 0, text
    assert undisturbed.differences(place.run_dir) == []


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_stopped_and_resumed(place, tiny):
    """A termination signal: all ranks save at one step; resume goes on from it."""
    place.site(data_root=str(tiny))
    process = place.start(*REAL, "--set", "phases[0].epochs=40", fake=False)
    run = wait_for(lambda: next((place.folder / "runs").glob("tiny-*"), None), what="the run")
    wait_for(lambda: steps_done(run, 1) >= 3, what="step 3")
    process.send_signal(signal.SIGTERM)
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 75, text
    assert place.processes() == {}
    assert "dawnrun resume" in text.splitlines()[-1]
