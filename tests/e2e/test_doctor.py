"""`dawnrun doctor` on this machine: it starts the processes of a run and measures; what would fail is told."""

import re

from cli_runs import Cli


def test_a_good_machine(cli: Cli) -> None:
    cli.site(2)
    done = cli.run("doctor", "--config", "tiny.yaml", "--site", "site.yaml")
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"good   this machine: memory with 4 images of 32 px: [\d.]+ [GM]iB of [\d.]+ GiB", done.stdout)
    assert re.search(r"good   this machine: input alone gives [\d.e+]+ images/s, steps of 32 px take", done.stdout)
    assert re.search(r"all-reduce between all 2 processes: [\d.]+ ms, [\d.e-]+ GB/s", done.stdout)
    assert not list((cli.folder / "runs").iterdir())


def test_a_run_that_would_fail(cli: Cli) -> None:
    """The trainer's own message comes through, and nothing is left."""
    (cli.folder / "broken.py").write_text("def net(num_classes):\n    raise ValueError('no such layer')\n")
    done = cli.run("doctor", "--config", "tiny.yaml", "--site", "site.yaml", "--set", "model.import=broken:net")
    assert done.returncode == 4, done.stdout + done.stderr
    assert "fails  this machine: the trial failed: " in done.stdout and "no such layer" in done.stdout
    assert "a run would fail: 1 problem on this machine; nothing was started" in done.stderr
    done = cli.run("doctor", "--config", "tiny.yaml", "--site", "site.yaml", "--quick")
    assert done.returncode == 0 and "memory with" not in done.stdout
