"""Settings that all tests share."""

from pathlib import Path

import pytest
from hypothesis import settings

# A loaded machine is no failure of the code under test.
settings.register_profile("dawnrun", deadline=None, max_examples=60)
settings.load_profile("dawnrun")


def pytest_collection_modifyitems(items):
    """Tests marked `gpu` are skipped by name where there is no accelerator."""
    if any(Path("/dev").glob("nvidia[0-9]*")) or Path("/dev/kfd").exists():
        return
    for item in items:
        if "gpu" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="no GPU here"))
