"""The run directory: the name of everything in it, how one is made, and how one is recognised."""

import os
import secrets
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Self

from dawnrun.errors import LaunchError, UsageError
from dawnrun.record.events import EventLog, sync_folder, utc_now


@dataclass(frozen=True)
class RunDir:
    """One run. Everything about it lies in this folder, and every report is read from it."""

    path: Path

    @property
    def recipe_yaml(self) -> Path:
        """The recipe as it was given."""
        return self.path / "recipe.yaml"

    @property
    def resolved_yaml(self) -> Path:
        """The recipe with every value written out."""
        return self.path / "resolved.yaml"

    @property
    def site_yaml(self) -> Path:
        """The site with every value written out."""
        return self.path / "site.yaml"

    @property
    def checkpoints(self) -> Path:
        """Folder of checkpoints, `step-00012345/` each."""
        return self.path / "checkpoints"

    @property
    def snapshots(self) -> Path:
        """Folder of weights that wait to be validated."""
        return self.path / "snapshots"

    @property
    def logs(self) -> Path:
        """Folder of what the processes print, `rank-000.log` each."""
        return self.path / "logs"

    @property
    def report(self) -> Path:
        """Folder that `dawnrun report` writes to by default."""
        return self.path / "report"

    @property
    def seal_json(self) -> Path:
        """SHA-256 of the event files and the crossing checkpoint, written at the end."""
        return self.path / "seal.json"

    def attempt_dir(self, attempt: int) -> Path:
        """What was started in this attempt: plan, scripts."""
        return self.path / "attempts" / str(attempt)

    def events_dir(self, attempt: int) -> Path:
        """Folder of this attempt's event files."""
        return self.path / "events" / str(attempt)

    def event_files(self, attempt: int) -> Sequence[Path]:
        """The attempt's event files, by name of the writer."""
        return sorted(self.events_dir(attempt).glob("*.jsonl"))

    @classmethod
    def create(
        cls,
        run_root: Path,
        *,
        name: str,
        recipe_text: str,
        resolved_text: str,
        site_text: str,
        now: Callable[[], datetime] = datetime.now,
    ) -> Self:
        """A new folder `<name>-<date>-<time>-<4 hex digits>`, there only when complete; UsageError if it cannot be made."""
        aside = run_root / f".new-{secrets.token_hex(8)}"
        try:
            for folder in ("events", "attempts", "checkpoints", "logs"):
                (aside / folder).mkdir(parents=True)
            texts = {"recipe.yaml": recipe_text, "resolved.yaml": resolved_text, "site.yaml": site_text}
            for file, text in texts.items():
                (aside / file).write_text(text, encoding="utf-8")
            path = run_root / f"{name}-{now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
            while path.exists():
                path = path.with_name(f"{path.name[:-4]}{secrets.token_hex(2)}")
            aside.rename(path)
            sync_folder(run_root)
        except OSError as error:
            shutil.rmtree(aside, ignore_errors=True)
            raise UsageError(f"{run_root}: a run directory cannot be made here: {error.strerror}") from error
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> Self:
        """The run directory at `path`; UsageError in one line if there is none, naming the newest runs inside."""
        run = cls(path)
        if not path.exists():
            raise UsageError(f"{path}: no such run directory")
        if not path.is_dir():
            raise UsageError(f"{path}: a file, not a run directory")
        try:
            missing = run._missing()
            inside = [] if not missing else newest_runs(path)
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
        if missing:
            found = f"; newest runs in it: {', '.join(map(str, inside))}" if inside else ""
            raise UsageError(f"{path}: not a run directory: it has no {' and no '.join(missing)}{found}")
        return run

    def _missing(self) -> list[str]:
        """Names that a run directory has and this folder has not."""
        names = {"resolved.yaml": self.resolved_yaml.is_file(), "events": (self.path / "events").is_dir()}
        return [name for name, there in names.items() if not there]

    def attempts(self) -> Sequence[int]:
        """Numbers of the attempts, in order; from `events/` where a copy of the run came without `attempts/`."""
        folders = [*(self.path / "attempts").glob("*"), *(self.path / "events").glob("*")]
        return sorted({int(folder.name) for folder in folders if folder.name.isdecimal() and folder.is_dir()})

    def new_attempt(self) -> int:
        """Take the next number; LaunchError if another process takes it at the same moment."""
        attempt = max(self.attempts(), default=0) + 1
        try:
            self.attempt_dir(attempt).mkdir(parents=True)
        except FileExistsError as error:
            raise LaunchError(f"{self.path}: attempt {attempt} is being started by another process") from error
        except OSError as error:
            raise LaunchError(f"{self.path}: attempt {attempt} cannot be started: {error.strerror}") from error
        return attempt

    def log(
        self, writer: str, attempt: int, *, t_s: Callable[[], float], utc_now: Callable[[], datetime] = utc_now
    ) -> EventLog:
        """Open the event file of one writer in one attempt; each can be opened once."""
        path = self.events_dir(attempt) / f"{writer}.jsonl"
        return EventLog(path, writer=writer, attempt=attempt, t_s=t_s, utc_now=utc_now)


def newest_runs(run_root: Path, limit: int = 3) -> Sequence[Path]:
    """The newest run directories directly inside a folder, newest first."""
    runs = [
        Path(entry.path) for entry in os.scandir(run_root) if entry.is_dir() and not RunDir(Path(entry.path))._missing()
    ]
    return sorted(runs, key=lambda run: (run.stat().st_mtime, run.name), reverse=True)[:limit]
