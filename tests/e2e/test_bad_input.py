"""A user's mistakes, as the command line answers them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from worker_runs import TINY, tiny_data

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


def test_data_that_a_check_found_bad_are_refused_at_once_with_the_files(tmp_path, monkeypatch):
    """C12: the image has a whole header, so that without the check the run would begin and meet it in some epoch."""
    monkeypatch.setenv("DAWNRUN_CACHE", str(tmp_path / "cache"))
    tiny_data(tmp_path / "data")
    bad = next((tmp_path / "data/tiny/train").rglob("*.jpg"))
    bad.write_bytes(bad.read_bytes()[:-200])
    (tmp_path / "tiny.yaml").write_text(TINY)
    assert dawnrun(tmp_path, "data", "check", "data/tiny").returncode == 3
    done = dawnrun(tmp_path, "train", "--config", "tiny.yaml")
    assert done.returncode == 3 and not any(tmp_path.glob("runs/*")), done.stdout + done.stderr
    assert "1 unreadable image, 0 allowed, found by `dawnrun data check` on" in done.stderr
    assert f"{bad} (class {bad.parent.name}): image file is truncated" in done.stderr
