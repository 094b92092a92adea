"""scripts/gpu_check.sh in its reduced form on the CPU, so that it cannot rot."""

import json
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "gpu_check.sh"


def test_reduced(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHON": sys.executable, "OMP_NUM_THREADS": "1", "DAWNRUN_CACHE": str(tmp_path)}
    environment["CUDA_VISIBLE_DEVICES"] = ""
    done = subprocess.run(
        [SCRIPT, "--reduced", "--out", tmp_path / "out"], env=environment, capture_output=True, text=True, timeout=110
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "out/gpu-check.json").read_text())
    assert list(found) == [
        "machine",
        "matrix product, FLOP/s",
        "step 32 px fp32 eager",
        "input 32 px",
        "input and step 32 px",
    ]
    assert not [part for part in found.values() if {"failed", "left_out"} & set(part)], found
    assert found["step 32 px fp32 eager"]["images_per_second"] > 0 and found["machine"]["decoder"] in ("dali", "vision")
    assert len((tmp_path / "out/gpu-check.txt").read_text().splitlines()) == len(found)
