"""Models to text and back."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dawnrun.recipe.dump import differences, flatten, recipe_sha256, resolved_text, to_mapping
from dawnrun.recipe.pieces import Curve, Segment
from dawnrun.recipe.reader import read_text
from dawnrun.recipe.schema import (
    Input,
    Loss,
    Optimizer,
    Phase,
    Provenance,
    Recipe,
    Site,
    Target,
    Validation,
    View,
)

ODD_TEXTS = [
    "null", "~", "", "true", "no", "1e-4", "012", "2024-01-01", "a: b", "- x", "# x", " x ", "x\n", "'", '"', "\\", "\\n",
    "\x85", "\t", "\x00", "\u2028", "\ufeff", "\U0001f600", "{}", "*x", "&x", "!x", "%x", "a,b", "x:",
]  # fmt: skip
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(ODD_TEXTS)
positive = st.integers(1, 10**12)
numbers = st.floats(1e-12, 1e12)


@st.composite
def curves(draw, total, highest=1e6):
    values = st.floats(1e-9, highest, exclude_max=True)
    read_at = draw(st.sampled_from(["step_end", "step_start"]))
    if draw(st.booleans()):
        return Curve(constant=draw(values), read_at=read_at)
    inner = draw(st.sets(st.floats(0.01, total - 0.01), max_size=3)) if total > 0.02 else set()
    ends = [0.0, *sorted(inner), float(total)]
    shapes = st.sampled_from(["linear", "cosine", "linear_cosine", "polynomial", "exponential"])
    pieces = [
        Segment(epochs=pair, start=draw(values), end=draw(values), shape=draw(shapes), power=draw(numbers))
        for pair in pairwise(ends)
    ]
    return Curve(segments=tuple(pieces), read_at=read_at)


@st.composite
def recipes(draw):
    names = draw(st.lists(texts, min_size=1, max_size=3, unique=True))
    phases = []
    for _ in range(draw(st.integers(1, 3))):
        size = draw(st.integers(8, 512))
        device = draw(st.integers(1 if size > 32 else 2, 512))  # one value has no variance
        phases.append(
            Phase(
                epochs=draw(st.integers(1, 30)),
                image_size=size,
                global_batch_size=device * draw(st.integers(1, 100)),
                per_device_batch_size=device,
                dataset=draw(st.sampled_from(names)),
                min_area_fraction=draw(st.floats(0.01, 1)),
                validation=View(resize_px=draw(st.none() | st.integers(size, 600)), rectangular=draw(st.booleans())),
            )
        )
    total = sum(phase.epochs for phase in phases)
    return Recipe(
        name=draw(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,8}", fullmatch=True)),
        provenance=Provenance(published=draw(st.none() | texts), source=draw(st.none() | texts)),
        phases=tuple(phases),
        lr=draw(curves(total)),
        momentum=draw(curves(total, 1.0)),
        loss=Loss(label_smoothing=draw(st.floats(0, 0.99))),
        optimizer=Optimizer(nesterov=draw(st.booleans()), weight_decay=draw(numbers)),
        input=Input(datasets={name: draw(texts) for name in names}, num_train_images=draw(st.none() | positive)),
        validation=Validation(from_epoch=draw(st.integers(1, total))),
        target=Target(top5=draw(st.none() | st.floats(0.1, 100))),
        loss_scale=draw(st.just("dynamic") | numbers),
        seed=draw(st.integers(0, 2**63 - 1)),
    )


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_odd_texts_read_back(text):
    """Text stays text whatever is in it, as a value and as a name."""
    site = Site(env={text: text}, gpu=text)
    written = resolved_text(site)
    assert read_text(written, Site, source="site.yaml").value == site
    assert written.isascii() or text == "\U0001f600"


def test_layout():
    """One line a value, short lists on it, entries of a list with a dash; words that YAML 1.1 misreads in quotes."""
    segment = Segment(epochs=(0, 1), start=1, end=1e-05)
    assert resolved_text(Curve(segments=(segment,))) == (
        "segments:\n  - epochs: [0.0, 1.0]\n    start: 1.0\n    end: 1e-05\n    shape: linear\n    power: 2.0\n"
        "read_at: step_end\n"
    )
    assert resolved_text(Site(env={"A": "off"})).endswith('\nenv:\n  A: "off"\n')


@settings(max_examples=50, deadline=None)
@given(recipes())
def test_resolved_text_reads_back_to_the_same_recipe(recipe):
    """C06: every value survives the way to text and back, and so does the hash."""
    again = read_text(resolved_text(recipe), Recipe, source="resolved.yaml").value
    assert again == recipe
    assert recipe_sha256(again) == recipe_sha256(recipe)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(texts, texts, max_size=4), st.none() | numbers, st.sampled_from(["auto", 1, 8]), texts)
def test_resolved_site_reads_back(env, price, processes, gpu):
    """The same for sites."""
    site = Site(env=env, usd_per_node_hour=price, processes_per_node=processes, gpu=gpu, run_root=Path("a b/#c"))
    assert read_text(resolved_text(site), Site, source="site.yaml").value == site


@settings(max_examples=50, deadline=None)
@given(recipes())
def test_mapping_is_strict_json_that_makes_the_model_again(recipe):
    """Events carry the mapping; the model can be made of it."""
    text = json.dumps(to_mapping(recipe), allow_nan=False)
    assert Recipe.model_validate(json.loads(text)) == recipe


def test_hash_is_of_the_values(recipe, plain):
    """Layout and comments do not matter, values do."""
    assert recipe_sha256(recipe(plain + "# comment\nseed: 0\n")) == recipe_sha256(recipe(plain))
    assert recipe_sha256(recipe(plain, "seed=1")) != recipe_sha256(recipe(plain))


def test_flatten(recipe, plain):
    """One entry a value; lists of numbers are one value."""
    flat = flatten(to_mapping(recipe(plain)))
    assert flat[("lr", "segments", 1, "epochs")] == [1.5, 3.0]
    assert flat[("phases", 1, "validation", "resize_px")] is None
    assert flat[("input", "datasets", "full")] == "."


def test_differences(recipe, plain):
    """What a resume would change, by key."""
    before, after = recipe(plain), recipe(plain, "seed=1", "lr[1].end=0.5", "target.top1=75")
    assert differences(before, before) == {}
    assert differences(before, after) == {"seed": (0, 1), "lr[1].end": (0.01, 0.5), "target.top1": (None, 75.0)}
    assert differences(before, recipe(plain, "lr=0.5"))["lr"] == (None, 0.5)
