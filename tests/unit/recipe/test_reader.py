"""Recipe text to models: values, problems, places."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dawnrun.errors import DawnrunError, RecipeError, UsageError
from dawnrun.recipe.reader import read, read_text
from dawnrun.recipe.schema import Recipe, Site


@pytest.mark.parametrize("number", ["1e-4", "1E-4", "1.e-4", '"1e-4"', "0.0001", "1.0e-04", "+1e-4"])
def test_numbers_with_exponents(recipe, plain, number):
    """C01: a number is a number, with or without a decimal point or quotes."""
    value = recipe(plain + f"optimizer: {{weight_decay: {number}}}\nmomentum: {number}\nseed: 4e3\n")
    assert value.optimizer.weight_decay == 0.0001
    assert value.momentum.constant == 0.0001
    assert value.seed == 4000 and isinstance(value.seed, int)


def test_rate_that_is_no_number(problems, plain):
    """C01: the key is named."""
    text = plain[: plain.index("lr:")] + "lr: fast\n"
    (problem,) = problems(text)
    assert problem.startswith("r.yaml:8:5: lr: must be a number, or a list of pieces")
    assert problem.endswith("not fast")


@pytest.mark.parametrize("number", ["4.5e0", "1e-1", "12px", "true", ".inf", "0x10", "[1]", "null", "1e400"])
def test_no_whole_number(problems, plain, number):
    """C01: what is not a whole number is refused where one is asked for."""
    (problem,) = problems(plain.replace("image_size: 96", f"image_size: {number}"))
    assert problem.startswith("r.yaml:5:17: phases[1].image_size: must be a whole number of 1 or more, not ")


@pytest.mark.parametrize("number", [".nan", "nan", "inf", "-1", "1e999", "'1,5'", ""])
def test_no_number(problems, plain, number):
    """C01: values that are not finite, negative ones and text."""
    (problem,) = problems(plain.replace("start: 0.1", f"start: {number}"))
    assert problem.startswith("r.yaml:9:")
    assert "lr[0].start: must be a number of 0 or more, not" in problem


def test_key_given_twice(problems, plain):
    """C02: both lines are shown, at the top and inside a phase."""
    text = plain.replace("    image_size: 96\n", "    image_size: 96\n    epochs: 28\n") + "name: again\n"
    assert problems(text) == [
        "r.yaml:6:5: phases[1].epochs: given twice: first in line 4, again here",
        "r.yaml:12:1: name: given twice: first in line 1, again here",
    ]


def test_merge_key_with_local_override(recipe, problems):
    """C02: a merged value may be given again; one merged mapping may not be given twice."""
    text = """\
name: merged
phases:
  - &base {epochs: 1, image_size: 64, global_batch_size: 32, per_device_batch_size: 16}
  - {<<: *base, epochs: 2}
  - image_size: 96
    <<: [*base, {epochs: 5, min_area_fraction: 0.5}]
lr: 0.1
"""
    phases = recipe(text).phases
    assert [phase.epochs for phase in phases] == [1, 2, 1]
    assert [phase.image_size for phase in phases] == [64, 64, 96]
    assert phases[2].min_area_fraction == 0.5
    assert "given twice" in problems(text.replace("epochs: 2}", "<<: *base}"))[0]


def test_place_of_merged_values(problems):
    """C02: a fault in a merged mapping is shown where it is written, in a local value where that is."""
    text = """\
name: merged
phases:
  - &base {epochs: 1, image_size: 64, global_batch_size: 32, per_device_batch_size: 16}
  - {<<: *base, epochs: x}
  - {<<: *base, image_size: 7.5}
lr: 0.1
"""
    assert [problem.split(": ")[0] for problem in problems(text)] == ["r.yaml:4:25", "r.yaml:5:29"]


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("learning_rte: 0.1", "did you mean lr?"),
        ("num-epochs: 3", "did you mean phases[].epochs?"),
        ("optimiser: {}", "did you mean optimizer?"),
        ("nesterov: true", "nesterov belongs elsewhere: optimizer.nesterov"),
        ("image_size: 64", "image_size belongs elsewhere: phases[].image_size or phases[].validation.image_size"),
        ("nodes: 4", "nodes belongs in the site file (--site)"),
        ("optimizer: {momentum: 0.9}", "momentum belongs elsewhere: momentum, at the top level"),
        ("optimizer: {nestrov: true}", "did you mean nesterov?"),
        ("loss: {weight_decay: 1e-4}", "weight_decay belongs elsewhere: optimizer.weight_decay"),
    ],
)
def test_unknown_keys(problems, plain, line, hint):
    """C03: an unknown key is an error at every level, and the nearest known one or its section is named."""
    (problem,) = problems(plain + line + "\n")
    assert re.match(r"r\.yaml:11:\d+: [\w.-]+: unknown key\n    allowed here: ", problem)
    assert problem.splitlines()[-1].strip() == hint


def test_batch_size_of_a_phase(problems, plain):
    """C06: batch_size alone says too little; in a phase it is not validation's that is meant."""
    (problem,) = problems(plain.replace("    image_size: 96\n", "    image_size: 96\n    batch_size: 16\n"))
    assert problem.endswith("did you mean global_batch_size?")


def test_unknown_key_of_a_piece(problems, plain):
    """C03: inside a list inside a curve."""
    (problem,) = problems(plain.replace("shape: cosine", "form: cosine"))
    assert problem.startswith(
        "r.yaml:10:47: lr[1].form: unknown key\n    allowed here: epochs, start, end, shape, power"
    )


@pytest.mark.parametrize(
    ("written", "text"),
    [("on", "on"), ("no", "no"), ("2024-01-01", "2024-01-01"), ("1e3", "1e3"), ("007", "007"), ("true", "true")],
)
def test_text_keeps_its_spelling(recipe, plain, written, text):
    """C04: text stays as it is spelled."""
    assert recipe(plain.replace("name: plain", f"name: {written}")).name == text


def test_old_yaml_makes_no_difference(recipe, plain):
    """C04: a file that asks for YAML 1.1 is read the same."""
    assert recipe("%YAML 1.1\n---\n" + plain.replace("name: plain", "name: on")).name == "on"


@pytest.mark.parametrize("written", ["~", "null", "", "Null"])
def test_null_is_no_text(problems, plain, written):
    """C04: nothing is not text."""
    (problem,) = problems(plain.replace("name: plain", f"name: {written}"))
    assert ": name: must be text" in problem
    assert problem.endswith("not null\n    write it in quotes if it is meant as text")


def test_environment_of_a_site_keeps_its_spelling():
    """C04: what goes into an environment is text."""
    site = read_text("env: {A: 1, B: no, C: 1e3, D: '~'}", Site, source="s.yaml").value
    assert site.env == {"A": "1", "B": "no", "C": "1e3", "D": "~"}


def test_all_problems_at_once_in_file_order(problems):
    """C03: every problem in one pass, by line and column, `--set` last."""
    text = """\
name: bad
phases:
  - {epochs: 0, image_size: 64, global_batch_size: 32}
loss: {label_smoothing: 1}
target: {top5: 101}
lr: {start: 1}
precision: fp17
"""
    assert [problem.splitlines()[0] for problem in problems(text, ["seed=x"])] == [
        "r.yaml:3:5: phases[0].per_device_batch_size: is missing: a whole number of 1 or more",
        "r.yaml:3:14: phases[0].epochs: must be a whole number of 1 or more, not 0",
        "r.yaml:4:25: loss.label_smoothing: must be a number of 0 or more and below 1, not 1",
        "r.yaml:5:16: target.top5: must be a number above 0 and at most 100, not 101",
        "r.yaml:6:6: lr.start: unknown key",
        "r.yaml:7:12: precision: must be one of auto, bf16, fp16, fp32, fp64, not fp17",
        "--set seed=x: seed: must be a whole number of 0 or more and below 2^63, not x",
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("input: 5", "input: must be a mapping with the keys datasets, "),
        ("phases: []", "phases: must be a list of mappings with the keys epochs, "),
        ("phases: {}", "phases: must be a list of mappings with the keys epochs, "),
        ("input: {aspect_ratio: [1]}", "input.aspect_ratio: must be a list of 2 numbers, not a list of 1"),
        ("input: {mean: [1, 2, 3, 4]}", "input.mean: must be a list of 3 numbers, not a list of 4"),
        ("input: {datasets: [a]}", "input.datasets: must be a mapping of names to text, not a list of 1"),
        ("input: {datasets: {full: }}", "input.datasets.full: must be text, not null"),
        ("lr: {constant: 1, segments: [{epochs: [0, 3], start: 1, end: 1}]}", "lr: give either one number"),
        ("lr: [{epochs: [3, 0], start: 1, end: 1}]", "lr[0]: epochs must be [first, last]"),
        ("lr: [{epochs: [0, 3], start: 1, end: 2, shape: constant}]", "lr[0]: a constant piece ends where it starts"),
        ("lr: [{epochs: [0, 3], start: 1, end: 0, shape: exponential}]", "lr[0]: an exponential piece needs"),
        ("loss_scale: dyn", "loss_scale: must be a number above 0 or dynamic, not dyn"),
        ("optimizer: {nesterov: 3}", "optimizer.nesterov: must be true or false, not 3"),
    ],
)
def test_messages(problems, plain, line, message):
    """Each wrong type is one plain sentence."""
    key = line.partition(":")[0]
    text = re.sub(rf"^{key}:.*\n(?:[ -].*\n)*", "", plain, flags=re.M) + line + "\n"
    (problem,) = problems(text)
    assert problem.split(": ", 1)[1].startswith(message)


def test_constant_piece_needs_no_end(recipe, plain):
    """A constant piece is written with one value."""
    text = plain[: plain.index("lr:")] + "lr: [{epochs: [0, 3], start: 0.5, shape: constant}]"
    assert recipe(text).lr.segments[0].end == 0.5


def test_launcher_must_be_one(problems):
    """A site names exactly one launcher."""
    (problem,) = problems("launcher: {}", kind=Site)
    assert problem.startswith("r.yaml:1:11: launcher: name exactly one of: local")
    assert "launcher.slum: unknown key" in problems("launcher: {local: {}, slum: {}}", kind=Site)[0]


def test_site_keys_in_a_recipe_and_back(problems):
    """C03: recipe keys in a site belong in the recipe."""
    assert problems("phases: []", kind=Site)[0].endswith("phases belongs in the recipe")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "r.yaml: is empty; a recipe has a mapping with the keys name, "),
        ("# nothing\n", "r.yaml: is empty"),
        ("- a\n- b\n", "r.yaml:1:1: must be a mapping with the keys name, "),
        ("just words\n", "r.yaml:1:1: must be a mapping"),
        ("name: x\nphases:\n\t- epochs: 1\n", "r.yaml:3:1: not valid YAML: a tab in the indentation"),
        ("name: 'x\nlr: 1\n", "r.yaml:3:1: not valid YAML: found unexpected end of stream"),
        ("name: [x\n", "r.yaml:2:1: not valid YAML: "),
        ("name: a: b\n", "r.yaml:1:8: not valid YAML: mapping values are not allowed here"),
        ("name: *x\n", "r.yaml:1:7: not valid YAML: found undefined alias"),
        ("name: x\n---\nname: y\n", "r.yaml:2:1: a second document starts here"),
        ("name: \x01\n", "r.yaml:1:7: the character U+0001 is not allowed in YAML"),
        ("{? [a, b] : c, name: x}", "r.yaml:1:4: a key must be a word"),
        ("name: !!python/object:os.system x\n", "r.yaml:1:7: name: the tag tag:yaml.org,2002:python/object:os.system"),
        ("name: &a [*a]\n", "r.yaml:1:7: name[0]: an alias that contains itself"),
        ("<<: 5\nname: x\n", "r.yaml:1:5: << takes a mapping"),
        ('"a\\nb": 1', 'r.yaml:1:1: ["a\\nb"]: unknown key'),
        ('seed: "a\\nb"', "r.yaml:1:7: seed: must be a whole number of 0 or more and below 2^63, not 'a\\nb'"),
        ("a: &a\n  <<: *a\n", "r.yaml:1:4: a: << merges a mapping into itself"),
        ("[" * 1200, "r.yaml: nested too deeply"),
    ],
)
def test_text_that_is_no_recipe(problems, content, message):
    """C46: each way in which a text is no recipe is one clear message."""
    assert any(problem.startswith(message) for problem in problems(content))


def test_aliases_cannot_blow_up(problems):
    """A few lines of aliases must not become millions of values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 8)]
    assert any("more than 100,000 values" in problem for problem in problems("\n".join(lines)))


def test_files_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """C46: a missing file, a folder, an unreadable file, a large one: one line each, exit code 2."""
    large = tmp_path / "large.yaml"
    large.write_bytes(b"#" * (1 << 20) + b"\n")
    for path, message in [
        (tmp_path / "none.yaml", "no such file"),
        (tmp_path, "is a folder; name a YAML file in it"),
        (tmp_path / "none.yaml" / "x", "no such file"),
        (large / "x", "cannot be read: Not a directory"),
        (large, "is larger than 1 MiB; a recipe or site is a short text"),
        (Path("a\0b"), "cannot be read: embedded null byte"),
    ]:
        with pytest.raises(UsageError) as caught:
            read(path, Recipe)
        assert str(caught.value) == f"{path}: {message}"
        assert caught.value.exit_code == 2

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UsageError, match=r"large\.yaml: cannot be read: Permission denied"):
        read(large, Recipe)


def test_bytes_that_are_no_text(tmp_path: Path, plain):
    """C46: not UTF-8 is told with line and column; a byte order mark is passed over."""
    path = tmp_path / "r.yaml"
    path.write_bytes(b"name: x\nlr: \xff\xfe\n")
    with pytest.raises(RecipeError, match=rf"^{re.escape(str(path))}:2:5: not UTF-8 text: byte 0xff"):
        read(path, Recipe)
    path.write_bytes(b"\xef\xbb\xbf" + plain.replace("\n", "\r\n").encode())
    assert read(path, Recipe).value.name == "plain"


def test_last_line_counts_and_names_the_file(tmp_path: Path):
    """The user is told that nothing was started."""
    path = tmp_path / "r.yaml"
    path.write_text("name: x\nlr: 1\n")
    with pytest.raises(RecipeError) as caught:
        read(path, Recipe)
    assert str(caught.value).splitlines()[-1] == f"1 problem in {path}; nothing was started"
    assert caught.value.exit_code == 2


def test_no_file_is_all_defaults():
    """The default site is this machine."""
    document = read(None, Site)
    assert document.value == Site()
    assert set(document.origins.values()) == {"default"}


def test_origins_and_later_problems(plain):
    """Every value knows its line; a later check still points there, or at what is around a value left out."""
    document = read_text(plain, Recipe, ["lr[1].end=0.02", "momentum=0.8"], source="r.yaml")
    assert document.value.lr.segments[1].end == 0.02
    assert document.origins["phases[1].epochs"] == "r.yaml:4"
    assert document.origins["phases[1].dataset"] == "default"
    assert document.origins["lr[0].epochs"] == "r.yaml:9"
    assert document.origins["lr[1].end"] == "--set lr[1].end=0.02"
    assert document.origins["momentum"] == "--set momentum=0.8"
    assert str(document.problem("phases[1].epochs", "no")) == "r.yaml:4:13: phases[1].epochs: no"
    assert str(document.problem("phases[1].dataset", "no")) == "r.yaml:4:5: phases[1].dataset: no"
    assert str(document.problem("seed", "no", ["hint"])) == "r.yaml:1:1: seed: no\n    hint"
    assert str(document.problem("lr[1].end", "no")) == "--set lr[1].end=0.02: lr[1].end: no"


def test_origin_of_what_a_local_value_replaces(recipe):
    """A merged mapping that is given again leaves no origin behind for what is in its place."""
    text = """\
name: merged
phases:
  - &base {epochs: 1, image_size: 64, global_batch_size: 8, per_device_batch_size: 8, validation: {resize_px: 80}}
  - {<<: *base, validation: {rectangular: true}}
lr: 0.1
"""
    origins = read_text(text, Recipe, source="r.yaml").origins
    assert origins["phases[0].validation.resize_px"] == "r.yaml:3"
    assert origins["phases[1].validation.resize_px"] == "default"
    assert origins["phases[1].validation.rectangular"] == "r.yaml:4"


def test_whole_recipe_checks_are_part_of_reading(problems, plain):
    """A gap in a curve is found when the recipe is read, at its line."""
    (problem,) = problems(plain.replace("[1.5, 3]", "[2, 3]"))
    assert problem == "r.yaml:10:14: lr[1].epochs: no piece covers epochs 1.5 to 2"


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    at=st.integers(0, 300), drop=st.integers(0, 3), put=st.text(max_size=3) | st.sampled_from("{}[]:,-#&*!|>'\"%@`\t\n")
)
def test_any_damage_is_a_recipe_or_a_clear_error(plain, at, drop, put):
    """Whatever is cut from or put into a recipe: it reads, or every problem has a line of the file."""
    text = plain[:at] + put + plain[at + drop :]
    try:
        read_text(text, Recipe, source="r.yaml")
    except RecipeError as error:
        lines = len(re.split("\r\n|[\n\r\x85\u2028\u2029]", text))
        assert all(1 <= (problem.place.line or 1) <= lines for problem in error.problems)
        assert all(problem.message for problem in error.problems)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_a_clear_error(text):
    """No text ends in anything but our own errors."""
    with pytest.raises(DawnrunError):
        read_text(text, Recipe, source="r.yaml")


def test_a_pipe_is_not_waited_for(tmp_path):
    """C46."""
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(
        UsageError, match=r"pipe\.yaml: is no regular file; a recipe or site is read from a file or /dev"
    ):
        read(tmp_path / "pipe.yaml", Recipe)


def test_what_the_shell_hands_over_open_is_read():
    end, start = os.pipe()
    os.write(start, b"name: piped")
    os.close(start)
    assert read(Path(f"/dev/fd/{end}"), Site).value.name == "piped"
    os.close(end)
