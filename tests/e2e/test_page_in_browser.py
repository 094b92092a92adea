"""The HTML page in a real browser: it opens from a file, asks no network for anything, and complains of nothing."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from record_factory import make_run, make_script

from dawnrun.cli.main import run

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium here (Debian: apt-get install chromium)")

OWN_HOSTS = ("googleapis.com/", "google.com/", "gvt1.com/")
"""What the browser asks of its maker whatever page is open; no name is resolved here."""
BAD_PAGE = """<script>console.error("boo")</script><img src="http://example.invalid/x.png">"""


class Visit:
    """What happened while a page was open."""

    def __init__(self, page: Path, folder: Path, *, width: int = 1200) -> None:
        folder.mkdir()
        self.screenshot, log = folder / "page.png", folder / "net.json"
        command = [
            str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
            "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
            "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder / 'profile'}", f"--log-net-log={log}",
            "--enable-logging=stderr", f"--window-size={width},1000", f"--screenshot={self.screenshot}", page.as_uri(),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        self.said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        events = json.loads(log.read_text())["events"]
        urls = {event["params"].get("url", "") for event in events if isinstance(event.get("params"), dict)}
        self.asked = {
            url
            for url in urls
            if url.startswith(("http:", "https:", "ws:", "wss:")) and not any(host in url for host in OWN_HOSTS)
        }


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Two seeds of a toy run, one resumed after a crash, beside a published record and an entry."""
    folder = tmp_path_factory.mktemp("runs")
    script = make_script(folder)
    script.launch()
    script.start()
    script.train_epoch()
    script.validate(300, 800)
    script.save()
    script.kill(2.0)
    script.launch()
    script.start(first_step=script.step)
    for top5 in (900, 940, 950):
        script.train_epoch()
        script.validate(top5 - 300, top5)
    script.finish("all_epochs")
    others = [str(make_run(folder, recipe={"seed": seed}).path) for seed in (1, 2)]
    arguments = ["report", str(script.run.path), *others, "--against", "huawei-10m28", "--output", str(folder / "out")]
    assert run(arguments) == 0
    return folder / "out" / "report.html"


@pytest.mark.parametrize("width", [1200, 400])
def test_it_opens_without_network_or_complaint(page, tmp_path, width):
    visit = Visit(page, tmp_path / "visit", width=width)
    assert visit.screenshot.stat().st_size > 20_000
    assert visit.asked == set()
    assert visit.said == []


def test_a_page_that_does_neither_is_noticed(tmp_path):
    """The test above can fail."""
    (tmp_path / "bad.html").write_text(BAD_PAGE)
    visit = Visit(tmp_path / "bad.html", tmp_path / "visit")
    assert visit.asked == {"http://example.invalid/x.png"}
    assert any("boo" in line for line in visit.said)
