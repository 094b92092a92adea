"""`data stage` on real nodes, of which the second has a disk of its own; and a run from there."""

import shutil

import pytest
from testbed_place import REAL

TINY = ("--config", "tiny.yaml", "--site", "site.yaml")


def local_root(place) -> str:
    """The first node sees it where this machine does, the second has a disk of its own there."""
    return str(place.hosts.folder / "own" / place.folder.name)


def test_staged_over_ssh(place, tiny):
    """Told as missing before, copied once by one reader, kept the second time."""
    root = local_root(place)
    place.site(data_root=str(tiny), local_data_root=root, fake="finish")
    code, text = place.run("train", *TINY)
    assert code == 4, text
    assert f"node2: not in local_data_root {root}: full; copy it there with: dawnrun data stage" in text
    code, text = place.run("data", "stage", *TINY, "--read-back")
    print(text)
    assert code == 0, text
    assert "node 0 (node1): 91 files copied (" in text and "node 1 (node2): 91 files copied (" in text
    assert "outside the clock; read back, checksums equal, now in memory" in text
    assert "90" in place.hosts.console(2, "sh", "-c", f"find {root}/tiny -name '*.jpg' | wc -l")
    assert not list((place.folder / "runs").glob(".stage-*"))
    code, text = place.run("data", "stage", *TINY)
    assert code == 0 and "node 1 (node2): 0 files copied (0 B), 91 there already" in text, text
    code, text = place.run("doctor", "--quick", *TINY)
    assert code == 0, text
    assert place.processes() == {}


@pytest.mark.slow
def test_would_not_fit(place, tiny):
    """`doctor` compares sizes; a copy that cannot be made is told with the node."""
    own = place.hosts.folder / "own"
    place.hosts.console(2, "sh", "-c", f"rm -rf {own}/*; mount -o remount,size=100k {own}")
    try:
        place.site(data_root=str(tiny), local_data_root=local_root(place))
        code, text = place.run("doctor", *TINY)
        assert code == 4 and "node2: local_data_root has " in text and "free, the data sets take" in text, text
        code, text = place.run("data", "stage", *TINY)
        assert code == 4 and "node 1 (node2): " in text and "are to be copied" in text, text
        assert "node 0" not in text, text
    finally:
        place.hosts.console(2, "mount", "-o", "remount,size=50%", str(own))


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_run_from_local_disks(place, slurm, tiny, undisturbed):
    """Staged under Slurm, the shared copy gone: the same weights at the end."""
    shared = place.folder / "shared"
    shutil.copytree(tiny, shared)
    place.slurm_site(data_root=str(shared), local_data_root=local_root(place))
    code, text = place.run("data", "stage", *TINY)
    assert code == 0, text
    assert "node 1 (node2): 91 files copied" in text and "stage inside the allocation" in text
    shutil.rmtree(shared)
    code, text = place.run(*REAL, fake=False)
    assert code == 0, text
    assert undisturbed.differences(place.run_dir) == []
