"""docs/sites.md: its examples read, and give what the page says."""

import re
from pathlib import Path

from dawnrun.launch.base import Job
from dawnrun.launch.choose import open_launcher
from dawnrun.launch.kubernetes import manifest
from dawnrun.recipe.reader import read_text
from dawnrun.recipe.schema import Site

PAGE = (Path(__file__).parents[3] / "docs" / "sites.md").read_text(encoding="utf-8")


def test_examples():
    """Every site of the page can be planned."""
    whole = [text for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.S) if text.startswith("name: ")]
    sites = {site.name: site for site in (read_text(text, Site, source="sites.md").value for text in whole)}
    assert set(sites) == {"this-machine", "two-that-train", "two-hosts", "cluster", "pods"}
    assert sites["this-machine"].world_size == 2
    run = Path("/shared/runs/r")

    def job(name):
        return Job(folder=run / "attempts/1", logs=run / "logs/1", site=sites[name], command=("x", "1"))

    names = ("two-that-train", "two-hosts", "cluster")
    beside, ssh, slurm = (open_launcher(sites[name], data={}).plan(job(name)) for name in names)
    assert len(beside.commands) == 3 and "node3" in beside.commands[2]
    assert [command[0] for command in ssh.commands] == ["ssh", "ssh"]
    assert "ServerAliveInterval=5" in ssh.commands[0] and "BatchMode=yes" in ssh.commands[0]
    assert slurm.commands[0][:2] == ("sbatch", "--parsable")
    assert "registry.example.org/dawnrun:0.1" in manifest(job("pods"), {})


def test_every_launcher_has_a_section():
    for section in ("local", "ssh", "Slurm", "Kubernetes", "doctor", "Failures, measured"):
        assert f"\n## {section}\n" in PAGE
