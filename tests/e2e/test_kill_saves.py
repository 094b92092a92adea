"""Kill -9 at any instant of a save: there is always a whole checkpoint, and never a wrong one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from worker_runs import worker_environment

HARNESS = Path(__file__).parents[1] / "kill_saves.py"


def killed(folder: Path, rounds: int, seed: int) -> dict[str, int]:
    done = subprocess.run(
        [sys.executable, HARNESS, folder, str(rounds), str(seed)],
        env=worker_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result: dict[str, int] = json.loads(done.stdout)
    assert result["rounds"] == rounds
    return result


def test_twenty_kills(tmp_path: Path) -> None:
    killed(tmp_path / "checkpoints", 20, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_hundred_kills(tmp_path: Path) -> None:
    result = killed(tmp_path / "checkpoints", 200, seed=2)
    assert result["left"], "some kills must have come in the middle of a save"
