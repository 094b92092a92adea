"""How values are written for people."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dawnrun import text


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (0, "0:00:00"),
        (0.2, "0:00:01"),
        (59, "0:00:59"),
        (59.1, "0:01:00"),
        (3600, "1:00:00"),
        (1086.94, "0:18:07"),
        (360_000, "100:00:00"),
    ],
)
def test_duration_is_rounded_up(seconds, written):
    assert text.duration(seconds) == written


def test_duration_ignores_the_dust_of_float_sums():
    assert sum([0.1] * 3) * 10 > 3
    assert text.duration(sum([0.1] * 3) * 10) == "0:00:03"


@given(st.floats(0, 1e6))
def test_duration_is_never_below_the_time_nor_a_second_above(seconds):
    hours, minutes, rest = map(int, text.duration(seconds).split(":"))
    assert -1e-5 <= hours * 3600 + minutes * 60 + rest - seconds < 1


@pytest.mark.parametrize(
    ("call", "written"),
    [
        (text.seconds(0.416), "0.42 s"),
        (text.seconds(83.14), "83.1 s"),
        (text.money(117.504), "117.50 USD"),
        (text.money(1234.5), "1,234.50 USD"),
        (text.count(1_281_167), "1,281,167"),
        (text.plural(1, "image"), "1 image"),
        (text.plural(1200, "image"), "1,200 images"),
        (text.plural(2, "class", "classes"), "2 classes"),
        (text.plural(1, "class", "classes"), "1 class"),
        (text.size(512), "512 B"),
        (text.size(102_550_000), "97.8 MiB"),
        (text.size(5 << 40), "5.0 TiB"),
    ],
)
def test_values_as_people_read_them(call, written):
    assert call == written


@pytest.mark.parametrize(
    ("name", "found"),
    [("imagesize", "image_size"), ("Image-Size", "image_size"), ("epoch", "epochs"), ("zzz", None)],
)
def test_nearest_known_name(name, found):
    assert text.nearest(name, ["epochs", "image_size", "lr"]) == found


def test_nearest_gives_the_name_as_it_is_known():
    assert text.nearest("fastai_1x8", ["fastai-1x8", "demo"]) == "fastai-1x8"


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain Ä \u6587", "plain Ä \u6587"),
        ("a\x1b[31mb\nc", r"a\x1b[31mb\nc"),
        (b"b\xff\xfed".decode("utf-8", "surrogateescape"), r"b\xff\xfed"),
        ("a\u202eb\u2028\ud800", r"a\u202eb\u2028\ud800"),
    ],
)
def test_what_steers_a_terminal_is_shown_as_an_escape(raw, shown):
    assert text.escaped(raw) == shown


def test_line_breaks_can_be_kept():
    assert text.escaped("a\n\x1b", keep="\n") == "a\n\\x1b"


@given(st.text())
def test_what_is_escaped_can_always_be_printed(raw):
    shown = text.escaped(raw)
    shown.encode()
    assert not any(ord(char) < 32 or ord(char) == 127 for char in shown)


@pytest.mark.parametrize(("name", "near"), [("b", None), ("lrr", "lr"), ("l", None), ("epoch", "epochs")])
def test_a_short_name_must_be_more_alike(name, near):
    assert text.nearest(name, ["bs", "lr", "epochs"]) == near
