"""The first lines of a worker, before torch is there."""

import os
import subprocess
import sys
from typing import Any

import pytest

from dawnrun.recipe.launchers import Launcher, Ssh
from dawnrun.recipe.schema import Site
from dawnrun.train.entry import seat

SHOW = (
    "import sys, types, runpy, os\n"
    "worker = types.ModuleType('dawnrun.train.worker')\n"
    "worker.main = lambda *, began: print(os.environ['OMP_WAIT_POLICY'], 'torch' in sys.modules)\n"
    "sys.modules['dawnrun.train.worker'] = worker\n"
    "runpy.run_module('dawnrun.train', run_name='__main__')\n"
)


@pytest.mark.parametrize("given", [None, "ACTIVE"])
def test_waiting_threads_sleep_unless_the_environment_says_otherwise(given):
    env = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    env |= {} if given is None else {"OMP_WAIT_POLICY": given}
    done = subprocess.run(
        [sys.executable, "-c", SHOW], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == f"{given or 'PASSIVE'} False\n", done.stderr


@pytest.mark.parametrize(
    ("site", "environment", "evaluator", "expected"),
    [
        ({}, {}, None, (0, 1)),
        ({"processes_per_node": 2}, {"LOCAL_RANK": "1", "GROUP_RANK": "0"}, None, (1, 2)),
        ({"processes_per_node": 2, "evaluators": 1}, {"LOCAL_RANK": "1", "GROUP_RANK": "0"}, None, (1, 3)),
        ({"processes_per_node": 2, "evaluators": 2}, {}, 1, (3, 4)),
        ({"nodes": 2, "processes_per_node": 2, "evaluators": 1}, {"LOCAL_RANK": "0", "GROUP_RANK": "1"}, None, (0, 2)),
    ],
)
def test_places_on_a_machine(
    site: dict[str, Any], environment: dict[str, str], evaluator: int | None, expected: tuple[int, int]
) -> None:
    """Every process of the run on a machine has a place of its own: ranks first, then evaluators, where they are."""
    site = Site(**{"processes_per_node": 1, "device": "cpu", **site})
    assert seat(site, environment, evaluator=evaluator) == expected


def test_places_on_a_machine_of_the_evaluators() -> None:
    launcher = Launcher(ssh=Ssh(hosts=("a", "b")))
    site = Site(launcher=launcher, nodes=1, processes_per_node=4, evaluators=2, evaluator_node=True, device="cpu")
    assert seat(site, {"LOCAL_RANK": "3"}, evaluator=None) == (3, 4)
    assert seat(site, {}, evaluator=1) == (1, 2)
    assert site.machines == 2
