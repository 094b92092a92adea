"""The page: whole, self-contained, and safe whatever a run is called."""

import html.parser
import sys

import pytest
from report_samples import RECIPE, sample, sample_attempt

from dawnrun.report import charts
from dawnrun.report.html import html_page

HOSTILE = "<script>alert(1)</script>\"'><img src=http://example.invalid/x>{{ 7*7 }}\x1b[31m\u202e"


class Page(html.parser.HTMLParser):
    """Tags, addresses and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.addresses, self.words, self.open = set(), [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "action")]
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def page_of(*summaries) -> Page:
    text, warnings = html_page(summaries)
    assert warnings == ()
    return Page(text)


def test_one_run():
    """C36: the headline, four clocks with their parts, one row an epoch, six charts inside the page."""
    page = page_of(sample(remarks=("a remark",)))
    assert "target reached: top-5 of 93 % in epoch 2" in page.text
    assert "time to target 0:12:00 0:12:20 0:12:00 0:12:20" in page.text
    assert "validation - 20.0 s - 20.0 s" in page.text
    assert "a remark" in page.text
    assert "lr.segments[1].shape cosine" in page.text
    assert "torch 2.14.1" in page.text
    assert "epochs 1-4: 128 px centre crop of 146 px; 50,000 images, 8 processes" in page.text
    assert page.open == []
    assert len(page.addresses) == 6
    assert all(address.startswith("data:image/svg+xml;base64,") for address in page.addresses)


def test_names_cannot_break_out():
    recipe = {**RECIPE, "name": HOSTILE, HOSTILE: HOSTILE}
    attempt = sample_attempt(1, 4, ended=HOSTILE, started_utc=HOSTILE)
    page = page_of(sample(name=HOSTILE, path=HOSTILE, remarks=(HOSTILE,), recipe=recipe, attempts=(attempt,)))
    assert "script" not in page.tags
    assert all(address.startswith("data:") for address in page.addresses)
    assert "<script>alert(1)</script>" in page.text
    assert "{{ 7*7 }}" in page.text
    assert "\x1b" not in page.text
    assert page.open == []


def test_several_runs_side_by_side():
    page = page_of(sample(path="runs/a"), sample((90, 91), path="runs/b"), sample(path="runs/c"))
    assert "run 1: a run 2: b run 3: c" in page.text
    assert "time, dawnbench 0:12:00 - 0:12:00" in page.text
    assert "Run 3: c" in page.text


def test_a_run_that_has_just_begun():
    empty = sample((), status="running", reason="", phases=(), progress=(), spent={}, images_per_second=None)
    page = page_of(empty)
    assert "target not reached yet: top-5 of 93 %; no top-5 measured" in page.text


def test_a_chart_that_fails_is_a_warning(monkeypatch):
    """C40: the page appears with every figure and says which chart is missing."""

    def fail(runs, others):
        raise RuntimeError("no font")

    broken = [(name, title, fail if name == "loss" else chart) for name, title, chart in charts.CHARTS]
    monkeypatch.setattr(charts, "CHARTS", broken)
    text, warnings = html_page([sample()])
    assert warnings == ("chart loss could not be drawn: RuntimeError: no font",)
    assert "could not be drawn" in text
    assert len(Page(text).addresses) == 5


def test_a_plotting_library_that_cannot_be_imported_is_a_warning(monkeypatch):
    """C40."""
    monkeypatch.setitem(sys.modules, "dawnrun.report.charts", None)
    text, warnings = html_page([sample()])
    assert len(warnings) == 1
    assert warnings[0].startswith("no charts: ")
    assert "target reached" in text


@pytest.mark.parametrize("runs", [1, 3])
def test_the_same_runs_give_the_same_bytes(runs):
    assert html_page([sample()] * runs) == html_page([sample()] * runs)


def test_a_log_that_is_not_what_was_sealed_comes_before_any_figure():
    text, _ = html_page([sample(seal_faults=("not what was sealed: <x>",))])
    assert '<p class="alarm">not what was sealed: &lt;x&gt;</p>' in text[: text.index("<main>")]
