"""Which device a run gets, without torch."""

import pytest

from dawnrun.errors import LaunchError
from dawnrun.launch import devices
from dawnrun.launch.devices import Found, available_cores, find_device, hints, resolve_site
from dawnrun.recipe.schema import Site

CPU = Found(device="cpu", count=1, how="")
GPUS = Found(device="cuda", count=4, how="")


@pytest.fixture
def torch_says(monkeypatch):
    """Answer in torch's place; the test fails if torch is asked without it."""
    monkeypatch.setattr(devices, "_ask_torch", lambda: pytest.fail("torch was asked"))
    return lambda *answer: monkeypatch.setattr(devices, "_ask_torch", lambda: answer)


@pytest.mark.parametrize(
    ("node", "environment", "expected"),
    [
        ("nvidia0", {}, 1),
        ("nvidia0", {"CUDA_VISIBLE_DEVICES": ""}, 0),
        ("nvidia0", {"CUDA_VISIBLE_DEVICES": "-1"}, 0),
        ("nvidia0", {"CUDA_VISIBLE_DEVICES": "0,1"}, 1),
        ("nvidiactl", {}, 0),
        ("kfd", {}, 1),
        ("accel0", {}, 1),
        ("dri/renderD128", {}, 1),
        ("tty0", {}, 0),
    ],
)
def test_hints(tmp_path, node, environment, expected):
    path = tmp_path / node
    path.parent.mkdir(exist_ok=True)
    path.touch()
    assert len(hints(tmp_path, environment)) == expected


def test_without_a_hint_torch_is_not_asked(torch_says):
    found = find_device("auto", hinted=[])
    assert (found.device, found.count) == ("cpu", 1)
    assert find_device("cpu", hinted=["/dev/nvidia0"]).device == "cpu"


def test_torch_decides_what_a_hint_means(torch_says):
    torch_says("cuda", 8, "")
    assert find_device("auto", hinted=["/dev/nvidia0"]) == Found(device="cuda", count=8, how="torch.accelerator")
    torch_says("cpu", 0, "")
    assert find_device("auto", hinted=["/dev/dri/renderD128"]).how == "torch finds no accelerator"
    torch_says("cpu", 0, "torch could not be asked: ImportError: x")
    assert find_device("auto", hinted=["/dev/nvidia0"]).how == "torch could not be asked: ImportError: x"


def test_a_device_that_is_not_there(torch_says):
    torch_says("cpu", 0, "")
    with pytest.raises(
        LaunchError, match="device cuda was asked for, but torch finds no accelerator, only the CPU; set device: auto"
    ):
        find_device("cuda", hinted=[])


def test_the_site_is_made_definite(tmp_path, monkeypatch):
    """C05: relative folders are absolute from the start, wherever the workers run."""
    monkeypatch.chdir(tmp_path)
    site = resolve_site(Site(), GPUS, cores=16)
    assert (site.device, site.world_size, site.threads_per_process) == ("cuda", 4, 4)
    assert site.data_root == tmp_path / "data"
    assert site.run_root == tmp_path / "runs"
    assert resolve_site(Site(), CPU, cores=6).threads_per_process == 6
    assert resolve_site(Site(processes_per_node=4), CPU, cores=2).threads_per_process == 1
    assert resolve_site(Site(threads_per_process=5), CPU, cores=2).threads_per_process == 5


def test_more_processes_than_devices():
    with pytest.raises(LaunchError, match="asks for 8 processes, but there are 4 x cuda here"):
        resolve_site(Site(processes_per_node=8), GPUS, cores=8)


@pytest.mark.parametrize(
    ("text", "expected"), [("max 100000", 8), ("350000 100000", 3), ("50000 100000", 1), ("nonsense", 8)]
)
def test_cores_of_a_container(tmp_path, monkeypatch, text, expected):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)))
    (tmp_path / "cpu.max").write_text(text)
    assert available_cores(tmp_path) == expected
    assert available_cores(tmp_path / "none") == 8
