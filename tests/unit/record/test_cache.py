"""The cache of summaries: equal to what is computed, never stale, never in the way."""

import json
import os

import pytest
from record_factory import make_run, make_script

from dawnrun.record import cache
from dawnrun.record.cache import summarize_cached
from dawnrun.record.summary import summarize


@pytest.fixture(autouse=True)
def cache_dir(tmp_path, monkeypatch):
    """A cache of our own, used for logs of any size."""
    monkeypatch.setenv("DAWNRUN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "MIN_BYTES", 1)
    return tmp_path / "cache" / "summaries"


@pytest.fixture
def no_reading(monkeypatch):
    """From here on, whoever reads a log fails."""
    return lambda: monkeypatch.setattr(cache, "summarize", lambda run: pytest.fail("the log was read"))


def resumed(folder):
    script = make_script(folder)
    script.launch()
    script.start()
    script.window(5, loss=None)
    script.train_epoch()
    script.validate(300, 800)
    script.save()
    script.kill(3.0)
    script.launch()
    script.start(first_step=script.step, changes={"lr[0].end": [0.1, 0.2]})
    script.train_epoch()
    script.validate(500, 950, valid=False)
    script.finish("interrupted")
    return script.run


@pytest.mark.parametrize("make", [make_run, resumed])
def test_what_is_kept_equals_what_is_computed(tmp_path, cache_dir, no_reading, make):
    """Every field and type, to the last bit."""
    run = make(tmp_path)
    fresh = summarize(run)
    assert summarize_cached(run.path) == fresh
    no_reading()
    assert summarize_cached(run.path) == fresh
    assert len(list(cache_dir.iterdir())) == 1


def test_a_copy_is_found_under_its_own_path(tmp_path, no_reading):
    run = make_run(tmp_path)
    summarize_cached(run.path)
    moved = run.path.rename(tmp_path / "moved")
    no_reading()
    assert summarize_cached(moved).path == str(moved)


def test_a_changed_log_or_code_is_read_anew(tmp_path, cache_dir, monkeypatch):
    run = make_run(tmp_path)
    before = summarize_cached(run.path)
    log = run.event_files(1)[1]
    log.write_text(log.read_text().replace('"top5_correct":960', '"top5_correct":970'))
    assert summarize_cached(run.path) != before
    monkeypatch.setattr(cache, "__file__", str(tmp_path / "cache.py"))
    (tmp_path / "cache.py").write_text("other code")
    (tmp_path.parent / "clock.py").write_text("")
    summarize_cached(run.path)
    assert len(list(cache_dir.iterdir())) == 3


def test_a_run_without_an_end_is_not_kept(tmp_path, cache_dir):
    """Whether it is running or was killed depends on the clock on the wall."""
    run = make_run(tmp_path)
    log = run.event_files(1)[1]
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:-1]))
    run.event_files(1)[0].unlink()
    summarize_cached(run.path)
    assert not cache_dir.exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"epochs": []}', '{"epochs": [{"epoch": 1}]}'])
def test_a_damaged_entry_is_passed_over(tmp_path, cache_dir, text):
    run = make_run(tmp_path)
    fresh = summarize_cached(run.path)
    (kept,) = cache_dir.iterdir()
    kept.write_text(text)
    assert summarize_cached(run.path) == fresh
    assert json.loads(kept.read_text())["run_id"] == fresh.run_id


def test_a_cache_that_cannot_be_written_is_passed_over(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DAWNRUN_CACHE", str(tmp_path / "file"))
    run = make_run(tmp_path)
    assert summarize_cached(run.path) == summarize(run)


def test_a_short_log_leaves_no_trace(tmp_path, cache_dir, monkeypatch):
    monkeypatch.setattr(cache, "MIN_BYTES", 10**9)
    summarize_cached(make_run(tmp_path).path)
    assert not cache_dir.exists()


def test_an_unreadable_log_is_one_message(tmp_path):
    run = make_run(tmp_path)
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    run.event_files(1)[1].chmod(0)
    with pytest.raises(cache.ReportError, match="cannot be read"):
        summarize_cached(run.path)
