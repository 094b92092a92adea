"""`dawnrun train` on Kubernetes with a kubectl that keeps what it is given: what is printed is what is applied."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_runs import Cli
from worker_runs import worker_environment

SITE = """
launcher: {kubernetes: {image: "registry.example.org/dawnrun:0.1", claims: {/runs: runs}}}
nodes: 2
processes_per_node: 2
device: cuda
max_restarts: 2
data_root: /data
run_root: /runs
env: {A: "it's $HOME"}
"""
KUBECTL = """#!/bin/sh
[ "$1 $2" = "apply -f" ] || exit 9
cp "$3" applied.yaml
{ending}
"""


@pytest.fixture
def kubectl(cli: Cli):
    """Start the command with a kubectl that ends as it is told."""
    (cli.folder / "pods.yaml").write_text(SITE)

    def run(ending: str, *words: str) -> subprocess.CompletedProcess[str]:
        program = cli.folder / "bin" / "kubectl"
        program.parent.mkdir(exist_ok=True)
        program.write_text(KUBECTL.replace("{ending}", ending))
        program.chmod(0o755)
        environment = worker_environment() | {"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}
        command = [sys.executable, "-m", "dawnrun", "train", "--config", "tiny.yaml", "--site", "pods.yaml", *words]
        return subprocess.run(command, cwd=cli.folder, env=environment, capture_output=True, text=True, check=False)

    return run


def without_names(text: str, run: str) -> str:
    return text.replace(run, "RUN").replace(run.lower(), "RUN")


def test_what_is_printed_is_applied(cli: Cli, kubectl) -> None:
    printed = kubectl("exit 9", "--dry-run")
    assert printed.returncode == 0, printed.stderr
    assert not (cli.folder / "applied.yaml").exists()
    assert "# max_restarts is not used here" in printed.stdout
    body = printed.stdout.partition(".yaml:\n---")[2].partition("# end of ")[0]
    done = kubectl("echo job.batch/tiny created")
    assert done.returncode == 0, done.stderr
    assert "job.batch/tiny created" in done.stdout
    (file,) = cli.folder.glob("tiny-*.yaml")
    applied = (cli.folder / "applied.yaml").read_text()
    assert without_names(applied, file.stem) == without_names(f"---{body}", "tiny-DATE-TIME-ID")
    assert "it's $HOME" in applied


def test_refused_by_kubectl(cli: Cli, kubectl) -> None:
    """Its own words, the command and the file that was sent."""
    done = kubectl("echo 'error: the namespace \"default\" is not allowed' >&2; exit 1")
    assert done.returncode == 4
    (file,) = Path(cli.folder).glob("tiny-*.yaml")
    assert f"kubectl apply -f {file}: error: the namespace" in done.stderr
    assert "Traceback" not in done.stderr
