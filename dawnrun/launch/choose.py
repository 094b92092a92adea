"""From a site to the launcher it names."""

from collections.abc import Callable, Mapping
from pathlib import Path

from dawnrun.launch.base import Launcher
from dawnrun.launch.checks import node_needs
from dawnrun.launch.local import LocalLauncher
from dawnrun.recipe.schema import Site


def open_launcher(site: Site, *, data: Mapping[str, Path], tell: Callable[[str], None] = print) -> Launcher:
    """The launcher of a site; `data`: folders that its nodes must have; `tell` takes remarks for the user."""
    if site.launcher.ssh is not None:
        from dawnrun.launch.ssh import SshLauncher

        return SshLauncher(site, needs=node_needs(site, data), tell=tell)
    if site.launcher.slurm is not None:
        from dawnrun.launch.slurm import SlurmLauncher

        return SlurmLauncher(site.launcher.slurm, needs=node_needs(site, data))
    return LocalLauncher()
