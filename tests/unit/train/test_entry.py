"""The first lines of a worker, before torch is there."""

import os
import subprocess
import sys

import pytest

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
