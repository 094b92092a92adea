"""`dawnrun` with the fake worker in the trainer's place; everything else is the product."""

import sys
from dataclasses import replace
from pathlib import Path

import dawnrun.cli.train
import dawnrun.cli.validate
from dawnrun.cli import attempt, main

WORKER = str(Path(__file__).with_name("fake_worker.py"))
validate_command = dawnrun.cli.validate.command


def job_of(run, number, recipe, site):
    job = attempt.job_of(run, number, recipe, site)
    return replace(job, command=(WORKER, *job.command[2:]))


dawnrun.cli.train.job_of = job_of
dawnrun.cli.validate.command = lambda *words: (WORKER, *validate_command(*words)[2:])
if __name__ == "__main__":
    sys.exit(main.run())
