"""What is refused before anything is started."""

import os
from collections import namedtuple

import pytest

from dawnrun.errors import DataError, LaunchError, RecipeError, UsageError
from dawnrun.launch.checks import check_data, check_execution, check_output, data_folders
from dawnrun.recipe.reader import read_text
from dawnrun.recipe.schema import Recipe, Site

RECIPE = """
name: toy
input: {datasets: {full: ., small: sz/64, unused: nowhere}}
phases:
  - {epochs: 1, image_size: 64, global_batch_size: 8, per_device_batch_size: 8, dataset: small}
  - {epochs: 1, image_size: 96, global_batch_size: 8, per_device_batch_size: 8}
lr: 0.1
"""


@pytest.fixture
def folders(tmp_path):
    recipe = read_text(RECIPE, Recipe, source="toy.yaml").value
    for part in ("train/a", "val/a", "sz/64/train/a", "sz/64/val/a"):
        (tmp_path / part).mkdir(parents=True)
    return data_folders(recipe, Site(data_root=tmp_path))


def test_folders_of_the_data_sets_that_are_used(folders, tmp_path):
    assert folders == {"small": tmp_path / "sz/64", "full": tmp_path}
    check_data(folders)


def test_a_missing_folder_is_named_in_full_with_the_one_beside_it(folders, tmp_path):
    """C05."""
    (tmp_path / "sz/64").rename(tmp_path / "sz/640")
    with pytest.raises(DataError) as caught:
        check_data(folders)
    first, *_, last = str(caught.value).splitlines()
    assert first == f"{tmp_path}/sz/64: no such folder (data set small); did you mean {tmp_path}/sz/640?"
    assert last.startswith("nothing was started")


def test_all_problems_are_told_at_once(folders, tmp_path):
    (tmp_path / "val/a").rmdir()
    (tmp_path / "sz/64/val/a").rmdir()
    (tmp_path / "sz/64/val").rmdir()
    with pytest.raises(DataError) as caught:
        check_data(folders)
    text = str(caught.value)
    assert f"data set small: no folder val/ or validation/ below {tmp_path}/sz/64" in text
    assert f"{tmp_path}/val: no class folders in it" in text


def test_the_layouts_that_a_run_reads_are_let_through(folders, tmp_path):
    """C16."""
    (tmp_path / "val").rename(tmp_path / "validation")
    (tmp_path / "sz/64/Data/CLS-LOC").mkdir(parents=True)
    for split in ("train", "val"):
        (tmp_path / "sz/64" / split).rename(tmp_path / "sz/64/Data/CLS-LOC" / split)
    check_data(folders)


def test_a_file_where_a_folder_belongs(folders, tmp_path):
    for part in ("a", ""):
        (tmp_path / "val" / part).rmdir()
    (tmp_path / "val").touch()
    with pytest.raises(DataError, match=r"no folder val/ or validation/ below"):
        check_data(folders)


def test_output_folder_is_made(tmp_path):
    check_output(tmp_path / "a" / "b", keep=2)
    assert (tmp_path / "a" / "b").is_dir()


def test_output_folder_below_a_file(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(
        UsageError, match="file/runs: runs cannot be kept here: not a directory; --run-root, or run_root"
    ):
        check_output(tmp_path / "file" / "runs", keep=2)


def test_output_folder_that_is_a_file(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="file: runs cannot be kept here: it is a file; --run-root, or run_root"):
        check_output(tmp_path / "file", keep=2)


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_output_folder_without_permission(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="permission"):
        check_output(tmp_path, keep=2)


def test_a_disk_without_room_for_the_checkpoints(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage(1, 1, 210_000_000 * 5 - 1))
    with pytest.raises(
        LaunchError,
        match=r"1001\.4 MiB free, 1001\.4 MiB needed for 5 checkpoints: 2 that .* lower checkpoint\.keep; --run",
    ):
        check_output(tmp_path, keep=2)
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage(1, 1, 210_000_000 * 5))
    check_output(tmp_path, keep=2)


@pytest.mark.parametrize(("device", "processes", "words"), [("cpu", 1, "needs a CUDA device"), ("cuda", 2, "not in 2")])
def test_graphs_where_they_cannot_work_are_refused_at_their_line(device, processes, words):
    document = read_text(f"{RECIPE}compute: {{execution: cuda_graph}}\n", Recipe, source="toy.yaml")
    with pytest.raises(RecipeError, match=f"toy.yaml:8:22: compute.execution: cuda_graph .*{words}"):
        check_execution(document, Site(device=device, processes_per_node=processes))
    check_execution(document, Site(device="cuda", processes_per_node=1))
