"""Networks, losses and update rules that a recipe cannot have, each told at its line."""

import pytest

from dawnrun.recipe.dump import resolved_text
from dawnrun.recipe.reader import read_text
from dawnrun.recipe.schema import Recipe


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("optimizer: {name: lars}", "r.yaml:11:12: optimizer.trust_coefficient: is missing: lars needs it"),
        ("optimizer: {name: lamb}", "r.yaml:11:12: optimizer.epsilon: lamb needs one above 0"),
        ("optimizer: {trust_coefficient: 0.001}", "11:32: optimizer.trust_coefficient: belongs to lars, not to sgd"),
        ("optimizer: {name: lamb, epsilon: 1e-6, nesterov: true}", "optimizer.nesterov: belongs to sgd and lars, not"),
        ("optimizer: {beta2: 0.9}", "optimizer.beta2: belongs to lamb, not to sgd; leave it out"),
        (
            "optimizer: {name: lars, trust_coefficient: 0.001, decoupled_weight_decay: true}",
            "optimizer.decoupled_weight_decay: belongs to sgd, not to lars",
        ),
        (
            "optimizer: {name: lars, trust_coefficient: 0.001, decay_batch_norm: true}",
            "optimizer.decay_batch_norm: belongs to sgd, not to lars",
        ),
        (
            "optimizer: {name: lars, trust_coefficient: 0.001, trust_clip: [1, 0.5]}",
            "optimizer.trust_clip: [1, 0.5] is not a range, lowest first",
        ),
        ("optimizer: {name: larz}", "optimizer.name: must be one of sgd, lars, lamb, not larz\n    did you mean lars?"),
        ("model: {import: 'no colon'}", "11:17: model.import: must be text like package.module:function, not no colon"),
        ("model: {import: 'a:b', blur_pool: true}", "model.blur_pool: is for a network of dawnrun's own, not for an"),
        ("model: {imports: 'a:b'}", "model.imports: unknown key\n    allowed here: name, import, initialization"),
        ("loss: {name: bce}", "loss.name: must be one of cross_entropy, binary_cross_entropy, not bce"),
        ("average: {half_life_steps: 0}", "average.half_life_steps: must be a number above 0, not 0"),
    ],
)
def test_problems(problems, plain, line, told):
    """One problem each, with its place."""
    (problem,) = problems(plain + line + "\n")
    assert told in problem


def test_an_import_reads_back_from_the_resolved_text(recipe, plain):
    """`import` is written as it is read; every other choice of the network has its default beside it."""
    value = recipe(plain + "model: {import: 'my.networks:build'}\n")
    assert value.model.import_ == "my.networks:build"
    text = resolved_text(value)
    assert '  import: "my.networks:build"' in text and "import_" not in text
    assert read_text(text, Recipe, source="resolved").value == value
