"""`dawnrun jobs`: what runs, what it prints, and how it is stopped; whatever launcher started it."""

import time
from pathlib import Path

import click

from dawnrun.cli.console import console
from dawnrun.errors import ExitCode, UsageError
from dawnrun.launch.outcome import is_running, read_node
from dawnrun.launch.queue import held_by
from dawnrun.record.rundir import RunDir, newest_runs
from dawnrun.record.summary import summarize
from dawnrun.text import escaped

MOST_RUNS = 20
POLL_S = 0.5
RUN = click.argument("run_path", metavar="RUN", type=click.Path(path_type=Path))


@click.group()
def jobs() -> None:
    """List, follow and stop runs."""


def state_of(run: RunDir) -> str:
    """`running`, `job 12 of Slurm`, or how the run ended."""
    newest = max(run.attempts(), default=0)
    if newest:
        number = held_by(run.attempt_dir(newest))
        if number:
            return f"job {number} of Slurm"
        if is_running(run.attempt_dir(newest), run.events_dir(newest) / "trainer.jsonl"):
            return "running"
    return summarize(run).status


@jobs.command("list")
@click.option(
    "--run-root", type=click.Path(path_type=Path), default=Path("runs"), metavar="DIR", help="Where the runs are."
)
def list_jobs(run_root: Path) -> ExitCode:
    """The newest runs, where they run and how they are."""
    if not run_root.is_dir():
        raise UsageError(f"{run_root}: no such folder; --run-root says where the runs are")
    for path in newest_runs(run_root, MOST_RUNS):
        run = RunDir(path)
        newest = max(run.attempts(), default=0)
        host = read_node(run.attempt_dir(newest)).get("host", "-") if newest else "-"
        console().print(f"{escaped(path)}  attempt {newest}  first node {host}  {state_of(run)}", soft_wrap=True)
    return ExitCode.OK


@jobs.command("logs")
@RUN
@click.option("--rank", type=click.IntRange(min=0), default=0, metavar="N", help="Which process.")
@click.option("--node", type=click.IntRange(min=0), metavar="N", help="What a node's agent prints, instead of a rank.")
@click.option("--follow", is_flag=True, help="Go on until the run has ended.")
def show_logs(run_path: Path, rank: int, node: int | None, follow: bool) -> ExitCode:
    """What one process of the newest attempt prints."""
    run = RunDir.open(run_path.absolute())
    log = (
        run.logs
        / str(max(run.attempts(), default=0))
        / (f"rank-{rank:03d}.log" if node is None else f"node-{node}.log")
    )
    if not log.exists() and not follow:
        raise UsageError(f"{log}: nothing printed yet; --follow waits for it")
    offset = 0
    while True:
        going = follow and not state_of(run).startswith(("finished", "failed", "preempted", "interrupted"))
        if log.exists():
            with log.open("rb") as file:
                file.seek(offset)
                text = file.read()
            offset += len(text)
            click.echo(text.decode(errors="replace"), nl=False)
        if not going:
            return ExitCode.OK
        time.sleep(POLL_S)


@jobs.command("stop")
@RUN
@click.option("--now", is_flag=True, help="Kill it without a checkpoint.")
def stop(run_path: Path, now: bool) -> ExitCode:
    """Have a run save and end, wherever it was started."""
    run = RunDir.open(run_path.absolute())
    newest = max(run.attempts(), default=0)
    folder = run.attempt_dir(newest)
    if not newest or not (held_by(folder) or is_running(folder, run.events_dir(newest) / "trainer.jsonl")):
        raise UsageError(f"{run.path}: nothing of it runs: {state_of(run)}")
    # The mark first: a batch job that ends after it does not go back into the queue.
    (folder / "cancelled").touch()
    (folder / "orders").write_text("now" if now else "save", encoding="utf-8")
    console().print(f"{escaped(run.path)}: told to {'end at once' if now else 'save and end'}", soft_wrap=True)
    return ExitCode.OK
