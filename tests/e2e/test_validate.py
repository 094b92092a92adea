"""Stand-alone validation: the counts of the run, and counts that can be known beforehand."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from cli_runs import Cli, sets, trainer_events

from dawnrun.train.checkpoint import read_manifest

SHORT = ("phases[0].epochs=1", "phases[0].global_batch_size=20", "phases[0].per_device_batch_size=10")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, data_root: Path) -> Cli:
    cli = Cli(tmp_path_factory.mktemp("validated"), data_root)
    done = cli.train(*SHORT, "validation.batch_size=7")
    assert done.returncode == 0, done.stdout + done.stderr
    return cli


def counts(cli: Cli, *arguments: str, processes: int = 1) -> dict:
    """What `dawnrun validate` found."""
    site = cli.site(processes, f"{processes}.yaml")
    done = cli.run("validate", *arguments, "--site", site, "--format", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("processes", [1, 2])
def test_same_counts_as_in_the_run(trained: Cli, processes: int) -> None:
    """C22: alone, in one process and in two."""
    run = trained.newest()
    inside = trainer_events(run, 1, "eval.finished")[0]["data"]
    alone = counts(trained, str(run), processes=processes)
    for name in ("num_images", "top1_correct", "top5_correct", "image_size", "resize_px", "step"):
        assert alone[name] == inside[name], name
    assert alone["num_processes"] == processes


def test_fast_ais_rectangles_on_two_processes_as_on_one(trained: Cli) -> None:
    """The batches whose mean ratio decides are cut from all images, not from a process's share."""
    words = (str(trained.newest()), "--rectangular", "--rectangular-batch", "7", "--image-size", "40")
    one, two = (counts(trained, *words, processes=processes) for processes in (1, 2))
    assert (one["rectangular"], one["rectangular_batch"], one["image_size"]) == (True, 7, 40)
    for name in ("num_images", "top1_correct", "top5_correct"):
        assert one[name] == two[name], name


def test_without_the_blacklisted_images(trained: Cli, tmp_path: Path) -> None:
    root = tmp_path / "named"
    shutil.copytree(trained.data_root, root)
    for number, path in enumerate(sorted((root / "tiny/val").rglob("*.jpg")), start=1):
        path.rename(path.with_name(f"ILSVRC2012_val_{number:08d}.JPEG"))
    (tmp_path / "black.txt").write_text("3\n30\n")
    words = ("--exclude-blacklisted", "--blacklist-file", str(tmp_path / "black.txt"), "--data-root", str(root))
    assert counts(trained, str(trained.newest()), *words)["num_images"] == 28
    done = trained.run("validate", str(trained.newest()), "--exclude-blacklisted")
    assert done.returncode == 2 and "need each other" in done.stderr


def constant_predictor(source: Path, target: Path, label: int) -> None:
    """A copy of a checkpoint whose last layer says `label` for every image."""
    import hashlib

    shutil.copytree(source, target)
    weights = torch.load(target / "model.pt", weights_only=True)
    weights["fc.weight"].zero_()
    weights["fc.bias"].zero_()
    weights["fc.bias"][label] = 50.0
    torch.save(weights, target / "model.pt")
    manifest = json.loads((target / "checkpoint.json").read_text())
    manifest["files"]["model.pt"]["sha256"] = hashlib.sha256((target / "model.pt").read_bytes()).hexdigest()
    (target / "checkpoint.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize("processes", [1, 4])
def test_constant_predictor_is_right_for_its_class_alone(trained: Cli, tmp_path: Path, processes: int) -> None:
    """C21: one image in thirty, whatever the number of processes; ties count against, so top-5 equals top-1."""
    checkpoint = trained.newest() / "checkpoints" / f"step-9999999{processes}"
    constant_predictor(trained.newest() / "checkpoints" / "step-00000003", checkpoint, 4)
    try:
        found = counts(trained, str(checkpoint), processes=processes)
    finally:
        shutil.rmtree(checkpoint)
    assert (found["num_images"], found["top1_correct"], found["top5_correct"]) == (30, 1, 1)


def test_another_class_list_is_refused(trained: Cli, tmp_path: Path) -> None:
    """C15."""
    other = tmp_path / "other" / "tiny"
    shutil.copytree(trained.data_root / "tiny", other)
    for split in ("train", "val"):
        next(iter(sorted((other / split).iterdir()))).rename(other / split / "zebra")
    (trained.folder / "other.yaml").write_text(
        f"name: other\ndevice: cpu\ndata_root: {tmp_path / 'other'}\nrun_root: runs\n"
    )
    done = trained.run("validate", str(trained.newest()), "--site", "other.yaml")
    out = done.stdout + done.stderr
    assert done.returncode == 3, out
    assert "class 0" in out and "Traceback" not in out


def test_top5_as_a_target_with_five_classes_is_refused(cli: Cli, tmp_path: Path) -> None:
    small = tmp_path / "small" / "tiny"
    shutil.copytree(cli.data_root / "tiny", small)
    for split in ("train", "val"):
        for folder in sorted((small / split).iterdir())[5:]:
            shutil.rmtree(folder)
    cli.data_root = tmp_path / "small"
    cli.site(1)
    done = cli.run(
        "train",
        "--config",
        "tiny.yaml",
        "--site",
        "site.yaml",
        *sets((*SHORT, "phases[0].global_batch_size=10", "target.top5=93")),
    )
    out = done.stdout + done.stderr
    assert done.returncode == 2, out
    assert "target.top5" in out and "5 classes" in out and "Traceback" not in out


def test_checkpoint_files_are_what_the_manifest_says(trained: Cli) -> None:
    manifest = read_manifest(trained.newest() / "checkpoints" / "step-00000003")
    assert manifest is not None
    assert manifest.why == ("last", "epoch")
    assert len(manifest.manifest["classes"]) == 30
