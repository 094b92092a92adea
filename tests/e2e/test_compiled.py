"""`compute.execution: compile` as a user runs it: two processes, sizes and accumulation that change, the same results as eager."""

import json
import shutil

import pytest
from cli_runs import Cli

RECIPE = """
name: shapes
input: {datasets: {full: tiny}, mixup_alpha: 0.3}
phases:
  - {epochs: 1, image_size: 32, global_batch_size: 32, per_device_batch_size: 4}
  - {epochs: 1, image_size: 48, global_batch_size: 8, per_device_batch_size: 4}
  - {epochs: 1, image_size: 32, global_batch_size: 8, per_device_batch_size: 4}
lr: [{epochs: [0, 3], start: 0.2, end: 0.01}]
model: {import: "my_networks:build"}
precision: fp32
"""
NETWORK = """
from torch import nn
def build(num_classes):
    body = nn.Conv2d(3, 16, 3, stride=2), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    return nn.Sequential(*body, nn.Linear(16, num_classes))
"""


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler on the CPU")
def test_compiled_runs_are_the_eager_ones(cli: Cli) -> None:
    (cli.folder / "shapes.yaml").write_text(RECIPE)
    (cli.folder / "my_networks.py").write_text(NETWORK)
    site = cli.site(2)
    losses = {}
    for execution in ("eager", "compile"):
        setting = f"compute.execution={execution}"
        done = cli.run("train", "--config", "shapes.yaml", "--site", site, "--set", setting, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        log = (cli.newest() / "events" / "1" / "trainer.jsonl").read_text().splitlines()
        events = [json.loads(line) for line in log]
        losses[execution] = [
            event["data"]["loss"] for event in events if event["kind"] in ("train.progress", "eval.finished")
        ]
    assert losses["compile"] == pytest.approx(losses["eager"], rel=1e-4)
    report = cli.run("report", str(cli.newest()))
    assert "fp32, compile" in report.stdout
