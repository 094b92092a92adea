"""Folds the events of a run into rows while they go by: superseded steps out, their seconds in."""

from itertools import accumulate
from typing import Any

from dawnrun.errors import ReportError
from dawnrun.record.checks import PHASE_FIELDS, check_evaluation, check_not_negative, check_rows, check_window, refuse
from dawnrun.record.events import Event
from dawnrun.record.folds import AttemptFold, Data, EpochFold, PhaseFold
from dawnrun.record.progress import Thinned
from dawnrun.record.rows import EpochRow, PhaseRow, Spent
from dawnrun.record.spans import Timeline

_OWN_COLUMNS = frozenset({"step", "epoch", "num_images", "top1_correct", "top5_correct", "loss"})
"""Fields of a validation that have a column of their own in an EpochRow."""


class Fold:
    """Takes every event of a run, in order, superseded ones included and marked."""

    def __init__(self) -> None:
        self.timeline = Timeline()
        self.attempts: list[AttemptFold] = []
        self.progress = Thinned()
        self.newest_utc = ""
        self.startup: Data = {}
        self.skipped_steps = 0
        self.steps_done = 0
        self.checkpoints: list[Data] = []
        self.failures: list[Data] = []
        self.bad_images: dict[tuple[Any, Any], Data] = {}
        self.said: list[str] = []
        self._epochs: dict[int, EpochFold] = {}
        self._phases: dict[int, PhaseFold] = {}
        self._frozen: dict[int, Spent] = {}
        self._arrived: list[EpochFold] = []

    def add(self, event: Event) -> None:
        """Take the next event; ReportError if it contradicts those before."""
        try:
            self.timeline.add(event)
            self._add(event)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise refuse(event, f"a field is missing or of the wrong kind ({error})") from error

    def _add(self, event: Event) -> None:
        if not self.attempts or self.attempts[-1].number != event.attempt:
            self._close_attempt()
            self.attempts.append(AttemptFold(number=event.attempt, first_utc=event.utc))
        if event.utc > self.newest_utc:
            self.newest_utc = event.utc
        attempt = self.attempts[-1]
        if event.writer == "launcher" and event.kind == "launch.ended":
            attempt.launch_ended = event.data
        if event.writer != "trainer":
            return
        match event.kind:
            case "train.progress":
                self._window(attempt, event)
            case "snapshot.taken":
                self._frozen[event.data["step"]] = self.timeline.spent()
            case "eval.finished":
                self._evaluation(attempt, event)
            case "phase.started" if not event.superseded:
                check_not_negative(event, PHASE_FIELDS)
                self._phase(event.data["phase_index"]).started = event.data
            case "checkpoint.saved" if not event.superseded:
                self.checkpoints.append({**event.data, "attempt": event.attempt})
            case _:
                self._rare(attempt, event)

    def _rare(self, attempt: AttemptFold, event: Event) -> None:
        """Events that a run has few of."""
        match event.kind:
            case "run.started":
                self._check_same_run(event)
                attempt.started = event.data
                attempt.ends = list(accumulate(epoch["steps"] for epoch in event.data["epochs"]))
                attempt.steps_done = attempt.first_step
                waiting = self._frozen.items() if any(each.is_deferred for each in self.attempts) else ()
                self._frozen = {step: frozen for step, frozen in waiting if step <= attempt.first_step}
                self.steps_done = attempt.first_step
            case "startup" if not self.startup:
                self.startup = event.data
            case "remark":
                self.said.append(str(event.data["text"]))
            case "data.bad_image":
                self.bad_images.setdefault((event.data["split"], event.data["path"]), event.data)
            case "checkpoint.failed":
                self.failures.append({**event.data, "kind": event.kind, "attempt": event.attempt})
            case "worker.failed":
                attempt.failure = attempt.failure or event.data
                self.failures.append({**event.data, "kind": event.kind, "attempt": event.attempt})
            case "run.finished":
                attempt.finished = event.data
                if event.data["reason"] == "all_epochs" and attempt.steps_done != attempt.started.get("total_steps"):
                    raise refuse(
                        event, f"{attempt.steps_done} of {attempt.started.get('total_steps')} steps are recorded"
                    )

    def _check_same_run(self, event: Event) -> None:
        """A start from nothing under another name was not made in this folder; a renamed run goes on from a checkpoint."""
        known = [attempt.started.get("run_id") for attempt in self.attempts if attempt.started]
        fresh = event.data.get("resumed_from") is None
        if known and fresh and event.data.get("run_id") not in known:
            raise refuse(
                event, f"it is of run {event.data.get('run_id')}, those before of {known[0]}: two runs in one folder"
            )

    def _window(self, attempt: AttemptFold, event: Event) -> None:
        data = event.data
        epoch, step = data["epoch"], data["step"]
        end = attempt.ends[epoch]
        check_window(event, attempt.steps_done, end)
        attempt.steps_done = step
        if self._arrived:
            self._place_arrived(step)
        if event.superseded:
            return
        self.steps_done = step
        self.skipped_steps += data["skipped_steps"]
        num_steps = attempt.started["epochs"][epoch]["steps"]
        fold = self._epochs.get(epoch)
        if fold is None:
            fold = self._epochs[epoch] = EpochFold(planned_steps=num_steps)
        fold.add(data)
        if step == end:
            fold.ended = self.timeline.spent()
        self._phase(data["phase_index"]).add(data)
        self.progress.add(self.timeline.training_s, epoch + 1 - (end - step) / num_steps, data)

    def _phase(self, phase_index: int) -> PhaseFold:
        fold = self._phases.get(phase_index)
        if fold is None:  # not setdefault: a million windows would make a million folds
            fold = self._phases[phase_index] = PhaseFold(started={})
        return fold

    def _evaluation(self, attempt: AttemptFold, event: Event) -> None:
        data = event.data
        check_evaluation(event, attempt.ends[data["epoch"]], attempt.steps_done, attempt.started.get("num_val_images"))
        frozen = self._frozen.get(data["step"])
        if frozen is None:
            raise refuse(event, "no snapshot.taken says when these weights were frozen")
        attempt.validated.add(data["epoch"])
        fold = self._epochs.get(data["epoch"])
        if event.superseded or fold is None or fold.evaluation is not None:
            return  # weights validated again after a resume: the first result stands
        fold.evaluation, fold.frozen, fold.known = data, frozen, self.timeline.spent()
        fold.validated_by, fold.known_step = attempt.number, attempt.steps_done
        if data.get("by") == "evaluators":
            self._arrived.append(fold)

    def _place_arrived(self, step: int) -> None:
        """Evaluators' results are taken, and written, at the end of a window just before the window itself."""
        for fold in self._arrived:
            fold.known_step = step
        self._arrived.clear()

    def _close_attempt(self) -> None:
        self._arrived.clear()
        if not self.attempts:
            return
        attempt = self.attempts[-1]
        reason = None if attempt.finished is None else attempt.finished["reason"]
        complete = reason in ("target_reached", "all_epochs")
        first_step, validated, until = attempt.first_step, attempt.validated, len(attempt.ends)
        if attempt.is_deferred:
            if not complete:
                return  # a later attempt takes up what has no result yet
            first_step = 0
            validated = {epoch for epoch, fold in self._epochs.items() if fold.evaluation is not None}
            if reason == "target_reached":
                until = max(validated, default=-1) + 1  # what was trained on after the crossing is not validated
        check_rows(
            attempt=attempt.number,
            plan=attempt.started.get("epochs", ()),
            ends=attempt.ends[:until],
            first_step=first_step,
            steps_done=attempt.steps_done,
            validated=validated,
            complete=complete,
        )

    def close(self) -> None:
        """No event follows."""
        self._close_attempt()
        self.timeline.close()

    def part_recorded(self) -> list[int]:
        """Epochs, from 1, that were trained to their end while some of their steps left no trace."""
        ended = ((epoch, fold) for epoch, fold in sorted(self._epochs.items()) if fold.ended is not None)
        return [epoch + 1 for epoch, fold in ended if fold.steps < fold.planned_steps]

    def epoch_rows(self) -> tuple[EpochRow, ...]:
        """One row for each epoch trained to its end."""
        rows = ((epoch, fold) for epoch, fold in sorted(self._epochs.items()) if fold.ended is not None)
        return tuple(self._epoch_row(epoch, fold) for epoch, fold in rows)

    def _epoch_row(self, epoch: int, fold: EpochFold) -> EpochRow:
        last, found = fold.last, fold.evaluation
        assert fold.ended is not None
        valid = found if found is not None and found["valid"] else None
        return EpochRow(
            epoch=epoch + 1,
            step=last["step"],
            phase_index=last["phase_index"],
            image_size=last["image_size"],
            global_batch_size=self._phase_start(last["phase_index"])["global_batch_size"],
            lr_last=last["lr"],
            momentum_last=last["momentum"],
            train_loss=None if fold.loss_sum is None or not fold.images else fold.loss_sum / fold.images,
            images=fold.images,
            images_per_second=fold.images / fold.window_s if fold.window_s > 0 else None,
            spent=fold.frozen or fold.ended,
            known_spent=fold.known,
            top1=100 * valid["top1_correct"] / valid["num_images"] if valid else None,
            top5=100 * valid["top5_correct"] / valid["num_images"] if valid else None,
            top1_correct=valid["top1_correct"] if valid else None,
            top5_correct=valid["top5_correct"] if valid else None,
            num_val_images=found["num_images"] if found else None,
            validation_loss=valid["loss"] if valid else None,
            validation={key: value for key, value in (found or {}).items() if key not in _OWN_COLUMNS},
            attempt=fold.validated_by,
            known_step=fold.known_step,
            train_top1=100 * fold.top1_correct / fold.images if fold.top1_correct is not None and fold.images else None,
        )

    def phase_rows(self) -> tuple[PhaseRow, ...]:
        """One row for each phase that was trained in."""
        return tuple(self._phase_row(index, fold) for index, fold in sorted(self._phases.items()) if fold.steps)

    def _phase_row(self, index: int, fold: PhaseFold) -> PhaseRow:
        start = self._phase_start(index)
        return PhaseRow(
            phase_index=index,
            first_epoch=min(fold.epochs) + 1,
            last_epoch=max(fold.epochs) + 1,
            image_size=start["image_size"],
            global_batch_size=start["global_batch_size"],
            per_device_batch_size=start["per_device_batch_size"],
            accumulate_steps=start["accumulate_steps"],
            steps=fold.steps,
            images=fold.images,
            training_s=fold.window_s,
            images_per_second=fold.images / fold.window_s if fold.window_s > 0 else None,
            input_wait_s=fold.input_wait_s,
            first_step_s=fold.first_step_s,
            parts_s=fold.parts_s(),
            timed_steps=fold.timed_steps,
            ranks=fold.spread.per_step() if fold.spread else {},
        )

    def _phase_start(self, index: int) -> Data:
        started = self._phases[index].started
        if not started:
            raise ReportError(
                f"steps of phase {index} are recorded, but no phase.started; the record was changed or damaged"
            )
        return started
