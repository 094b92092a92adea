"""How many images are validated changes MLPerf's time and not DAWNBench's: real runs, on clocks of CPU-seconds."""

import subprocess
import sys
from pathlib import Path

import pytest
from worker_runs import make_run, tiny_data, worker_environment

from dawnrun.record.rundir import RunDir
from dawnrun.record.summary import Crossing, summarize

# Every clock of the trainer reads the CPU-seconds of its process: a busy machine does not change them.
TRAIN = (
    "import runpy, sys, time\n"
    "time.perf_counter = time.process_time\n"
    "sys.argv = ['dawnrun.train', *sys.argv[1:]]\n"
    "runpy.run_module('dawnrun.train', run_name='__main__')\n"
)
LONG = (
    "phases[0].epochs=1",
    "phases[0].global_batch_size=10",
    "phases[0].per_device_batch_size=10",
    "input.decoder=vision",
    "target.top5=0.1",
    "log_every_steps=5",
)


def crossing(folder: Path, val_per_class: int) -> Crossing:
    folder.mkdir()
    data = tiny_data(folder, train_per_class=30, val_per_class=val_per_class)
    run: RunDir = make_run(data, LONG)
    words = [sys.executable, "-c", TRAIN, str(run.path), "--attempt", str(run.new_attempt())]
    done = subprocess.run(words, env=worker_environment(), timeout=200, check=False)
    assert done.returncode == 0, (run.logs / "1/rank-000.log").read_text()
    found = summarize(run).crossing()
    assert found is not None
    return found


@pytest.mark.slow
@pytest.mark.timeout(420)
def test_thirty_images_and_two_thousand(tmp_path: Path) -> None:
    few, many = crossing(tmp_path / "few", 1), crossing(tmp_path / "many", 67)
    seconds = {rule: (few.time_to_accuracy_s(rule), many.time_to_accuracy_s(rule)) for rule in ("dawnbench", "mlperf")}
    print(seconds)
    assert seconds["dawnbench"][1] == pytest.approx(seconds["dawnbench"][0], rel=0.1)
    assert seconds["mlperf"][1] > 1.2 * seconds["mlperf"][0]
