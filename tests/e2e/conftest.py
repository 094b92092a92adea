"""A small data set shared by the end-to-end tests, and the command line in a fresh folder."""

from pathlib import Path

import pytest
from cli_runs import Cli
from worker_runs import tiny_data


@pytest.fixture(scope="session")
def data_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_data(tmp_path_factory.mktemp("data"))


@pytest.fixture
def cli(tmp_path: Path, data_root: Path) -> Cli:
    return Cli(tmp_path, data_root)
