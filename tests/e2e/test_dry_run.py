"""`--dry-run` on this machine: what is printed, typed into a shell, is the same job."""

import os
import subprocess
from pathlib import Path

from cli_runs import Cli
from worker_runs import worker_environment

from dawnrun.record.rundir import RunDir
from dawnrun.record.summary import summarize


def test_the_printed_command_run_by_hand(cli: Cli) -> None:
    done = cli.run("train", "--config", "tiny.yaml", "--site", "site.yaml", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert not list(cli.folder.glob("runs/tiny-*"))
    run = cli.folder / "runs" / "by-hand"
    for folder in ("attempts/1", "logs/1", "events", "checkpoints"):
        (run / folder).mkdir(parents=True)
    script, there = "", ""
    for line in done.stdout.splitlines():
        if line.startswith("# file "):
            there = there or str(Path(line[7:-1]).parent)
            script += f"cat > '{line[7:-1]}' <<'END OF FILE'\n"
        elif line.startswith("# end of "):
            script += "END OF FILE\n"
        else:
            script += f"{line}\n"
    script = script[script.index("cat > ") :].replace(there, str(run))
    reader, writer = os.pipe()  # a terminal: it stays open, and with it the lease
    typed = subprocess.run(
        ["bash", "-c", script], cwd=cli.folder, env=worker_environment(), stdin=reader, capture_output=True, text=True,
        timeout=100, check=False,
    )  # fmt: skip
    os.close(reader)
    os.close(writer)
    assert typed.returncode == 0, typed.stderr
    assert summarize(RunDir(run)).status == "finished"
