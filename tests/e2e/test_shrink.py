"""`--shrink demo`: a published recipe through all its phases, and what its report says."""

from pathlib import Path

from cli_runs import Cli

from dawnrun.dataset.demo import write_demo


def test_shrunk_recipe_runs_and_cannot_be_mistaken(cli: Cli) -> None:
    """LARS and mirrored momentum at four sizes in a few steps; the report and the competition's files refuse the name."""
    write_demo(cli.folder / "data" / "demo", train_per_class=2, val_per_class=1)
    asked = ("--config", "alibaba-2m38", "--shrink", "demo", "--site", "site.yaml", "--data-root", "data")
    done = cli.run("train", *asked)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "changed     made small by --shrink demo" in done.stdout and "phase 4 of 4" in done.stdout
    run = cli.newest()
    assert run.name.startswith("alibaba-2m38-shrunk-")
    report = cli.run("report", str(run))
    assert "NOT A REPRODUCTION" in report.stdout and report.returncode == 0
    author = ("--author", "someone", "--email", "someone@example.org")
    refused = cli.run("report", str(run), "--output", "out", "--partial", *author)
    assert "made small by --shrink is no entry to a competition" in refused.stdout + refused.stderr
    assert refused.returncode != 0 and not list(Path(cli.folder / "out").rglob("*.tsv"))
