"""The same batches whether images are files or lie in shards."""

from pathlib import Path

import pytest
import torch
from PIL import Image
from vision_helpers import kept, pipeline, plan

from dawnrun.dataset.index import build_index
from dawnrun.dataset.pack import write_shards
from dawnrun.recipe.schema import View


class Silent:
    def __enter__(self):
        return lambda number: None

    def __exit__(self, *error: object) -> None:
        pass


def test_folders_and_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C15, C20: labels, windows and order do not depend on the store, nor on its shuffle."""
    monkeypatch.setenv("DAWNRUN_CACHE", str(tmp_path / "cache"))
    for split in ("train", "val"):
        for number in range(12):
            path = tmp_path / "set" / split / str(number % 4) / f"{number}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.effect_noise((40 + number, 30), 90).save(path)
    write_shards(tmp_path / "set", tmp_path / "out", seed=1, shard_bytes=4000, progress=lambda total: Silent())
    seen = []
    for root in (tmp_path / "set", tmp_path / "out"):
        batches = pipeline((build_index(root, "train"), build_index(root, "val")))
        seen.append([*kept(batches.train([plan(0), plan(1)])), *kept(batches.validation(View(), 16))])
        batches.close()
    assert len(seen[0]) == 4 + 4
    for (images, labels), (other_images, other_labels) in zip(*seen, strict=True):
        assert torch.equal(images, other_images) and torch.equal(labels, other_labels)
