"""Any history of a run against a simple model: spans, saves (beside and not), validations, kills, resumes, wrong clocks.

The machine plays the trainer with the product's own Clock and event log on a fake time; the model keeps true seconds.
After every action the record is folded as a report would fold it, also while the run goes on.
"""

from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from record_factory import FakeTime, Script, make_script

from dawnrun.clock import MLPERF_INITIALISE_LIMIT_S, RULES, SPAN_KINDS, Clock, SpanKind, elapsed_s
from dawnrun.record import events
from dawnrun.record.summary import RunSummary, summarize

SECONDS = st.integers(0, 120)
"""Whole seconds: wall clocks are written in milliseconds."""
TOP5 = st.sampled_from([500, 930, 960])
ERRORS = st.sampled_from([0, 0, -3600, -7, 5, 3600])
"""By how much a machine's wall clock is wrong."""
SELDOM = st.sampled_from([False, False, True])
"""Ends come less often than what they end."""


class Model:
    """True seconds per kind, of what the record can know."""

    def __init__(self) -> None:
        self.spent: dict[SpanKind, float] = dict.fromkeys(SPAN_KINDS, 0.0)
        self.kind: SpanKind = "initialise"
        self.last_s = 0.0  # true time of the trainer's last event
        self.known_utc_s: float | None = None  # wall clock of the last thing known of the attempts before
        self.last_utc_s: float | None = None  # wall clock of the trainer's last event; None: it has not spoken
        self.at: dict[int, dict[SpanKind, float]] = {}  # step -> what was spent when it was frozen

    def launched(self, now_s: float) -> None:
        self.kind, self.last_s, self.last_utc_s, self.launched_s = "initialise", now_s, None, now_s

    def event(self, now_s: float, utc_s: float) -> None:
        if self.last_utc_s is None and self.known_utc_s is not None:
            self.spent["idle"] += max(0.0, utc_s - self.known_utc_s - (now_s - self.launched_s))
        self.spent[self.kind] += now_s - self.last_s
        self.last_s, self.last_utc_s = now_s, utc_s

    def ended(self, seen_utc_s: float | None, *, in_order: bool) -> None:
        if self.last_utc_s is None:
            return
        self.known_utc_s = self.last_utc_s
        if seen_utc_s is not None and not in_order:
            self.spent["training"] += max(0.0, seen_utc_s - self.last_utc_s)
            self.known_utc_s = seen_utc_s


class Trainer(Script):
    """The script with a real Clock; its two writers are on machines whose wall clocks are wrong by `errors_s`."""

    def follow(self, model: Model) -> None:
        """Tell `model` of every event."""
        self.model, self.errors_s = model, {"trainer": 0, "launcher": 0}

    def utc(self, writer: str) -> Any:
        return self.time.utc + timedelta(seconds=self.errors_s[writer])

    def launch(self) -> None:
        self.attempt, started = self.run.new_attempt(), self.time.seconds
        for writer in ("launcher", "trainer"):
            self._logs[writer] = self.run.log(
                writer,
                self.attempt,
                t_s=lambda: self.time.seconds - started,
                utc_now=lambda writer=writer: self.utc(writer),
            )
        self.model.launched(started)
        self._logs["launcher"].write(
            "launch.started", schema_version=1, command=[], cli_version="0", host="host", plan=[]
        )

    def start(self, **fields: Any) -> None:
        self.clock = Clock(lambda: self.time.seconds, started=self.model.launched_s, on_change=self._changed)
        super().start(**fields)

    def _changed(self, kind: SpanKind, t_s: float) -> None:
        self.model.event(self.time.seconds, self.utc("trainer").timestamp())
        self.model.kind = kind
        self._logs["trainer"].write_at(t_s, "span", span=kind)

    def write(self, kind: str, /, **data: Any) -> None:
        if kind == "span":
            self.clock.change(data["span"])
            return
        self.model.event(self.time.seconds, self.utc("trainer").timestamp())
        if kind == "snapshot.taken":
            self.model.at[data["step"]] = dict(self.model.spent)
        super().write(kind, **data)

    def ends_here(self) -> bool:
        return self.step in [self.ends(epoch) for epoch in range(len(self.plan))]


class Histories(RuleBasedStateMachine):
    """One run, however it goes."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        quick = patch.object(events.os, "fsync", lambda _: None)  # the model is of time, not of disks
        quick.start()
        self.undo = quick.stop
        self.model = Model()
        plain = make_script(Path(self.folder.name))
        self.trainer = Trainer(run=plain.run, time=FakeTime(), num_train_images=96)
        self.trainer.follow(self.model)
        self.state = "ended"
        self.first_step = 0
        self.saved: list[int] = []
        self.pending: tuple[int, float] | None = None
        self.validated: set[int] = set()

    @initialize(trainer_s=ERRORS, launcher_s=ERRORS)
    def first(self, trainer_s: int, launcher_s: int) -> None:
        self.trainer.errors_s = {"trainer": trainer_s, "launcher": launcher_s}
        self.trainer.launch()
        self.state = "launched"

    def is_in(self, *states: str) -> bool:
        return self.state in states

    @rule(seconds=SECONDS)
    def time_goes_by(self, seconds: int) -> None:
        self.trainer.time.pass_s(seconds)

    @rule(writer=st.sampled_from(["trainer", "launcher"]), error_s=ERRORS)
    def a_wall_clock_is_set(self, writer: str, error_s: int) -> None:
        self.trainer.errors_s[writer] = error_s

    @precondition(lambda self: self.is_in("training", "validating"))
    @rule()
    def beat(self) -> None:
        self.trainer.write("beat")

    @precondition(lambda self: self.is_in("launched"))
    @rule(seconds=st.one_of(SECONDS, st.just(2000)), data_s=SECONDS, damaged=st.sampled_from([0, 0, 1]))
    def start(self, seconds: int, data_s: int, damaged: int) -> None:
        """From the newest checkpoint, or the one before; from 0 where there is none."""
        there = sorted({0, *self.saved})
        self.first_step = there[max(0, len(there) - 1 - damaged)]
        self.saved = [step for step in self.saved if step <= self.first_step]
        self.validated = {step for step in self.validated if step <= self.first_step}
        self.trainer.start(first_step=self.first_step, imports_s=seconds, data_s=data_s)
        self.state = "training"

    def must_validate(self) -> bool:
        step = self.trainer.step
        return step > self.first_step and self.trainer.ends_here() and step not in self.validated

    def is_done(self) -> bool:
        return self.trainer.step == self.trainer.ends(len(self.trainer.plan) - 1)

    @precondition(lambda self: self.is_in("training") and not self.must_validate() and not self.is_done())
    @rule(steps=st.integers(1, 4), step_s=SECONDS)
    def train(self, steps: int, step_s: int) -> None:
        trainer = self.trainer
        trainer.step_s = step_s
        trainer.window(min(steps, trainer.ends(trainer.epoch) - trainer.step))

    @precondition(lambda self: self.is_in("training") and not self.must_validate() and not self.is_done())
    @rule(step_s=SECONDS, eval_s=SECONDS, top5=TOP5)
    def train_and_validate_an_epoch(self, step_s: int, eval_s: int, top5: int) -> None:
        self.trainer.step_s = step_s
        self.trainer.train_epoch()
        self.trainer.time.pass_s(eval_s)  # the statistics are averaged over processes
        self.freeze()
        self.trainer.time.pass_s(eval_s)
        self.result(top5)

    @precondition(lambda self: self.is_in("training") and self.must_validate())
    @rule()
    def freeze(self) -> None:
        self.frozen = self.trainer.freeze()
        self.trainer.write("span", span="validation")
        self.state = "validating"

    @precondition(lambda self: self.is_in("validating"))
    @rule(top5=TOP5)
    def result(self, top5: int) -> None:
        self.trainer.result(self.frozen, 400, top5)
        self.trainer.write("span", span="training")
        self.validated.add(self.trainer.step)
        self.state = "training"

    @precondition(lambda self: self.is_in("training") and not self.must_validate() and self.trainer.step > 0)
    @rule(blocked_s=SECONDS, beside=st.booleans())
    def save(self, blocked_s: int, beside: bool) -> None:
        """Beside the training: only the freeze, and the wait for the save before, is on the clock."""
        self.trainer.write("span", span="checkpoint")
        if self.pending is not None:
            self.save_ends()
        self.trainer.time.pass_s(blocked_s)
        self.pending = (self.trainer.step, self.trainer.time.seconds)
        if not beside:
            self.save_ends()
        self.trainer.write("span", span="training")

    @precondition(lambda self: self.pending is not None and self.is_in("training", "validating"))
    @rule()
    def save_ends(self) -> None:
        """Told when it is known, whatever the training does then."""
        assert self.pending is not None
        (step, began_s), self.pending = self.pending, None
        self.trainer.saved(step, save_s=self.trainer.time.seconds - began_s, blocked_s=0.0)
        self.saved.append(step)

    @precondition(lambda self: self.is_in("launched", "training", "validating"))
    @rule(after_s=SECONDS, is_seen=st.booleans(), is_whole=st.booleans(), chance=SELDOM)
    def kill(self, after_s: int, is_seen: bool, is_whole: bool, chance: bool) -> None:
        """With -9; a save that was under way may be complete on the disk and untold."""
        if not chance:
            return
        self.trainer.time.pass_s(after_s)
        if self.pending is not None and is_whole:
            self.saved.append(self.pending[0])
        self.pending = None
        self.model.ended(self.trainer.utc("launcher").timestamp() if is_seen else None, in_order=False)
        self.trainer.kill(seen=is_seen)
        self.state = "ended"

    @precondition(lambda self: self.is_in("training") and not self.must_validate())
    @rule(after_s=SECONDS, chance=SELDOM)
    def stop(self, after_s: int, chance: bool) -> None:
        """The end in order: what is being written is waited for."""
        if not chance:
            return
        if self.pending is not None:
            self.save_ends()
        reason = "all_epochs" if self.is_done() else "preempted"
        if reason == "preempted" and self.trainer.step == 0:
            return
        self.trainer.write("run.finished", reason=reason, step=self.trainer.step, epoch=0)
        self.trainer.time.pass_s(after_s)
        self.model.ended(self.trainer.utc("launcher").timestamp(), in_order=True)
        self.trainer.kill()
        self.state = "ended"

    @precondition(lambda self: self.is_in("ended") and not self.is_done())
    @rule(pause_s=SECONDS, trainer_s=ERRORS, launcher_s=ERRORS)
    def resume(self, pause_s: int, trainer_s: int, launcher_s: int) -> None:
        """Perhaps on other machines."""
        self.trainer.time.pass_s(pause_s)
        self.first(trainer_s, launcher_s)

    def summary(self) -> RunSummary:
        return summarize(self.trainer.run, utc_now=lambda: self.trainer.time.utc)

    @invariant()
    def the_record_agrees_with_the_model(self) -> None:
        if self.trainer.attempt == 0:
            return
        summary = self.summary()
        spent = dict(self.model.spent)
        assert summary.spent == pytest.approx(spent)
        assert min(summary.spent.values()) >= 0
        check_rules(spent)
        check_order(summary)
        for row in summary.epochs:
            if row.step in self.validated:
                assert row.spent == pytest.approx(self.model.at[row.step]), "the second at which it was frozen"

    @invariant()
    def the_clocks_parts_are_all_of_its_time(self) -> None:
        if self.is_in("training", "validating"):
            assert sum(self.trainer.clock.spent().values()) == pytest.approx(self.trainer.clock.t_s())

    def teardown(self) -> None:
        self.undo()
        self.folder.cleanup()


def check_rules(spent: dict[SpanKind, float]) -> None:
    """Each rule is the sum of its parts, and what one leaves out another counts."""
    time = {name: elapsed_s(spent, name) for name in RULES}
    assert time["training"] == spent["training"]
    assert time["dawnbench"] == pytest.approx(time["training"] + spent["initialise"] + spent["data_setup"])
    outside = spent["validation"] + spent["checkpoint"] + spent["idle"]
    assert time["everything"] == pytest.approx(time["dawnbench"] + outside)
    free = min(spent["initialise"], MLPERF_INITIALISE_LIMIT_S)
    assert time["mlperf"] == pytest.approx(time["everything"] - spent["idle"] - free)
    assert 0 <= time["training"] <= min(time["dawnbench"], time["mlperf"])


def check_order(summary: RunSummary) -> None:
    """Later steps were never trained earlier; a result is never known before its weights were frozen."""
    points = [point.training_s for point in summary.progress]
    assert points == sorted(points)
    before = dict.fromkeys(SPAN_KINDS, 0.0)
    for row in summary.epochs:
        known = row.known_spent or row.spent
        for kind in SPAN_KINDS:
            assert before[kind] <= row.spent[kind] <= known[kind] <= summary.spent[kind] + 1e-6
        before = dict(row.spent)
    for crossing in summary.crossings:
        times = {name: crossing.time_to_accuracy_s(name) for name in RULES}
        assert 0 <= times["training"] <= times["dawnbench"] <= times["everything"]


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
