"""Whose failure came first, from the files that processes leave behind."""

import json
import os
import socket
import time

import pytest

from dawnrun.launch.outcome import find_failures, is_running, last_lines, newest_checkpoint, read_failures
from dawnrun.launch.processes import start_ticks

AGENT_LOG = """
fake.py FAILED
Failures:
[1]:
  time      : 2026-11-30_20:00:00
  host      : vm
  rank      : 0 (local_rank: 0)
  exitcode  : {first} (pid: 100)
  error_file: <N/A>
Root Cause (first observed failure):
[0]:
  time      : 2026-11-30_20:00:00
  host      : vm
  rank      : 1 (local_rank: 1)
  exitcode  : {second} (pid: 101)
  error_file: <N/A>
"""


@pytest.fixture
def job(tmp_path):
    """Folder and logs of a job, with functions to fill them."""

    class Files:
        folder, logs = tmp_path / "attempt", tmp_path / "logs"

        def failure(self, rank, moment, **fields):
            values = {"rank": rank, "host": "h", "pid": 1, "time": moment, "error": "E", "message": "m", **fields}
            (self.folder / f"failure-rank-{rank:03d}.json").write_text(json.dumps(values))

        def node(self, **fields):
            (self.folder / "node-0.json").write_text(json.dumps({"host": "vm", "ended": True, **fields}))

        def agent(self, first, second):
            (self.logs / "node-0.log").write_text(AGENT_LOG.format(first=first, second=second))

        def find(self):
            return find_failures(self.folder, self.logs)

    files = Files()
    files.folder.mkdir()
    files.logs.mkdir()
    return files


def test_the_earliest_is_the_cause(job):
    """C27."""
    job.failure(0, 20.0, error="RuntimeError", message="Connection reset by peer")
    job.failure(3, 10.0, error="ValueError", message="bad\nmore", step=7, exit_code=3)
    job.agent(1, 1)
    cause, consequence = job.find()
    assert str(cause) == "rank 3 on h at step 7: ValueError: bad"
    assert cause.exit_code == 3
    assert consequence.rank == 0


def test_time_may_be_text(job):
    job.failure(0, "2026-11-30T20:00:01+00:00")
    job.failure(1, "2026-11-30T20:00:00+00:00")
    assert [failure.rank for failure in read_failures(job.folder)] == [1, 0]


def test_a_report_cut_short_still_names_its_rank(job):
    (job.folder / "failure-rank-002.json").write_text('{"rank": 2, "ho')
    (failure,) = job.find()
    assert failure.rank == 2
    assert "cut short" in str(failure)


def test_a_killed_rank_comes_before_what_it_caused(job):
    job.failure(0, 20.0, error="RuntimeError", message="Connection reset by peer")
    job.agent(1, -9)
    cause, consequence = job.find()
    assert (cause.rank, cause.error, cause.pid) == (1, "SIGKILL", 101)
    assert "memory" in cause.message
    assert consequence.rank == 0


@pytest.mark.parametrize("signal", [-15, -6])
def test_a_signal_that_others_cause_is_no_cause(job, signal):
    job.failure(0, 20.0, error="ValueError")
    job.agent(1, signal)
    assert [failure.error for failure in job.find()] == ["ValueError"]


def test_the_only_process_was_killed(job):
    job.node(signal="SIGSEGV", exit_code=None)
    (failure,) = job.find()
    assert str(failure) == "rank 0 on vm: SIGSEGV: ended by signal 11"
    assert failure.exit_code == 5


@pytest.mark.parametrize(("code", "expected"), [(1, 5), (3, 3), (2, 2), (77, 5)])
def test_a_process_that_said_nothing(job, code, expected):
    job.node(exit_code=code)
    (failure,) = job.find()
    assert failure.exit_code == expected
    assert f"exit code {code}" in failure.message


@pytest.mark.parametrize("code", [0, 6, 75, 130])
def test_orderly_ends_are_no_failures(job, code):
    job.node(exit_code=code)
    assert job.find() == []


def test_the_agent_itself_failed(job):
    (job.logs / "node-0.log").write_text("ImportError: no module named torch\n")
    job.node(exit_code=1)
    (failure,) = job.find()
    assert failure.exit_code == 5


def test_last_lines(tmp_path):
    log = tmp_path / "log"
    assert last_lines(log) == ()
    log.write_text("\n".join(f"line {i}" for i in range(100_000)) + "\n\n 10 %\r 20 %\n")
    assert last_lines(log, 3) == ["line 99998", "line 99999", " 20 %"]
    log.write_bytes(b"\xff\xfe bad bytes\n")
    assert len(last_lines(log)) == 1


def test_an_attempt_runs_while_its_guard_does(job):
    log = job.folder / "trainer.jsonl"
    assert not is_running(job.folder, log)
    me = {"host": socket.gethostname(), "pid": os.getpid(), "ended": False}
    job.node(**me, start_ticks=start_ticks(os.getpid()))
    assert is_running(job.folder, log)
    job.node(**me, start_ticks=1)  # the pid was given to another process since
    assert not is_running(job.folder, log)
    job.node(**{**me, "ended": True}, start_ticks=start_ticks(os.getpid()))
    assert not is_running(job.folder, log)


def test_an_attempt_of_another_host_runs_while_its_log_grows(job):
    log = job.folder / "trainer.jsonl"
    log.touch()
    job.node(host="elsewhere", pid=1, start_ticks=1, ended=False)
    assert is_running(job.folder, log)
    os.utime(log, (time.time() - 120, time.time() - 120))
    assert not is_running(job.folder, log)


def test_newest_checkpoint(tmp_path):
    assert newest_checkpoint(tmp_path / "none") is None
    for name in ("step-00000002", "step-00000010", ".step-00000020.new", "step-00000030.aside"):
        (tmp_path / name).mkdir()
    (tmp_path / "step-00000040").touch()
    assert newest_checkpoint(tmp_path) == tmp_path / "step-00000010"
    assert newest_checkpoint(tmp_path, but=tmp_path / "step-00000010") == tmp_path / "step-00000002"


def test_a_lost_host_comes_before_what_it_caused(job):
    """C27: its workers could say nothing; the others' broken connections are consequences."""
    job.failure(0, 20.0, error="TrainError", message="connection reset by peer")
    (job.folder / "lost-node-1.json").write_text('{"host": "node2", "time": 15.0, "message": "nothing heard"}')
    cause, consequence = job.find()
    assert str(cause) == "host node2: lost: nothing heard"
    assert consequence.rank == 0


def test_a_host_lost_after_the_failure_is_not_its_cause(job):
    job.failure(3, 10.0, error="ValueError", message="bad")
    (job.folder / "lost-node-1.json").write_text('{"host": "node2", "time": 15.0, "message": "nothing heard"}')
    assert [failure.rank for failure in job.find()] == [3, None]


def test_an_agent_that_was_killed_on_the_second_node(job):
    job.failure(0, 20.0, error="TrainError", message="connection reset by peer")
    job.node(reason="exited", exit_code=1)
    (job.logs / "node-0.log").write_text("RendezvousConnectionError")
    record = {"host": "node2", "ended": True, "reason": "signalled", "signal": "SIGKILL", "exit_code": None}
    (job.folder / "node-1.json").write_text(json.dumps(record))
    (job.logs / "node-1.log").write_text("")
    cause, _ = job.find()
    assert str(cause).startswith("host node2: SIGKILL: the agent was ended by signal 9")
    assert cause.log == job.logs / "node-1.log"


def test_an_agent_that_the_guard_ended_is_no_failure(job):
    record = {"host": "node2", "ended": True, "reason": "interrupted", "signal": "SIGKILL", "exit_code": None}
    (job.folder / "node-1.json").write_text(json.dumps(record))
    (job.logs / "node-1.log").write_text("")
    assert job.find() == []


def test_an_attempt_whose_launcher_saw_the_end_runs_no_more(job, tmp_path):
    """Also where a lost host never wrote its own end."""
    job.node(ended=False, host="node1")
    trainer, launcher = tmp_path / "trainer.jsonl", tmp_path / "launcher.jsonl"
    trainer.touch()
    assert is_running(job.folder, trainer)
    launcher.write_text('{"kind":"launch.started"}\n{"kind":"launch.ended","data":{}}\n')
    assert not is_running(job.folder, trainer)


@pytest.mark.parametrize("reason", ["interrupted", "lost"])
def test_what_the_guard_killed_is_no_failure(job, reason):
    """C31: a second Ctrl-C kills; the kernel's lack of memory has nothing to do with it."""
    job.agent(-9, -15)
    job.node(exit_code=1, reason=reason)
    assert "SIGKILL" not in " ".join(map(str, job.find()))


def test_a_consequence_is_one_short_line(job):
    job.failure(
        0, 20.0, error="TrainError", message="\U0001f4a5 [enforce fail at transport.cc:1] " + "address " * 99 + "\nmore"
    )
    job.failure(1, 10.0)
    _, consequence = job.find()
    text = consequence.in_short()
    assert text.startswith("rank 0 on h: TrainError: [enforce fail at")
    assert len(text) <= 110
    assert text.endswith("...")
