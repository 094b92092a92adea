"""A user's mistakes, as the command line answers them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def dawnrun(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "dawnrun", *words],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("train", "--config", "nowhere.yaml"), "nowhere.yaml: no such file"),
        (("train", "--config", "folder.yaml"), "folder.yaml: is a folder"),
        (("plan", "--config", "nowhere.yaml"), "nowhere.yaml: no such file"),
        (("trian",), "no such command: trian; did you mean train?"),
        (("train",), "missing option '--config'"),
        (("train", "--config", "x.yaml", "--sett", "a=1"), "--set"),
        (("report", "folder.yaml"), "folder.yaml: not a run directory"),
        (("report", "nowhere"), "nowhere: no such run directory"),
        (("resume", "folder.yaml"), "not a run directory"),
        (("validate", "folder.yaml"), "not a run directory"),
    ],
)
def test_one_line_on_standard_error(tmp_path, words, message):
    """C46."""
    (tmp_path / "folder.yaml").mkdir()
    done = dawnrun(tmp_path, *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.yaml"]


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_an_unreadable_recipe(tmp_path):
    """C46."""
    (tmp_path / "recipe.yaml").touch(mode=0)
    done = dawnrun(tmp_path, "train", "--config", "recipe.yaml")
    assert done.returncode == 2
    assert "recipe.yaml: cannot be read: Permission denied" in done.stderr
