"""Makes run directories for tests: events written one by one on a fake clock, through the product's own writer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from record_values import phase_values, recipe_values, site_values

from dawnrun.record.events import EventLog
from dawnrun.record.rundir import RunDir

START = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)


@dataclass
class FakeTime:
    """A monotonic clock and a wall clock that move only when told."""

    seconds: float = 0.0
    utc: datetime = START

    def pass_s(self, seconds: float) -> None:
        """Let time go by on both clocks."""
        self.seconds += seconds
        self.utc += timedelta(seconds=seconds)

    def set_wall_clock(self, by_s: float) -> None:
        """Correct the wall clock alone."""
        self.utc += timedelta(seconds=by_s)


@dataclass
class Script:
    """Plays a run on a fake clock, one attempt at a time; every method writes what the trainer would write.

    A step takes `step_s`, a validation `eval_s`, a checkpoint `save_s`; an epoch has `images / global batch` steps.
    """

    run: RunDir
    time: FakeTime = field(default_factory=FakeTime)
    recipe: dict[str, Any] = field(default_factory=recipe_values)
    site: dict[str, Any] = field(default_factory=site_values)
    num_train_images: int = 320
    num_val_images: int = 1000
    num_classes: int = 30
    step_s: float = 0.5
    eval_s: float = 4.0
    save_s: float = 1.0
    window_steps: int = 5

    def __post_init__(self) -> None:
        self.step = 0
        self.attempt = 0
        self._phase_index = -1
        self._logs: dict[str, EventLog] = {}

    @property
    def plan(self) -> list[dict[str, Any]]:
        """Per epoch, as in `run.started`."""
        sizes = [(i, p["global_batch_size"]) for i, p in enumerate(self.recipe["phases"]) for _ in range(p["epochs"])]
        return [
            {
                "phase_index": phase_index,
                "steps": -(-self.num_train_images // batch),
                "images": -(-self.num_train_images // batch) * batch,
                "repeated_images": -self.num_train_images % batch,
                "dropped_images": 0,
                "validates": True,
            }
            for phase_index, batch in sizes
        ]

    def ends(self, epoch: int) -> int:
        """Steps done at the end of an epoch, counted from 0."""
        return sum(part["steps"] for part in self.plan[: epoch + 1])

    def write(self, kind: str, /, **data: Any) -> None:
        """One event of the trainer."""
        self._logs["trainer"].write(kind, **data)

    def launch(self) -> None:
        """A new attempt: the command line starts the trainer."""
        self.attempt = self.run.new_attempt()
        for writer in ("launcher", "trainer"):
            started = self.time.seconds
            self._logs[writer] = self.run.log(
                writer,
                self.attempt,
                t_s=lambda started=started: self.time.seconds - started,
                utc_now=lambda: self.time.utc,
            )
        self._logs["launcher"].write(
            "launch.started", schema_version=1, command=["dawnrun", "train"], cli_version="0.1.0", host="host", plan=[]
        )

    def start(self, *, first_step: int = 0, imports_s: float = 2.0, data_s: float = 1.0, **changes: Any) -> None:
        """Initialise (`imports_s`) and set the data up (`data_s`); `changes` replace fields of `run.started`."""
        self.step, self._phase_index = first_step, -1
        self.write("span", span="initialise")
        self.time.pass_s(imports_s)
        self.write("run.started", **{**self.started(first_step), **changes})
        self.write("span", span="data_setup")
        self.time.pass_s(data_s)
        self.write("startup", imports_s=imports_s, process_group_s=0.0, index_s=data_s, model_s=0.0, first_batch_s=0.0)
        self.write("span", span="training")

    def started(self, first_step: int) -> dict[str, Any]:
        """Fields of `run.started`."""
        return {
            "schema_version": 1,
            "run_id": self.run.path.name,
            "recipe": self.recipe,
            "site": self.site,
            "recipe_sha256": "1" * 64,
            "total_steps": self.ends(len(self.plan) - 1),
            "total_epochs": len(self.plan),
            "first_step": first_step,
            "world_size": 1,
            "device": "cpu",
            "device_name": "Some CPU",
            "precision": "fp32",
            "decoder": "vision",
            "num_train_images": self.num_train_images,
            "num_val_images": self.num_val_images,
            "num_classes": self.num_classes,
            "classes_sha256": "2" * 64,
            "data_fingerprints": {"full": {"train": "3" * 64, "val": "4" * 64}},
            "initial_weights_sha256": "5" * 64,
            "versions": {"torch": "2.9.0", "torchvision": "0.24.0", "dawnrun": "0.1.0"},
            "git_commit": "6" * 40,
            "machine": {"host": "host", "cpu": "Some CPU", "cores": 2, "memory_bytes": 8 << 30, "devices": []},
            "changes": {},
            "resumed_from": f"checkpoints/step-{first_step:08d}" if first_step else None,
            "epochs": self.plan,
        }

    def train(self, num_steps: int) -> None:
        """Updates, with a window of progress every `window_steps` and at the end of an epoch."""
        for _ in range(-(-num_steps // self.window_steps)):
            window = min(self.window_steps, num_steps, self.ends(self.epoch) - self.step)
            num_steps -= window
            self.window(window)

    @property
    def epoch(self) -> int:
        """The epoch of the next step, from 0."""
        return next(epoch for epoch in range(len(self.plan)) if self.ends(epoch) > self.step)

    def window(self, num_steps: int, *, arrives: Callable[[], None] | None = None, **changes: Any) -> None:
        """One window of steps; `changes` replace its fields. `arrives`: what is written when its last step is done."""
        epoch = self.epoch
        phase_index = self.plan[epoch]["phase_index"]
        phase = self.recipe["phases"][phase_index]
        first_of_phase = phase_index != self._phase_index
        if first_of_phase:
            self._phase_index = phase_index
            self.write(
                "phase.started",
                phase_index=phase_index,
                step=self.step,
                epoch=epoch,
                image_size=phase["image_size"],
                global_batch_size=phase["global_batch_size"],
                per_device_batch_size=phase["per_device_batch_size"],
                accumulate_steps=phase["global_batch_size"] // phase["per_device_batch_size"],
                dataset=phase["dataset"],
            )
        self.time.pass_s(num_steps * self.step_s)
        data: dict[str, Any] = {
            "step": self.step + num_steps,
            "first_step": self.step,
            "epoch": epoch,
            "phase_index": phase_index,
            "images": num_steps * phase["global_batch_size"],
            "window_s": num_steps * self.step_s,
            "loss": 3.4 / (1 + 0.05 * (self.step + num_steps)),
            "lr": 0.2 * (1 - (self.step + num_steps) / (self.ends(len(self.plan) - 1) + 1)),
            "momentum": 0.9,
            "image_size": phase["image_size"],
            "loss_scale": None,
            "skipped_steps": 0,
            "input_wait_s": 0.01 * num_steps,
            "nonfinite_steps": 0,
            "top1_correct": num_steps * phase["global_batch_size"] // 4,
            "forward_s": 0.3 * self.step_s,
            "backward_s": 0.5 * self.step_s,
            "exchange_s": 0.0,
            "update_s": 0.1 * self.step_s,
            "ranks": None,
        }
        if first_of_phase:
            data["first_step_s"] = self.step_s
        if arrives is not None:
            arrives()
        self.write("train.progress", **{**data, **changes})
        self.step += num_steps

    def train_epoch(self) -> None:
        """The rest of the epoch."""
        self.train(self.ends(self.epoch) - self.step)

    def validate(self, top1_correct: int, top5_correct: int, /, **changes: Any) -> None:
        """Freeze the weights and validate them while training waits; `changes` replace fields of `eval.finished`."""
        epoch = self.freeze()
        self.write("span", span="validation")
        self.time.pass_s(self.eval_s)
        self.result(epoch, top1_correct, top5_correct, **changes)
        self.write("span", span="training")

    def freeze(self) -> int:
        """The weights are frozen at the end of an epoch, which is returned, from 0."""
        epoch = next(epoch for epoch in range(len(self.plan)) if self.ends(epoch) == self.step)
        self.write("snapshot.taken", step=self.step, epoch=epoch)
        return epoch

    def result(self, epoch: int, top1_correct: int, top5_correct: int, /, **changes: Any) -> None:
        """What a validation of the weights frozen after an epoch has come to is known now."""
        image_size = self.recipe["phases"][self.plan[epoch]["phase_index"]]["image_size"]
        data: dict[str, Any] = {
            "step": self.ends(epoch),
            "epoch": epoch,
            "num_images": self.num_val_images,
            "top1_correct": top1_correct,
            "top5_correct": top5_correct,
            "loss": 3.0 - 2.0 * top1_correct / self.num_val_images,
            "valid": True,
            "num_classes": self.num_classes,
            "eval_s": self.eval_s,
            "image_size": image_size,
            "resize_px": int(1.14 * image_size),
            "rectangular": False,
            "flip_average": False,
            "batch_size": 100,
            "num_processes": 1,
            "weights": "model",
        }
        self.write("eval.finished", **{**data, **changes})

    def save(self, why: Sequence[str] = ("epoch",)) -> None:
        """Save a checkpoint while training waits."""
        self.write("span", span="checkpoint")
        self.time.pass_s(self.save_s)
        self.saved(self.step, save_s=self.save_s, blocked_s=self.save_s, why=why)
        self.write("span", span="training")

    def saved(self, step: int, *, save_s: float, blocked_s: float, why: Sequence[str] = ("epoch",)) -> None:
        """The checkpoint of a step is complete."""
        path = self.run.checkpoints / f"step-{step:08d}"
        path.mkdir(exist_ok=True)
        (path / "state.pt").write_bytes(b"weights")
        epoch = max((epoch for epoch in range(len(self.plan)) if self.ends(epoch) <= step), default=0)
        self.write(
            "checkpoint.saved",
            step=step,
            epoch=epoch,
            path=path.relative_to(self.run.path).as_posix(),
            bytes=7,
            save_s=save_s,
            blocked_s=blocked_s,
            sha256="7" * 64,
            why=list(why),
        )

    def finish(self, reason: str) -> None:
        """The trainer ends in order."""
        self.write("run.finished", reason=reason, step=self.step, epoch=max(0, self.step and self._last_epoch()))
        self._close(exit_code=0, reason="exited")

    def _last_epoch(self) -> int:
        return next(epoch for epoch in range(len(self.plan)) if self.ends(epoch) >= self.step)

    def kill(self, after_s: float = 0.0, *, seen: bool = True) -> None:
        """The trainer dies `after_s` after its last event; without `seen` the launcher dies with it."""
        self.time.pass_s(after_s)
        if seen:
            self._close(signal=9, reason="signalled")
        else:
            for log in self._logs.values():
                log.close()

    def _close(self, **data: Any) -> None:
        self._logs["launcher"].write("launch.ended", **data)
        for log in self._logs.values():
            log.close()


def make_script(folder: Path, *, name: str = "toy", **settings: Any) -> Script:
    """A new run directory inside `folder` and the script that fills it; `settings` are Script's fields."""
    run = RunDir.create(
        folder, name=name, recipe_text="name: toy\n", resolved_text="name: toy\n", site_text="nodes: 1\n"
    )
    return Script(run=run, **settings)


def make_run(
    folder: Path,
    *,
    accuracies: Sequence[tuple[int, int]] = ((300, 800), (500, 925), (600, 940), (700, 960)),
    reason: str | None = None,
    recipe: Mapping[str, Any] | None = None,
    site: Mapping[str, Any] | None = None,
    **settings: Any,
) -> RunDir:
    """A whole run, one (top1_correct, top5_correct) of 1,000 images an epoch, with as many epochs as accuracies.

    `recipe` and `site` replace values; without `reason` it ends with `all_epochs`..
    """
    epochs = len(accuracies)
    phases = [phase_values(-(-epochs // 2), 64, 32), *([phase_values(epochs // 2, 96, 16)] if epochs > 1 else [])]
    values = recipe_values(phases=phases, **(recipe or {}))
    script = make_script(folder, name=values["name"], recipe=values, site=site_values(**(site or {})), **settings)
    script.launch()
    script.start()
    for top1_correct, top5_correct in accuracies:
        script.train_epoch()
        script.validate(top1_correct, top5_correct)
        script.save()
    script.finish(reason or "all_epochs")
    return script.run
