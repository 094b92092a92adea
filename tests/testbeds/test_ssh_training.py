"""The real trainer over two hosts by ssh: to its end, and through the loss of a host with the same weights."""

import shutil
import signal
import subprocess
import sysconfig
import venv

import pytest
from cli_runs import steps_done, wait_for
from testbed_place import REAL

from dawnrun.launch.outcome import read_node


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


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_started_from_an_archive(place, tiny, undisturbed):
    """The environment is unpacked on each host before its agent starts, and found there the second time."""
    environment = place.folder / "environment"
    venv.create(environment, symlinks=True)
    packages = sysconfig.get_paths()["purelib"]
    (next(environment.glob("lib/python*/site-packages")) / "here.pth").write_text(f"{packages}\n")
    subprocess.run(["tar", "-C", environment, "-czf", place.folder / "env.tar.gz", "."], check=True)
    shutil.rmtree(environment)
    archive = {"environment_archive": str(place.folder / "env.tar.gz")}
    place.site(data_root=str(tiny), env={"TMPDIR": str(place.folder)}, **archive)
    code, text = place.run(*REAL, fake=False)
    assert code == 0, text
    assert "slowest imports " in text
    assert undisturbed.differences(place.run_dir) == []
    for node in range(2):
        log = (place.run_dir.logs / "1" / f"node-{node}.log").read_text()
        assert f"environment of {archive['environment_archive']} in " in log
        python = read_node(place.run_dir.attempt_dir(1), node)["command"][0]
        assert "dawnrun-environments-" in python


def test_an_archive_that_cannot_be_unpacked(place):
    """Told with its host and tar's own words, before anything is trained."""
    (place.folder / "env.tar.gz").write_bytes(b"\x1f\x8b no archive")
    process = place.train("finish", environment_archive=str(place.folder / "env.tar.gz"))
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 4, text
    assert "not started: " in text.splitlines()[-2] and "env.tar.gz: tar: " in text.splitlines()[-2], text
    assert place.processes() == {}
