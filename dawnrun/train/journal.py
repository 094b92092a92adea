"""What this process writes into the event log: rank 0 everything, the others only what they alone can know."""

from collections.abc import Callable, Sequence
from dataclasses import asdict

from dawnrun.clock import SpanKind
from dawnrun.dataset.decode import BadImage
from dawnrun.recipe.schedule import StepPlan
from dawnrun.recipe.schema import View
from dawnrun.record.events import EventLog, Json
from dawnrun.record.heartbeat import Heartbeat
from dawnrun.record.rundir import RunDir
from dawnrun.train.checkpoint import Checkpoint
from dawnrun.train.evaluate import EvalResult


class Journal:
    """The event log as the trainer sees it. Ranks other than 0 open a file of their own when they first need it."""

    def __init__(self, run: RunDir, attempt: int, *, rank: int, t_s: Callable[[], float]) -> None:
        """`t_s`: seconds since this process entered the trainer."""
        self._run, self._attempt, self._rank, self._t_s = run, attempt, rank, t_s
        self._log: EventLog | None = None
        self._heartbeat: Heartbeat | None = None
        self._phase_index: int | None = None
        self.num_bad_images = 0
        if rank == 0:
            self._log = run.log("trainer", attempt, t_s=t_s)
            self._heartbeat = Heartbeat(self._log)

    def span(self, kind: SpanKind, t_s: float) -> None:
        """The clock runs in `kind` from `t_s` on."""
        if self._log:
            self._log.write_at(t_s, "span", span=kind)

    def write(self, kind: str, /, **data: Json) -> None:
        """One event of rank 0; nothing on the others."""
        if self._rank == 0 and self._log:
            self._log.write(kind, **data)

    def remark(self, text: str) -> None:
        """Something that whoever reads the report should know."""
        self.write("remark", text=text)

    def phase(self, plan: StepPlan) -> None:
        """The steps from here on belong to `plan`'s phase; written when it is a new one."""
        if plan.phase_index == self._phase_index:
            return
        self._phase_index = plan.phase_index
        names = ("image_size", "global_batch_size", "per_device_batch_size", "accumulate_steps", "dataset")
        fields = {name: getattr(plan, name) for name in names}
        self.write("phase.started", phase_index=plan.phase_index, step=plan.step, epoch=plan.epoch, **fields)

    def evaluation(
        self,
        result: EvalResult,
        view: View,
        *,
        step: int,
        epoch: int,
        num_classes: int,
        batch_size: int,
        num_processes: int,
        weights: str,
        by: str,
    ) -> None:
        """A validation's counts, how its images were seen, whose weights (`model`, or `average`), and who validated."""
        self.write(
            "eval.finished",
            step=step,
            epoch=epoch,
            num_classes=num_classes,
            batch_size=batch_size,
            num_processes=num_processes,
            weights=weights,
            by=by,
            **view.model_dump(),
            **asdict(result),
        )

    def saved(
        self, checkpoint: Checkpoint, *, save_s: float, blocked_s: float, why: Sequence[str] | None = None
    ) -> None:
        """A checkpoint is complete, perhaps some steps after its own; called from the thread that wrote it.

        `why`: where that is known only now.
        """
        self.write(
            "checkpoint.saved",
            step=checkpoint.step,
            epoch=checkpoint.epoch,
            path=str(checkpoint.path.relative_to(self._run.path)),
            bytes=checkpoint.num_bytes,
            save_s=save_s,
            blocked_s=blocked_s,
            sha256=checkpoint.manifest["files"]["model.pt"]["sha256"],
            why=list(checkpoint.why if why is None else why),
        )

    def save_failed(self, error: OSError, *, step: int, epoch: int, why: Sequence[str], num_bytes: int) -> None:
        """A checkpoint could not be written; from that thread too."""
        self.write(
            "checkpoint.failed",
            step=step,
            epoch=epoch,
            path=str(self._run.checkpoints / f"step-{step:08d}"),
            bytes=num_bytes,
            error=error.strerror or str(error),
            why=list(why),
        )

    def bad_image(self, image: BadImage) -> None:
        """An image that could not be read; any rank, called from the input's threads."""
        if self._log is None:
            self._log = self._run.log(f"rank-{self._rank:03d}", self._attempt, t_s=self._t_s)
        self.num_bad_images += 1
        self._log.write("data.bad_image", rank=self._rank, **asdict(image))

    def close(self) -> None:
        """End the heartbeat and close the file."""
        if self._heartbeat:
            self._heartbeat.close()
        if self._log:
            self._log.close()
