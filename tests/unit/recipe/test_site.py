"""Sites made definite."""

import pytest

from dawnrun.recipe.schema import Site
from dawnrun.recipe.site import resolve_site


@pytest.mark.parametrize(("devices", "processes"), [(0, 1), (1, 1), (8, 8)])
def test_auto_is_one_process_a_device(devices, processes):
    """One on a CPU, else one each."""
    site = resolve_site(Site(nodes=2), devices)
    assert site.processes_per_node == processes
    assert site.world_size == 2 * processes


def test_a_number_stays():
    """What the site says is kept."""
    assert resolve_site(Site(processes_per_node=3), 8) == Site(processes_per_node=3)


def test_world_size_of_auto_is_not_known():
    """Nobody computes with a number of processes that is not known."""
    with pytest.raises(ValueError, match="not resolved"):
        _ = Site().world_size
