"""What a run ran on."""

import os
import platform
import subprocess
from pathlib import Path

import pytest

from dawnrun.record import machine


def test_facts_of_this_machine():
    facts = machine.machine_facts()
    assert list(facts) == ["host", "cpu", "cores", "memory_bytes", "os", "python"]
    assert facts["python"] == platform.python_version()
    assert facts["cores"] == len(os.sched_getaffinity(0))
    assert facts["memory_bytes"] > 2**26
    assert facts["cpu"]
    assert facts["os"]


def test_cpu_model_is_the_kernels_word_for_it(tmp_path):
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: other\n")
    assert machine._cpu_model(tmp_path / "cpuinfo") == "Some CPU @ 2 GHz"


def test_without_the_kernels_word_the_architecture_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(machine.platform, "processor", lambda: "")
    assert machine._cpu_model(tmp_path / "missing") == platform.machine()


def test_systems_that_say_less(monkeypatch):
    def refuse(*_: object) -> int:
        raise OSError

    monkeypatch.setattr(machine.os, "sysconf", refuse)
    monkeypatch.setattr(machine.platform, "freedesktop_os_release", refuse)
    monkeypatch.delattr(machine.os, "sched_getaffinity")
    facts = machine.machine_facts()
    assert facts["memory_bytes"] is None
    assert facts["os"] == f"{platform.system()} {platform.release()}"
    assert facts["cores"] == os.cpu_count()


def test_versions_of_installed_packages():
    versions = machine.package_versions(["pytest", "no-such-package-here"])
    assert versions == {"pytest": pytest.__version__, "no-such-package-here": None}


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", folder, *identity, *arguments], check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path):
    git(tmp_path, "init", "-q")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    return tmp_path


def test_the_commit_of_a_checkout(checkout):
    commit = machine.git_commit(checkout / "package")
    assert commit is not None
    assert len(commit) == 40
    assert machine.git_commit(checkout / "package" / "__init__.py") == commit
    (checkout / "package" / "notes.txt").write_text("untracked files change nothing")
    assert machine.git_commit(checkout / "package") == commit
    (checkout / "package" / "__init__.py").write_text("x = 1")
    assert machine.git_commit(checkout / "package") == f"{commit}-dirty"


def test_a_checkout_that_does_not_track_the_package_says_nothing(checkout):
    (checkout / "venv" / "package").mkdir(parents=True)
    assert machine.git_commit(checkout / "venv" / "package") is None


def test_no_checkout_and_no_git(tmp_path, monkeypatch):
    assert machine.git_commit(tmp_path) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.git_commit(tmp_path) is None
