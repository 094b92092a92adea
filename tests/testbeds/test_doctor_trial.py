"""`doctor` tries a run's parts out through ssh and through Slurm, two processes on each of two nodes."""

import pytest

TINY = ("--config", "tiny.yaml", "--site", "site.yaml")


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("launcher", ["ssh", "slurm"])
def test_a_trial_on_two_nodes(place, tiny, launcher, request):
    values = {"data_root": str(tiny), "processes_per_node": 2}
    if launcher == "slurm":
        request.getfixturevalue("slurm")
        place.slurm_site(**values)
    else:
        place.site(**values)
    code, text = place.run("doctor", *TINY, fake=False)
    print(text)
    assert code == 0, text
    for node in ("node1", "node2"):
        assert f"good   {node}: memory with 4 images of 32 px: " in text
        assert f"good   {node}: all-reduce between all 4 processes: " in text
        assert f"good   {node}: all-reduce within the node, between 2 processes: " in text
    assert not list((place.folder / "runs").iterdir())
    assert place.processes() == {}
