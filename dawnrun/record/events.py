"""The event log: one JSON object a line, each file with one writer (docs/events.md)."""

import heapq
import json
import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from dawnrun.errors import ReportError, TrainError, VersionError

if TYPE_CHECKING:
    from dawnrun.record.rundir import RunDir

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]

SCHEMA_VERSION = 1
QUIET_LIMIT_S = 5.0
"""A trainer's log is never silent for longer: after a crash the clock goes on from the last line."""

DURABLE_KINDS = frozenset(
    {
        "launch.started",
        "launch.ended",
        "run.started",
        "snapshot.taken",
        "eval.finished",
        "checkpoint.saved",
        "checkpoint.failed",
        "data.bad_image",
        "worker.failed",
        "run.finished",
    }
)
"""Kinds that reports rest on: on the disk before `write` returns, with all lines before them."""

STEP_KINDS = frozenset(
    {"phase.started", "train.progress", "snapshot.taken", "eval.finished", "checkpoint.saved", "checkpoint.failed"}
)
"""Kinds that are superseded where a later attempt starts before their step."""


class Event(NamedTuple):
    """One line of a log. `superseded`: a later attempt did its step again; its time still counts.

    A tuple, because a long log has a million and a frozen dataclass takes three times as long to make.
    """

    kind: str
    t_s: float
    utc: str
    attempt: int
    writer: str
    data: Mapping[str, Any]
    superseded: bool = False


def utc_text(moment: datetime) -> str:
    """ISO 8601 with milliseconds and `Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def utc_now() -> datetime:
    """The wall clock."""
    return datetime.now(UTC)


def plain(value: Json) -> Json:
    """The value with numbers that are not finite made None; TypeError for what JSON has no form for."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise TypeError(f"keys of an event's data must be text: {list(value)}")
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    raise TypeError(f"an event cannot hold a {type(value).__name__}: {value!r}")


class EventLog:
    """One writer's file of one attempt; append only, safe to use from several threads.

    A file that exists is never opened again. The first write that the disk refuses raises TrainError, from
    then on nothing more is written, so that a line cut by a full disk stays the last.
    """

    def __init__(
        self,
        path: Path,
        *,
        writer: str,
        attempt: int,
        t_s: Callable[[], float],
        utc_now: Callable[[], datetime] = utc_now,
    ) -> None:
        """`t_s`: seconds since the writer started, of a monotonic clock."""
        self.path, self._writer, self._attempt = path, writer, attempt
        self._t_s, self._utc_now = t_s, utc_now
        self._lock = threading.Lock()
        self._last_s = t_s()
        self._refused: OSError | None = None
        self._told = False
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            sync_folder(path.parent)
        except OSError as error:
            raise TrainError(f"{path}: the event log cannot be created: {error.strerror}") from error

    def write(self, kind: str, /, **data: Json) -> None:
        """Append one event; raises TrainError once if the disk refuses it."""
        self.write_at(None, kind, **data)

    def write_at(self, t_s: float | None, kind: str, /, **data: Json) -> None:
        """The same, for something that happened at `t_s`; None: now."""
        fields = plain(data)
        with self._lock:
            self._append(kind, fields, t_s)
            if self._refused and not self._told:
                self._told = True
                raise TrainError(f"{self.path}: the event log cannot be written: {self._refused.strerror}")

    def beat(self, quiet_limit_s: float = QUIET_LIMIT_S) -> None:
        """Append a `beat` if nothing was written for so long; a refusal is raised by the next `write`."""
        with self._lock:
            if self._t_s() - self._last_s >= quiet_limit_s:
                self._append("beat", {})

    @property
    def since_last_s(self) -> float:
        """Seconds since the last line."""
        return self._t_s() - self._last_s

    def _append(self, kind: str, data: Json, t_s: float | None = None) -> None:
        assert self._fd >= 0, "written to after it was closed"
        if self._refused:
            return
        now_s = self._t_s()
        t_s = now_s if t_s is None else t_s
        line: dict[str, Json] = {
            "kind": kind,
            "t_s": round(t_s, 6),
            "utc": utc_text(self._utc_now() - timedelta(seconds=now_s - t_s)),  # both clocks of the same moment
            "attempt": self._attempt,
            "writer": self._writer,
            "data": data,
        }
        encoded = (json.dumps(line, allow_nan=False, separators=(",", ":")) + "\n").encode()
        try:
            written = os.write(self._fd, encoded)
            while written < len(encoded):  # only a full disk or a file size limit gets here; it raises next
                written += os.write(self._fd, encoded[written:])
            if kind in DURABLE_KINDS:
                os.fsync(self._fd)
        except OSError as error:
            self._refused = error
        self._last_s = t_s

    def close(self) -> None:
        """Close the file; may be called twice."""
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def sync_folder(folder: Path) -> None:
    """Bring a folder's entries to the disk."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def read_file(path: Path) -> Iterator[Event]:
    """The events of one file, in order. A last line that was cut short is left out; any other damage: ReportError."""
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                event = parse_event(line)
                if event is not None:
                    _check_version(event, path)
                    yield event
                elif line.endswith(b"\n"):
                    raise ReportError(
                        f"{path}:{number}: not an event; the log was damaged or changed after it was written"
                    )
    except OSError as error:
        raise ReportError(f"{path}: cannot be read: {error.strerror}") from error


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not strict JSON")


# What raw_decode calls; itself it costs a long log a tenth more.
_scan: Callable[[str, int], tuple[Any, int]]
_scan = json.JSONDecoder(parse_constant=_reject_constant).scan_once  # type: ignore[attr-defined]


_values_of = itemgetter(*Event._fields[:-1])


def parse_event(line: bytes) -> Event | None:
    """The event of a line, or None if it is none."""
    try:
        text = line.decode()
        fields, end = _scan(text, 0)  # starts at `{`: our own lines have no blanks before it
        rest = text[end:]
        if rest != "\n" and rest.strip(" \t\r\n"):
            return None
        event = Event(*_values_of(fields))
        whole = (
            isinstance(event.kind, str)
            and isinstance(event.utc, str)
            and isinstance(event.writer, str)
            and isinstance(event.attempt, int)
            and isinstance(event.data, dict)
            and math.isfinite(event.t_s)
        )
    except (ValueError, KeyError, TypeError, StopIteration, RecursionError, OverflowError):
        return None
    return event if whole else None


def _check_version(event: Event, path: Path) -> None:
    if event.kind not in ("run.started", "launch.started"):
        return
    version = event.data.get("schema_version", SCHEMA_VERSION)
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        raise VersionError(
            f"{path}: written by a newer dawnrun (format {version}; this one reads up to {SCHEMA_VERSION}); upgrade dawnrun"
        )


def read_attempt_events(run: "RunDir", attempt: int) -> Iterator[Event]:
    """All events of one attempt, the writers merged by wall clock; each writer's own order is kept."""
    return heapq.merge(*map(read_file, run.event_files(attempt)), key=attrgetter("utc"))


def read_events(run: "RunDir", *, superseded: bool = False) -> Iterator[Event]:
    """All events of a run, attempt by attempt, in constant memory.

    Events of steps that a later attempt did again are left out, or with `superseded` marked and kept.
    """
    attempts = run.attempts()
    first_steps = {attempt: _first_step(run, attempt) for attempt in attempts}
    for attempt in attempts:
        later = [step for other, step in first_steps.items() if other > attempt and step is not None]
        cut = min(later, default=None)
        for event in read_attempt_events(run, attempt):
            if cut is None or event.kind not in STEP_KINDS or event.data.get("step", 0) <= cut:
                yield event
            elif superseded:
                yield event._replace(superseded=True)


def _first_step(run: "RunDir", attempt: int) -> int | None:
    """Steps done when an attempt started; None if it did not get that far."""
    path = run.events_dir(attempt) / "trainer.jsonl"
    if not path.is_file():
        return None
    found = next((event for event in read_file(path) if event.kind == "run.started"), None)
    step = 0 if found is None else found.data.get("first_step", 0)
    if not isinstance(step, int):
        raise ReportError(f"{path}: run.started: first_step is {step!r}; a count of steps is a whole number")
    return None if found is None else step
