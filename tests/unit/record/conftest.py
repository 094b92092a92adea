"""The tests of the record write thousands of small files; that they reach the disk is tested once, in test_events.py."""

import os

import pytest


@pytest.fixture(scope="session", autouse=True)
def no_sync():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda fd: None)
        yield
