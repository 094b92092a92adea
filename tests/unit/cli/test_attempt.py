"""How an attempt that failed is told."""

import socket
from pathlib import Path

import pytest

from dawnrun.cli.attempt import failure_error
from dawnrun.errors import DataError, LaunchError, NonFiniteLossError, TrainError, UsageError
from dawnrun.launch.outcome import Failure

KEPT = "kept: c/step-00000012; go on with: dawnrun resume r"


def failure(exit_code: int, message: str, **fields) -> Failure:
    values = {"rank": 0, "host": socket.gethostname(), "pid": 1, "time": 1.0, "error": "E", **fields}
    return Failure(exit_code=exit_code, message=message, **values)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    (tmp_path / "rank-000.log").write_text("loading\ntwo\nlines\n")
    (tmp_path / "rank-001.log").touch()
    return tmp_path


@pytest.mark.parametrize(("code", "kind"), [(2, UsageError), (3, DataError)])
def test_bad_data_and_usage_are_told_once_and_whole(logs, code, kind):
    error = failure_error([failure(code, "two\nlines"), failure(5, "lost", rank=1)], logs, "no checkpoint yet; go on")
    assert type(error) is kind
    assert str(error) == "two\nlines"


def test_after_the_start_it_is_not_said_that_nothing_was_started(logs):
    told = "my.yaml:3:8: model.import: mine has no build\n1 problem in my.yaml"
    assert str(failure_error([failure(2, f"{told}; nothing was started")], logs, "")) == told


def test_data_that_went_bad_later_can_be_mended(logs):
    assert str(failure_error([failure(3, "bad image")], logs, KEPT)) == f"bad image\n{KEPT}"


def test_another_host_is_named(logs):
    assert str(failure_error([failure(3, "no folder", host="node7")], logs, "")) == "node7: no folder"


@pytest.mark.parametrize(("code", "kind"), [(1, TrainError), (4, LaunchError), (5, TrainError), (77, TrainError)])
def test_other_failures_come_with_the_log_and_how_to_go_on(logs, code, kind):
    error = failure_error([failure(code, "bad"), failure(5, "lost", rank=1)], logs, KEPT)
    assert type(error) is kind
    first, *_, consequence, cause, kept = str(error).splitlines()
    assert first == f"the run failed; the last lines of {logs}/rank-000.log:"
    assert "    loading" in str(error)
    assert consequence.startswith("in consequence: rank 1 on ")
    assert cause == f"cause: rank 0 on {socket.gethostname()}: E: bad"
    assert kept == KEPT


def test_an_empty_log_is_called_so(logs):
    text = str(failure_error([failure(5, "bad", rank=1)], logs, KEPT))
    assert text.startswith(f"the run failed; nothing was printed into {logs}/rank-001.log\ncause: ")


def test_divergence_is_not_to_be_resumed(logs):
    error = failure_error([failure(5, "the loss was not finite", error="NonFiniteLossError")], logs, KEPT)
    assert type(error) is NonFiniteLossError
    assert "dawnrun resume" not in str(error)
    assert str(error).splitlines()[-1].startswith("resumed as it is, the run would meet this again: start it anew")
    assert str(error).endswith("; kept: c/step-00000012")
