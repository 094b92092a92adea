"""From a site to the launcher it names."""

from collections.abc import Callable, Mapping
from typing import Any

from dawnrun.launch.base import Launcher
from dawnrun.launch.local import LocalLauncher
from dawnrun.recipe.schema import Site


def open_launcher(site: Site, *, needs: Mapping[str, Any], tell: Callable[[str], None] = print) -> Launcher:
    """The launcher of a site; `needs`: what its nodes must have (checks.node_needs); `tell` takes remarks for the user."""
    if site.launcher.ssh is not None:
        from dawnrun.launch.ssh import SshLauncher

        return SshLauncher(site, needs=needs, tell=tell)
    if site.launcher.slurm is not None:
        from dawnrun.launch.slurm import SlurmLauncher

        return SlurmLauncher(site.launcher.slurm)
    return LocalLauncher()
