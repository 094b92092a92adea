"""The event log: what is written, and what is read back from damaged files."""

import errno
import json
import math
import os
import resource
import signal
import threading
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest
from record_factory import FakeTime, make_script

from dawnrun.errors import ReportError, TrainError
from dawnrun.record import events
from dawnrun.record.events import DURABLE_KINDS, EventLog, read_attempt_events, read_events, read_file
from dawnrun.record.heartbeat import Heartbeat


def open_log(path: Path, time: FakeTime | None = None) -> EventLog:
    time = time or FakeTime()
    return EventLog(path, writer="trainer", attempt=2, t_s=lambda: time.seconds, utc_now=lambda: time.utc)


def test_a_line_holds_every_field(tmp_path):
    time = FakeTime()
    with open_log(tmp_path / "events" / "2" / "trainer.jsonl", time) as log:
        time.pass_s(1.25)
        log.write("span", span="training")
    assert (tmp_path / "events/2/trainer.jsonl").read_text() == (
        '{"kind":"span","t_s":1.25,"utc":"2026-01-31T12:00:01.250Z","attempt":2,"writer":"trainer",'
        '"data":{"span":"training"}}\n'
    )


def test_utc_is_written_whatever_the_zone():
    moment = datetime(2026, 1, 31, 14, 30, tzinfo=timezone(timedelta(hours=2)))
    assert events.utc_text(moment) == "2026-01-31T12:30:00.000Z"
    assert abs(events.utc_now() - datetime.now(UTC)) < timedelta(minutes=1)


def test_values_that_are_not_finite_become_null(tmp_path):
    """C40: strict JSON, whatever the loss was."""
    with open_log(tmp_path / "log") as log:
        log.write("x", loss=math.nan, nested={"list": [math.inf, -math.inf, 1.5]}, half=np.float64(0.5))
    line = json.loads((tmp_path / "log").read_text(), parse_constant=pytest.fail)
    assert line["data"] == {"loss": None, "nested": {"list": [None, None, 1.5]}, "half": 0.5}


@pytest.mark.parametrize("value", [np.int64(1), np.float32(1), Path("x"), {1: 2}, {"set"}, [object()], b"x"])
def test_only_plain_values_can_be_written(tmp_path, value):
    with open_log(tmp_path / "log") as log, pytest.raises(TypeError):
        log.write("x", value=value)
    assert (tmp_path / "log").read_bytes() == b""


def test_a_file_is_never_opened_twice(tmp_path):
    open_log(tmp_path / "log").close()
    with pytest.raises(TrainError, match=r"log: the event log cannot be created: File exists"):
        open_log(tmp_path / "log")


def test_one_write_call_a_line(tmp_path, monkeypatch):
    written = []
    with open_log(tmp_path / "log") as log:
        monkeypatch.setattr(events.os, "write", lambda fd, line: written.append(line) or len(line))
        log.write("x", text="a\nb", umlaut="ä")
    assert len(written) == 1
    assert written[0].count(b"\n") == 1
    assert json.loads(written[0])["data"] == {"text": "a\nb", "umlaut": "ä"}


@pytest.mark.parametrize("kind", ["train.progress", "span", *sorted(DURABLE_KINDS)])
def test_what_reports_rest_on_is_brought_to_the_disk(tmp_path, monkeypatch, kind):
    with open_log(tmp_path / "log") as log:
        synced = []
        monkeypatch.setattr(events.os, "fsync", synced.append)
        log.write(kind)
    assert bool(synced) == (kind in DURABLE_KINDS)


def test_a_full_disk_is_told_once_and_leaves_the_cut_line_last(tmp_path):
    """C43: a real limit on the file size, as a full disk would cut the line."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    log = open_log(tmp_path / "log")
    log.write("x", number=1)
    size = (tmp_path / "log").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, before[1]))
    try:
        with pytest.raises(
            TrainError, match=rf"{tmp_path}/log: the event log cannot be written: {os.strerror(errno.EFBIG)}"
        ):
            log.write("x", number=2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    log.write("worker.failed", number=3)
    log.close()
    assert (tmp_path / "log").stat().st_size == size + 20
    assert [event.data["number"] for event in read_file(tmp_path / "log")] == [1]


def test_a_beat_that_was_refused_is_told_by_the_next_write(tmp_path, monkeypatch):
    time = FakeTime()

    def refuse(fd: int, line: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with open_log(tmp_path / "log", time) as log:
        monkeypatch.setattr(events.os, "write", refuse)
        time.pass_s(6)
        log.beat()
        with pytest.raises(TrainError, match="No space left"):
            log.write("span", span="training")
        log.write("worker.failed")


def test_a_beat_is_written_only_into_silence(tmp_path):
    time = FakeTime()
    with open_log(tmp_path / "log", time) as log:
        for seconds in (4, 1, 4, 1):
            time.pass_s(seconds)
            log.beat()
        time.pass_s(3)
        log.write("x")
        time.pass_s(4)
        assert log.since_last_s == 4
        log.beat()
    assert [(event.kind, event.t_s) for event in read_file(tmp_path / "log")] == [("beat", 5), ("beat", 10), ("x", 13)]


def test_the_heartbeat_beats_while_nothing_else_is_written(tmp_path):
    """Driven by the number of looks at the clock, not by sleeping: each look is a second."""
    looks = iter(range(10_000))
    enough = threading.Event()

    def t_s() -> float:
        look = next(looks)
        if look > 20:
            enough.set()
        return float(look)

    with EventLog(tmp_path / "log", writer="trainer", attempt=1, t_s=t_s) as log, Heartbeat(log, 0.005):
        assert enough.wait(10)
    assert {event.kind for event in read_file(tmp_path / "log")} == {"beat"}
    assert not [thread for thread in threading.enumerate() if thread.name == "heartbeat"]


def test_lines_of_several_threads_stay_whole_and_in_order(tmp_path):
    ticks = iter(range(100_000))
    with EventLog(tmp_path / "log", writer="trainer", attempt=1, t_s=lambda: float(next(ticks))) as log:
        threads = [threading.Thread(target=lambda: [log.write("x", n=n) for n in range(100)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    times = [event.t_s for event in read_file(tmp_path / "log")]
    assert len(times) == 400
    assert times == sorted(times)


def lines(*kinds: str, **fields: object) -> str:
    whole = {"t_s": 1.0, "utc": "2026-01-31T12:00:00.000Z", "attempt": 1, "writer": "trainer", "data": {}, **fields}
    return "".join(json.dumps({"kind": kind, **whole}) + "\n" for kind in kinds)


def test_a_log_cut_at_any_byte_is_read_up_to_its_last_whole_line(tmp_path):
    whole = lines("a", "b", "ä").encode()
    ends = [index + 1 for index, byte in enumerate(whole) if byte == ord("\n")]
    for cut in range(len(whole) + 1):
        (tmp_path / "log").write_bytes(whole[:cut])
        # a line without its newline is whole if its last brace is there
        expected = sum(cut >= end - 1 for end in ends)
        assert len(list(read_file(tmp_path / "log"))) == expected, cut


def test_a_tail_of_zeros_left_by_a_power_cut_is_a_cut_line(tmp_path):
    (tmp_path / "log").write_bytes(lines("a").encode() + bytes(512))
    assert [event.kind for event in read_file(tmp_path / "log")] == ["a"]


@pytest.mark.parametrize(
    "damaged",
    [
        "not json\n",
        "[]\n",
        "\n",
        "\xff\n",
        lines("a", data=[]),
        lines("a", t_s="1"),
        lines("a", t_s=None),
        lines("a", attempt="1"),
        lines("a", utc=5),
        '{"kind": "a"}\n',
        lines("a").replace("1.0", "NaN"),
        lines("a", data={"loss": float("nan")}),
        lines("a").replace("1.0", "1e999"),
        "[" * 100_000 + "\n",
    ],
)
def test_damage_inside_a_log_is_refused_with_its_line(tmp_path, damaged):
    (tmp_path / "log").write_text(lines("a") + damaged + lines("b"), encoding="latin-1")
    with pytest.raises(ReportError, match=r"log:2: not an event; the log was damaged"):
        list(read_file(tmp_path / "log"))


def test_unknown_kinds_and_fields_are_read_over(tmp_path):
    (tmp_path / "log").write_text(lines("new.kind", data={"new": 1}, new_field=2))
    assert [event.kind for event in read_file(tmp_path / "log")] == ["new.kind"]


@pytest.mark.parametrize("kind", ["run.started", "launch.started"])
def test_a_newer_format_is_refused(tmp_path, kind):
    (tmp_path / "log").write_text(lines(kind, data={"schema_version": 2}))
    with pytest.raises(ReportError, match=r"written by a newer dawnrun \(format 2; this one reads up to 1\)"):
        list(read_file(tmp_path / "log"))


def test_an_unreadable_log_is_named(tmp_path):
    with pytest.raises(ReportError, match=r"log: cannot be read: No such file"):
        list(read_file(tmp_path / "log"))


def test_writers_are_merged_by_wall_clock_and_keep_their_own_order(tmp_path):
    """C36: order is kept although the system clock is set back an hour."""
    script = make_script(tmp_path)
    script.launch()
    script.time.pass_s(10)
    script.write("a")
    script.time.set_wall_clock(-3600)
    script.write("b")
    script.kill(after_s=1)
    merged = list(read_attempt_events(script.run, 1))
    assert [event.kind for event in merged if event.writer == "trainer"] == ["a", "b"]
    assert {event.kind for event in merged} == {"launch.started", "a", "b", "launch.ended"}


def test_writers_that_started_at_different_times_are_merged(tmp_path):
    time, run = FakeTime(), make_script(tmp_path).run
    with run.log("launcher", 1, t_s=lambda: time.seconds, utc_now=lambda: time.utc) as launcher:
        time.pass_s(60)
        launcher.write("a")
        with run.log("trainer", 1, t_s=lambda: time.seconds - 60, utc_now=lambda: time.utc) as trainer:
            time.pass_s(10)
            trainer.write("b")
        time.pass_s(10)
        launcher.write("c")
    assert [event.kind for event in read_attempt_events(run, 1)] == ["a", "b", "c"]


def test_steps_done_again_are_left_out_or_marked(tmp_path):
    script = make_script(tmp_path)
    for first_step, num_steps in ((0, 20), (15, 10), (10, 5)):
        script.launch()
        script.start(first_step=first_step)
        script.train(num_steps)
        script.kill()
    steps = [(event.attempt, event.data["step"]) for event in read_events(script.run) if event.kind == "train.progress"]
    assert steps == [(1, 5), (1, 10), (3, 15)]
    marked = [event for event in read_events(script.run, superseded=True) if event.superseded]
    assert [(event.attempt, event.kind, event.data["step"]) for event in marked] == [
        (1, "train.progress", 15),
        (1, "train.progress", 20),
        (2, "phase.started", 15),
        (2, "train.progress", 20),
        (2, "phase.started", 20),
        (2, "train.progress", 25),
    ]


def test_an_attempt_that_never_started_supersedes_nothing(tmp_path):
    script = make_script(tmp_path)
    script.launch()
    script.start()
    script.train(10)
    script.kill()
    script.launch()
    script.write("span", span="initialise")
    script.kill()
    script.run.new_attempt()
    assert [event.data["step"] for event in read_events(script.run) if event.kind == "train.progress"] == [5, 10]


def test_a_first_step_that_is_no_number_is_refused(tmp_path):
    script = make_script(tmp_path)
    script.launch()
    script.start(first_step=0, total_steps=1)
    script.kill()
    path = script.run.events_dir(1) / "trainer.jsonl"
    path.write_text(path.read_text().replace('"first_step":0', '"first_step":"0"'))
    with pytest.raises(ReportError, match="first_step is '0'"):
        list(read_events(script.run))
