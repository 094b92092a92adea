"""Two hosts for a session of tests, and a workplace in a folder that they share."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from testbed_hosts import Hosts, why_not
from testbed_place import REAL, Place, Undisturbed
from testbed_slurm import Slurm
from testbed_slurm import why_not as why_no_slurm
from worker_runs import tiny_data


@pytest.fixture(scope="session")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    if reason := why_not():
        pytest.skip(reason)
    with contextlib.ExitStack() as stack:
        folder = tmp_path_factory.mktemp("hosts")
        hosts = Hosts(folder, own_folders={2: [folder / "own"]})
        stack.callback(hosts.down)
        yield hosts


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_data(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def place(tmp_path: Path, hosts: Hosts) -> Iterator[Place]:
    hosts.boot()
    place = Place(tmp_path, hosts)
    yield place
    place.close()


@pytest.fixture(scope="session")
def cluster(hosts: Hosts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    if reason := why_no_slurm():
        pytest.skip(reason)
    hosts.boot()
    with contextlib.ExitStack() as stack:
        slurm = Slurm(hosts, tmp_path_factory.mktemp("slurm"))
        stack.callback(slurm.down)
        yield slurm


@pytest.fixture
def slurm(cluster: Slurm, place: Place) -> Iterator[Slurm]:
    place.env |= cluster.env
    yield cluster
    cluster.clear()


@pytest.fixture(scope="session")
def undisturbed(hosts: Hosts, tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """The real trainer over ssh from its start to its end: what every disturbed run has to end with."""
    hosts.boot()
    place = Place(tmp_path_factory.mktemp("undisturbed"), hosts)
    try:
        place.site(data_root=str(tiny))
        code, text = place.run(*REAL, fake=False)
        assert code == 0, text
        return Undisturbed(place.run_dir)
    finally:
        place.close()
