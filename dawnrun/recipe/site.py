"""A site made definite: how many processes there are."""

from dawnrun.recipe.schema import Site


def resolve_site(site: Site, devices: int) -> Site:
    """`site` with `processes_per_node: auto` replaced by one process a device, one where there is none (a CPU)."""
    if site.processes_per_node != "auto":
        return site
    return site.model_copy(update={"processes_per_node": max(1, devices)})
