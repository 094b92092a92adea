"""`dawnrun data stage`: the data sets of a recipe on a disk of every node, before the clock."""

import shutil
import tempfile
import time
from pathlib import Path

import click

from dawnrun.cli.attempt import say
from dawnrun.cli.console import PlainProgress
from dawnrun.cli.machine import find_machine
from dawnrun.errors import ExitCode, UsageError
from dawnrun.launch.checks import check_output, staged_folders
from dawnrun.recipe.reader import read
from dawnrun.recipe.schema import Recipe, Site
from dawnrun.text import duration, escaped, plural, size

LITTLE_BYTES = 100 * 10**6
"""What is less is over before a line about it is read."""


@click.command()
@click.option("--config", required=True, metavar="RECIPE", help="Recipe file, or the name of a shipped recipe.")
@click.option("--site", "site_name", required=True, metavar="SITE", help="Site file or name, with local_data_root.")
@click.option(
    "--read-back", is_flag=True, help="Read every copy once more: checksums are compared, and it stays in memory."
)
@click.option("--run-root", type=click.Path(path_type=Path), metavar="DIR", help="Where small files are exchanged.")
def stage(config: str, site_name: str, read_back: bool, run_root: Path | None) -> ExitCode:
    """Copy exactly the data sets that a recipe uses to local_data_root on every node.

    The first node alone reads the shared disk; each node passes on to the next. Sizes and checksums are compared. Killed
    at any point, the same command goes on; complete copies are kept. No clock of a run counts this time.
    """
    from dawnrun.launch.staging import stage_site  # brings numpy and Pillow

    recipe = read(config, Recipe).value
    site = find_machine(read(site_name, Site).value, run_root=run_root).site
    sets = staged_folders(recipe, site)
    if not sets:
        raise UsageError(f"site {site.name}: local_data_root says where copies go; it is not set")
    if site.local_data_root == site.data_root:
        raise UsageError(f"site {site.name}: local_data_root and data_root are the same folder")
    for name, (source, place) in sets.items():
        say(f"data        {name}: {escaped(source)} -> {escaped(place)} on {plural(site.nodes, 'node')}")
    check_output(site.run_root, recipe.checkpoint.keep)
    folder = Path(tempfile.mkdtemp(prefix=".stage-", dir=site.run_root))
    began, shown = time.perf_counter(), Slowest(site.nodes)
    try:
        reports = stage_site(site, sets, folder, check=read_back, advance=shown.advance)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for rank, report in enumerate(reports):
        kept = report["num_files"] - report["num_copied"]
        say(
            f"node {rank} ({report['host']}): {plural(report['num_copied'], 'file')} copied"
            f" ({size(report['copied_bytes'])}), {kept:,} there already, in {report['seconds']:.1f} s"
        )
    checked = "; read back, checksums equal, now in memory" if read_back else ""
    took_s, total = time.perf_counter() - began, reports[0]["num_bytes"] * len(reports)
    say(f"staged {size(total)} on {plural(len(reports), 'node')} in {duration(took_s)}, outside the clock{checked}")
    if site.launcher.slurm is not None:
        say("Slurm may give the next job other nodes: stage inside the allocation (salloc) that it runs in")
    return ExitCode.OK


class Slowest:
    """Shows how far the slowest node is, in MB."""

    def __init__(self, nodes: int) -> None:
        """Nothing is shown before the first node says how much it gets."""
        self._left: dict[int, int] = dict.fromkeys(range(nodes), -1)
        self._total, self._shown = 0, 0
        self._lines: PlainProgress | None = None

    def advance(self, rank: int, done: int, total: int) -> None:
        """A node has so many of its bytes."""
        self._left[rank], self._total = total - done, max(self._total, total)
        if self._total < LITTLE_BYTES:
            return
        if self._lines is None:
            self._lines = PlainProgress("copying, MB", self._total // 10**6, lambda line: click.echo(line, err=True))
        done_mb = (self._total - max(self._left.values())) // 10**6
        if done_mb > self._shown:
            self._lines.advance(done_mb - self._shown)
            self._shown = done_mb
