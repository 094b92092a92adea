"""Warm-up in whole workers: the run is the same, and its start says what it took."""

from pathlib import Path

import torch
from worker_runs import events, make_run, newest_weights, start, tiny_data


def test_two_processes_end_in_the_same_weights_with_and_without(tmp_path: Path) -> None:
    """DDP makes its buckets anew in the warm-up, or after the first step; neither is seen in the weights."""
    data, runs = tiny_data(tmp_path), []
    for asked in ("true", "false"):
        run = make_run(
            data,
            ("phases[0].epochs=1", f"compute.warm_up={asked}", "average={half_life_steps: 2}"),
            processes=2,
        )
        attempt, code = start(run, 2)
        assert code == 0
        assert ("warm_up_s" in events(run, attempt, "startup")[0]) is (asked == "true")
        runs.append(run)
    with_, without = map(newest_weights, runs)
    for name, value in with_.items():
        assert torch.equal(value, without[name]), name
    losses = [[window["loss"] for window in events(run, 1, "train.progress")] for run in runs]
    assert losses[0] == losses[1]
