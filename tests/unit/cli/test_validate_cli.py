"""`dawnrun validate`, without the worker."""

import json

import pytest
from record_factory import make_run

from dawnrun.cli import validate
from dawnrun.cli.main import run
from dawnrun.errors import ExitCode

FOUND = {
    "step": 40, "epoch": 2, "num_images": 1000, "top1_correct": 600, "top5_correct": 940, "loss": 1.5, "valid": True,
    "eval_s": 2.0, "num_classes": 30, "num_processes": 1, "image_size": 64, "resize_px": 72,
}  # fmt: skip


@pytest.mark.parametrize("size", ["0", "4097", "100000"])
def test_an_absurd_size_is_refused_with_its_range(tmp_path, capsys, size):
    assert run(["validate", str(make_run(tmp_path).path), "--image-size", size]) == 2
    assert "1<=x<=4096" in capsys.readouterr().err


def test_json_and_table_count_epochs_alike(monkeypatch, tmp_path, capsys):
    """Events count epochs from 0, everything that is shown from 1."""
    monkeypatch.setattr(validate, "measure", lambda *_, **__: (ExitCode.OK, json.dumps(FOUND)))
    monkeypatch.setattr(validate, "check_data", lambda _: None)
    path = make_run(tmp_path)
    path.resolved_yaml.write_text(
        "name: toy\nphases: [{epochs: 4, image_size: 64, global_batch_size: 8, per_device_batch_size: 8}]\nlr: 0.1\n"
    )
    path.site_yaml.write_text("device: cpu\nprocesses_per_node: 1\n")
    assert run(["validate", str(path.path), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["step"], found["epoch"]) == (40, 3)
    assert run(["validate", str(path.path)]) == 0
    assert "40, 3" in capsys.readouterr().out
