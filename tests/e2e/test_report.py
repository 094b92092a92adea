"""`dawnrun report` as a user starts it."""

import subprocess
import sys

import pytest
from record_factory import make_run


@pytest.fixture
def run_path(tmp_path):
    return make_run(tmp_path).path


SEEN = """
import sys
from dawnrun.cli.main import run
code = run(["report", sys.argv[1], "--format", sys.argv[2]])
heavy = {"torch", "numpy", "matplotlib", "jinja2", "pydantic", "PIL", "ruamel"} & set(sys.modules)
assert not heavy, heavy
sys.exit(code)
"""


@pytest.mark.parametrize("form", ["table", "json"])
def test_a_table_imports_nothing_heavy(run_path, form):
    """Start-up budget: neither torch nor numpy, matplotlib, jinja2 or pydantic."""
    done = subprocess.run(
        [sys.executable, "-c", SEEN, str(run_path), form], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_no_display_and_an_interactive_backend(run_path, monkeypatch):
    """C40: MPLBACKEND=TkAgg without a display; all files appear, exit 0."""
    monkeypatch.setenv("MPLBACKEND", "TkAgg")
    monkeypatch.delenv("DISPLAY", raising=False)
    command = [sys.executable, "-W", "error", "-m", "dawnrun", "report", str(run_path), "--html"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (
        done.returncode,
        done.stderr.replace("note: DAWNBench's files are written with --author and --email\n", ""),
    ) == (0, "")
    page = (run_path / "report" / "report.html").read_text()
    assert page.count("data:image/svg+xml;base64,") == 6
