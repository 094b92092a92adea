"""Run every published recipe with --shrink demo on 2 CPU processes and print one table: `make records`.

run_records.py [--folder DIR] [RECIPE...]; ends with 1 if a run failed, missed a phase or its loss was not finite. The logs
and the runs stay in the folder, without their checkpoints (180 MB each).
"""

import argparse
import math
import os
import resource
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

from dawnrun.dataset.demo import write_demo
from dawnrun.recipe.builtin import names
from dawnrun.recipe.reader import read
from dawnrun.recipe.schema import Recipe
from dawnrun.recipe.shrink import shrink
from dawnrun.record.rundir import RunDir
from dawnrun.record.summary import summarize
from dawnrun.report.records import load_records
from dawnrun.text import duration

IMAGES_PER_CLASS = 4
"""120 training images: two or three steps in an epoch of the largest batches, which is where the time goes."""
ROW = "{:<20} {:>9} {:>6} {:>7} {:>9} {:>6}  {}"
SITE = "name: two-cpu-processes\ndevice: cpu\nprocesses_per_node: 2\ndata_root: {0}\nrun_root: {0}/runs\n"


def main() -> int:
    """0 if every run went through all its phases with a finite loss."""
    parser = argparse.ArgumentParser(description="Run published recipes with --shrink demo.")
    parser.add_argument("--folder", type=Path, default=Path("runs/records"))
    parser.add_argument("recipes", nargs="*")
    arguments = parser.parse_args()
    folder = arguments.folder.absolute()
    write_demo(folder / "demo", train_per_class=IMAGES_PER_CLASS, val_per_class=1)
    (folder / "site.yaml").write_text(SITE.format(folder), encoding="utf-8")
    times = {record.name: record.seconds for record in load_records()}
    chosen = arguments.recipes or [name for name in names() if read(name, Recipe).value.provenance.confidence != "own"]
    print(ROW.format("recipe", "published", "steps", "phases", "loss", "s", "result"))
    good, all_began = True, time.perf_counter()
    for name in chosen:
        seconds = times.get(name)
        published = "-" if seconds is None else duration(float(seconds))
        began = time.perf_counter()
        run, code = _train(name, folder)
        cells, result = _outcome(name, run, code)
        print(ROW.format(name, published, *cells, f"{time.perf_counter() - began:.0f}", result), flush=True)
        good = good and result == "ok"
        if run is not None:
            shutil.rmtree(run.checkpoints, ignore_errors=True)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{len(chosen)} recipes in {duration(time.perf_counter() - all_began)}"
        f" ({spent.ru_utime + spent.ru_stime:,.0f} seconds of CPU time)"
    )
    return 0 if good else 1


def _train(name: str, folder: Path) -> tuple[RunDir | None, int]:
    """One run; its output goes to a file of the recipe's name."""
    command = [*shlex.split(os.environ.get("DAWNRUN", f"{shlex.quote(sys.executable)} -m dawnrun")), "train"]
    command += ["--config", name, "--shrink", "demo", "--site", str(folder / "site.yaml")]
    with (folder / f"{name}.log").open("w", encoding="utf-8") as log:
        code = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False).returncode
    found = sorted((folder / "runs").glob(f"{name}-shrunk-*"))
    return (RunDir.open(found[-1]) if found else None), code


def _outcome(name: str, run: RunDir | None, code: int) -> tuple[tuple[str, str, str], str]:
    """(steps, phases, final loss) and `ok`, or what is wrong."""
    wanted = len(shrink(read(name, Recipe).value).phases)
    if run is None:
        return ("-", f"0/{wanted}", "-"), f"exit code {code}, see {name}.log"
    summary = summarize(run)
    loss = summary.progress[-1].loss if summary.progress else None
    cells = (str(summary.total_steps), f"{len(summary.phases)}/{wanted}", "-" if loss is None else f"{loss:.3f}")
    if code:
        return cells, f"exit code {code}, see {name}.log"
    if summary.steps_done != summary.total_steps or len(summary.phases) != wanted:
        return cells, "not all steps were made"
    return cells, "ok" if loss is not None and math.isfinite(loss) else "loss not finite"


if __name__ == "__main__":
    sys.exit(main())
