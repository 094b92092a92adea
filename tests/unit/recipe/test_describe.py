"""The schema in words."""

import pytest

from dawnrun.recipe.describe import ALSO_CALLED, allowed, description, field_at, key_text, known_keys
from dawnrun.recipe.schema import Recipe, Site


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (("phases", 0, "epochs"), "a whole number of 1 or more"),
        (("phases", 0, "validation", "resize_px"), "a whole number of 1 or more"),
        (("lr", 1, "power"), "a number above 0"),
        (
            ("lr", "segments", 1, "shape"),
            "one of constant, linear, cosine, linear_cosine, polynomial, exponential, steps",
        ),
        (("input", "aspect_ratio"), "a list of 2 numbers"),
        (("input", "aspect_ratio", 0), "a number"),
        (("input", "datasets"), "a mapping of names to text"),
        (("input", "datasets", "full"), "text"),
        (("target", "top5"), "a number above 0 and at most 100"),
        (("loss_scale",), "a number above 0 or dynamic"),
        (("seed",), "a whole number of 0 or more and below 2^63"),
        (("compute", "tf32"), "true or false"),
        (("nowhere", 3), "a value"),
    ],
)
def test_allowed(path, words):
    """What a field allows, from its type and bounds."""
    assert allowed(*field_at(Recipe, path)) == words


def test_allowed_in_a_site():
    """Unions with words, paths, parts without keys."""
    assert allowed(*field_at(Site, ("processes_per_node",))) == "a whole number of 1 or more or auto"
    assert allowed(*field_at(Site, ("data_root",))) == "a path"
    assert allowed(*field_at(Site, ("launcher", "local"))) == "{}"


def test_every_key_has_words_and_a_description():
    """C03: nothing in the schema is left without help."""
    for kind in (Recipe, Site):
        for _, key in known_keys(kind):
            path = tuple(
                part for name in key.split(".") for part in ((name[:-2], 0) if name.endswith("[]") else (name,))
            )
            assert description(kind, path), key
            assert allowed(*field_at(kind, path)) != "a value", key


def test_other_programs_words_lead_to_keys_that_exist():
    """A hint never names a key that is not there."""
    known = {name for kind in (Recipe, Site) for name, _ in known_keys(kind)}
    assert set(ALSO_CALLED.values()) <= known
    assert set(ALSO_CALLED) & known <= {"batch_size"}  # In a phase it is not validation's that is meant.


def test_key_text():
    """Curves are named as recipes write them."""
    assert key_text(("phases", 1, "epochs")) == "phases[1].epochs"
    assert key_text(("lr", "segments", 1, "end")) == "lr[1].end"
    assert key_text(("lr", "segments")) == "lr.segments"
    assert key_text(("lr", "constant")) == "lr"
    assert key_text(("input", "datasets", "a.b", "c")) == 'input.datasets["a.b"].c'
    assert key_text(()) == ""
