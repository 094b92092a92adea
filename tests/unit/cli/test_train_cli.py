"""Choices of `dawnrun train` and `resume` that need no process."""

from pathlib import Path

import pytest
from record_factory import make_run

from dawnrun.cli.train import site_of
from dawnrun.record.rundir import RunDir


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    made = make_run(tmp_path / "run")
    made.site_yaml.write_text("name: first\ndata_root: /data/first\n")
    return made


def test_a_run_goes_on_with_its_own_site(run):
    assert site_of(run, None).name == "first"


@pytest.mark.parametrize(("text", "root"), [("name: b", "/data/first"), ("{name: b, data_root: own}", "own")])
def test_another_site_keeps_the_data_unless_it_states_them(run, tmp_path, text, root):
    (tmp_path / "b.yaml").write_text(text)
    site = site_of(run, str(tmp_path / "b.yaml"))
    assert (site.name, str(site.data_root)) == ("b", root)
