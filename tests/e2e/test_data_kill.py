"""Commands that make data sets, killed and given again."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image

COMMAND = [sys.executable, "-m", "dawnrun", "data"]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kill") / "set"
    for split in ("train", "val"):
        for name in ("a", "b"):
            (folder / split / name).mkdir(parents=True)
            for number in range(60):
                Image.effect_noise((500 + number, 400), 60).save(folder / split / name / f"{number}.jpg")
    return folder


def killed(arguments: list[str], folder: Path, num_files: int = 20) -> None:
    """Start a command and kill it, without warning, when it has made some files; all it started must end too."""
    process = subprocess.Popen([*COMMAND, *arguments], start_new_session=True, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while sum(1 for path in folder.rglob("*") if path.is_file()) < num_files:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    while time.monotonic() < deadline:
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    raise AssertionError("processes outlived the command")


def test_resize(source: Path, tmp_path: Path) -> None:
    """Several processes; killed, nothing stays behind; continued, the copy is that of an undisturbed run."""
    arguments = ["resize", str(source), "--short-side", "300", "--processes", "2"]
    subprocess.run([*COMMAND, *arguments, str(tmp_path / "whole")], check=True, capture_output=True)
    killed([*arguments, str(tmp_path / "killed")], tmp_path / "killed")
    assert not (tmp_path / "killed" / "train").exists()
    subprocess.run([*COMMAND, *arguments, str(tmp_path / "killed")], check=True, capture_output=True)
    assert files(tmp_path / "killed") == files(tmp_path / "whole")


def test_pack(source: Path, tmp_path: Path) -> None:
    """C17: no partial shard under a final name; continued, shards and index are those of an undisturbed run."""
    arguments = ["pack", str(source), "--shard-mib", "1"]
    subprocess.run([*COMMAND, *arguments, str(tmp_path / "whole")], check=True, capture_output=True)
    whole = files(tmp_path / "whole")
    killed([*arguments, str(tmp_path / "killed")], tmp_path / "killed", num_files=3)
    assert [path.name for path in (tmp_path / "killed").iterdir()] == [".unfinished"]
    for path in (tmp_path / "killed" / ".unfinished").glob("*.tar"):
        assert path.read_bytes() == whole[path.name]
    subprocess.run([*COMMAND, *arguments, str(tmp_path / "killed")], check=True, capture_output=True)
    assert files(tmp_path / "killed") == whole
