"""Two hosts for a session of tests, and a workplace in a folder that they share."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from testbed_hosts import Hosts, why_not
from testbed_place import Place
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
