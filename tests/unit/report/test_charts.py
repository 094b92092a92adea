"""Charts: drawn without a display, the same every time, with our own words only."""

import xml.etree.ElementTree as ET
from dataclasses import replace

import matplotlib as mpl
import pytest
from report_samples import sample, sample_progress

from dawnrun.report.charts import CHARTS, draw
from dawnrun.report.claim import Claim, ClaimRow, Others
from dawnrun.report.claims import published

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</svg><script>$\\frac{\x1b"
NOTHING = sample((), status="running", reason="", phases=(), progress=(), spent={}, images_per_second=None)


def words(svg: str) -> str:
    return " ".join(text for element in ET.fromstring(svg).iter(f"{SVG}text") for text in element.itertext())


@pytest.mark.parametrize(("name", "chart"), [(name, chart) for name, _, chart in CHARTS])
def test_every_chart_is_deterministic_and_complete(name, chart):
    """Twice the same bytes, no date, no name of the user's; a run without rows and eight runs can be drawn too."""
    svg = draw(chart, [sample(name=HOSTILE, path=HOSTILE)])
    assert svg == draw(chart, [sample()])
    assert "dc:date" not in svg
    assert "script" not in svg
    ET.fromstring(draw(chart, [NOTHING]))
    assert "run 8" in words(draw(chart, [sample()] * 8))


def test_target_and_crossing_are_marked():
    reached, unmarked = (draw(CHARTS[0][2], [run]) for run in (sample(), replace(sample(), crossings=())))
    for svg in (reached, unmarked):
        assert "target: top-5 of 93 %" in words(svg)
        assert "minutes (dawnbench clock)" in words(svg)
    # Markers are <use> elements: the star is one more.
    assert reached.count("<use") == unmarked.count("<use") + 1


def test_accuracy_on_training_images_is_told_apart():
    """A thin line of its own, named once; none where it was not counted."""
    trained = sample(epochs=tuple(replace(row, train_top1=50.0) for row in sample().epochs))
    for _, _, chart in CHARTS[:2]:
        assert words(draw(chart, [trained, trained])).count("thin: top-1, training") == 1
        assert "training" not in words(draw(chart, [sample()]))


def test_training_is_cut_into_its_parts_where_they_are_known():
    """Where no step was timed the bar has waiting for input and the rest."""
    chart = CHARTS[5][2]
    parts = {"forward": 100.0, "backward": 200.0, "exchange": 5.0, "update": 15.0}
    timed = sample(phases=(replace(sample().phases[0], parts_s=parts, timed_steps=200),))
    legend = words(draw(chart, [timed]))
    assert all(name in legend for name in ("waiting for input", *parts, "the rest of training", "validation"))
    assert "backward" not in words(draw(chart, [sample()]))


def test_the_users_settings_change_nothing(monkeypatch):
    """C40: whatever backend and style the user has set, and what was set before stays."""
    before = draw(CHARTS[0][2], [sample()])
    monkeypatch.setitem(mpl.rcParams, "svg.fonttype", "path")
    monkeypatch.setitem(mpl.rcParams, "xtick.labelsize", 40)
    assert draw(CHARTS[0][2], [sample()]) == before
    assert mpl.rcParams["svg.fonttype"] == "path"


def test_long_runs_stay_small():
    """A run of 20,000 windows makes a page of about the same size as one of 600."""
    many = [replace(point, step=i, epoch=i / 500) for i, point in enumerate(sample_progress(2000))]
    long_run = replace(sample(), progress=tuple(many))
    assert len(many) == 20_000
    assert all(len(draw(chart, [long_run])) < 150_000 for _, _, chart in CHARTS)


def test_published_records_and_claims_are_drawn():
    """A record within reach is marked, one far beyond is named at the edge, a claim has a curve."""
    claim = Claim(
        kind="DAWNBench entry",
        name=HOSTILE,
        source="x",
        rows=(ClaimRow(epoch=1, hours=0.1, top1=None, top5=50), ClaimRow(epoch=2, hours=0.2, top1=70, top5=93.2)),
    )
    others = Others(claims=(claim,), records=(published("fastai-16x8"), published("fastai-1x8-2018-04")))
    svg = words(draw(CHARTS[0][2], [sample()], others))
    assert "claim 1" in svg and HOSTILE not in svg
    assert "fastai-16x8, mlperf clock" in svg
    assert "fastai-1x8-2018-04, everything clock: 177, beyond the edge" in svg
    assert "fastai-16x8" in words(draw(CHARTS[1][2], [sample()], others))
    for _, _, chart in CHARTS:
        ET.fromstring(draw(chart, [], others))
