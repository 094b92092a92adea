"""Where the seconds of a run went: the trainer's spans, summed over attempts, with what lies between them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from dawnrun.clock import SPAN_KINDS, SpanKind
from dawnrun.errors import ReportError
from dawnrun.record.events import Event
from dawnrun.record.rows import Spent

_KINDS: Mapping[object, SpanKind] = {kind: kind for kind in SPAN_KINDS if kind != "idle"}
"""What a trainer may say it runs in: idle is only ever found from outside."""


@dataclass(kw_only=True, slots=True)
class AttemptTime:
    """One attempt's place in time. `gap_s`: from its last event to its known death; `idle_s`: before it started."""

    number: int
    kind: SpanKind = "initialise"
    t_s: float = 0.0
    started_utc: str | None = None
    last_utc: str | None = None
    ended_utc: str | None = None
    finished: bool = False
    gap_s: float = 0.0
    idle_s: float = 0.0


class Timeline:
    """Adds up spans while the events of a run go by, attempt by attempt.

    The trainer's `t_s` places everything inside an attempt; wall clocks are used between attempts only, and
    a difference of wall clocks below 0 is 0.
    """

    def __init__(self) -> None:
        self._spent: dict[SpanKind, float] = dict.fromkeys(SPAN_KINDS, 0.0)
        self._known_utc: str | None = None
        self.attempts: list[AttemptTime] = []

    def add(self, event: Event) -> None:
        """Take the next event."""
        if not self.attempts or self.attempts[-1].number != event.attempt:
            self.close()
            self.attempts.append(AttemptTime(number=event.attempt))
        attempt = self.attempts[-1]
        if event.writer == "trainer":
            self._advance(attempt, event)
        elif event.writer == "launcher" and event.kind == "launch.ended":
            attempt.ended_utc = event.utc

    def _advance(self, attempt: AttemptTime, event: Event) -> None:
        if attempt.last_utc is None:
            self._start(attempt, event)
        if event.t_s > attempt.t_s:
            self._spent[attempt.kind] += event.t_s - attempt.t_s
            attempt.t_s = event.t_s
        attempt.last_utc = event.utc
        if event.kind == "span":
            kind = _KINDS.get(event.data.get("span"))
            if kind is None:
                raise ReportError(
                    f"attempt {event.attempt}: span {event.data.get('span')!r} is none of: {', '.join(_KINDS.values())}"
                )
            attempt.kind = kind
        elif event.kind == "run.finished":
            attempt.finished = True

    def _start(self, attempt: AttemptTime, event: Event) -> None:
        """Place the attempt's start; what lies between it and the end of the one before was idle."""
        attempt.started_utc = event.utc
        if self._known_utc is not None:
            attempt.idle_s = max(0.0, _seconds_between(self._known_utc, event.utc) - max(0.0, event.t_s))
            self._spent["idle"] += attempt.idle_s

    def close(self) -> None:
        """End the attempt that runs. After a crash the clock went on in training until the known death."""
        if not self.attempts:
            return
        attempt = self.attempts[-1]
        if attempt.last_utc is None:
            return
        self._known_utc = attempt.last_utc
        if attempt.ended_utc is not None and not attempt.finished:
            attempt.gap_s = max(0.0, _seconds_between(attempt.last_utc, attempt.ended_utc))
            self._spent["training"] += attempt.gap_s
            self._known_utc = attempt.ended_utc

    @property
    def training_s(self) -> float:
        """Training seconds so far."""
        return self._spent["training"]

    def spent(self) -> Spent:
        """Seconds per kind until the event taken last, all attempts together."""
        return dict(self._spent)


def _seconds_between(first: str, last: str) -> float:
    """Seconds from one wall clock reading to another; below 0 where the clock was set back."""
    return (_moment(last) - _moment(first)).total_seconds()


def _moment(utc: str) -> datetime:
    try:
        moment = datetime.fromisoformat(utc)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ReportError(f"utc {utc!r} in the event log is no time of the form 2026-01-31T12:00:00.000Z")
    return moment
