"""`--set`: values changed from the command line."""

import pytest

from dawnrun.recipe.reader import read_text
from dawnrun.recipe.schema import Recipe


@pytest.mark.parametrize(
    ("argument", "get", "expected"),
    [
        ("phases[1].epochs=1", lambda r: r.phases[1].epochs, 1),
        ("phases[0].validation.resize_px=80", lambda r: r.phases[0].validation.resize_px, 80),
        ("optimizer.nesterov=true", lambda r: r.optimizer.nesterov, True),
        ("optimizer.weight_decay=1e-4", lambda r: r.optimizer.weight_decay, 1e-4),
        ("lr=0.5", lambda r: r.lr.constant, 0.5),
        ("lr=[{epochs: [0, 3], start: 1, end: 0}]", lambda r: r.lr.segments[0].start, 1),
        ("lr[1].end=0.5", lambda r: r.lr.segments[1].end, 0.5),
        ("lr.segments[1].end=0.5", lambda r: r.lr.segments[1].end, 0.5),
        ("input.aspect_ratio=[1, 1]", lambda r: r.input.aspect_ratio, (1.0, 1.0)),
        ('input.datasets={full: ., "a.b": x}', lambda r: dict(r.input.datasets), {"full": ".", "a.b": "x"}),
        ("target={top1: 75}", lambda r: r.target.top1, 75),
        ("target.top5=", lambda r: r.target.top5, None),
        ("name=no", lambda r: r.name, "no"),
        ("name = on", lambda r: r.name, "on"),
        ("provenance.source=a=b", lambda r: r.provenance.source, "a=b"),
    ],
)
def test_values(recipe, plain, argument, get, expected):
    """Keys with dots and indices; values are YAML."""
    assert get(recipe(plain, argument)) == expected


def test_last_one_wins_and_they_add_up(recipe, plain):
    """Later arguments change what earlier ones have put there."""
    value = recipe(plain, "seed=1", "seed=2", "lr={segments: [{epochs: [0, 3], start: 1, end: 0}]}", "lr[0].start=5")
    assert value.seed == 2
    assert value.lr.segments[0].start == 5


def test_origin_of_what_an_argument_replaces(plain):
    """What was written below a replaced value leaves no origin behind."""
    text = plain + "loss: {label_smoothing: 0.1}\n"
    origins = read_text(text, Recipe, ["loss={max_consecutive_nonfinite: 3}"], source="r.yaml").origins
    assert origins["loss.label_smoothing"] == "default"
    assert origins["loss.max_consecutive_nonfinite"] == "--set loss={max_consecutive_nonfinite: 3}"


def test_a_key_with_dots(recipe, plain):
    """A name with dots goes into brackets and quotes."""
    assert dict(recipe(plain, 'input.datasets["a.b"]=x', "input.datasets.full=.").input.datasets)["a.b"] == "x"


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("lr=fast", "lr: must be a number, or a list of pieces"),
        ("phases[2].epochs=3", "phases[2]: no such entry: the file has 2 entries, the last is phases[1]"),
        ("phases[0].epoch=3", "phases[0].epoch: unknown key\n    allowed here: epochs, "),
        ("losss.label_smoothing=0.1", "losss: unknown key\n"),
        ("loss.label_smothing=0.1", "loss.label_smothing: unknown key\n"),
        ("name.first=x", "name: is a single value here (plain), so it has no first: set it whole"),
        ("phases.epochs=3", "phases: is a list here: name one of its entries, as in phases[0].epochs"),
        ("loss[0]=3", "loss: is not written in the file, so it has no entries to change"),
        ("phases[0][1]=3", "phases[0]: is a mapping here: it has keys, no entry [1]"),
        ("input.mean[0]=3", "input.mean: is not written in the file, so it has no entries to change\n    set it whole"),
        ("seed", "write key=value, for example phases[0].epochs=3"),
        ("=3", "write key=value"),
        ("phases[x].epochs=3", "write key=value"),
        (".seed=3", "write key=value"),
        ("[0]=3", "write key=value"),
        ("seed..x=3", "write key=value"),
        ("lr=[1", "not valid YAML: "),
        ("loss={a: 1, a: 2}", "a: given twice"),
        ("momentum.read_at=step_start", "momentum: give either one number (constant)"),
    ],
)
def test_problems_name_the_argument(problems, plain, argument, message):
    """What is wrong with a `--set` is said at that argument."""
    found = [problem for problem in problems(plain, [argument]) if problem.startswith(f"--set {argument}: {message}")]
    assert len(found) == 1, problems(plain, [argument])


def test_nearest_name(problems, plain):
    """C03: an unknown key in `--set` gets the nearest known one."""
    assert problems(plain, ["phases[0].imagesize=3"])[0].endswith("did you mean image_size?")


def test_faults_of_the_file_that_the_argument_replaces_are_gone(recipe, plain):
    """A value is checked after it was changed."""
    assert (
        recipe(plain.replace("image_size: 96", "image_size: big"), "phases[1].image_size=32").phases[1].image_size == 32
    )


def test_whole_checks_point_at_the_argument(problems, plain):
    """A curve that no longer fits is shown at what was changed."""
    assert problems(plain, ["lr[1].epochs=[1.5, 2]"]) == [
        "--set lr[1].epochs=[1.5, 2]: lr[1].epochs: no piece covers epochs 2 to 3, the last of the phases"
    ]
