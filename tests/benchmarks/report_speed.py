"""How long reports take: 32 entries, and a run with a million progress events. `python tests/benchmarks/report_speed.py [EVENTS]`.

Prints CPU and wall seconds, peak memory, and the ratio to parsing the same log as JSON; ends with 1 if a limit is broken.
Limits are CPU seconds: a busy machine is no failure of the code.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from record_factory import make_script  # noqa: E402
from record_values import one_phase  # noqa: E402

ENTRIES = ROOT / "tests" / "parity" / "data" / "dawnbench" / "train"
EPOCHS = 90
LIMITS_S = {"entries": 2, "table": 12, "cached table": 3, "html": 18}
MEMORY_LIMIT_MB = 500
PARSE = "import json, sys\nfor line in open(sys.argv[1], 'rb'): json.loads(line)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Spent:
    """What one process took."""

    cpu_s: float
    wall_s: float
    peak_mb: float


def measure(cache: Path, *words: str) -> Spent:
    """Run a Python process to its end."""
    began = time.perf_counter()
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode in (0, 6), process.returncode
    return Spent(
        cpu_s=usage.ru_utime + usage.ru_stime, wall_s=time.perf_counter() - began, peak_mb=usage.ru_maxrss / 1024
    )


def long_run(folder: Path, num_events: int) -> Path:
    """90 epochs logged at every step, as the trainer's writer writes them; repeated lines are written directly."""
    steps = max(1, num_events // EPOCHS)
    script = make_script(
        folder, recipe=one_phase(EPOCHS), num_train_images=steps * 32, window_steps=steps, num_val_images=50_000
    )
    script.launch()
    script.start()
    path = script.run.events_dir(1) / "trainer.jsonl"
    template = None
    for epoch in range(EPOCHS):
        script.train(1)
        template = template or json.loads(path.read_bytes().splitlines()[-1])
        with path.open("ab") as file:
            for _ in range(steps - 1):
                script.time.pass_s(0.05)
                data = template["data"]
                data |= {"first_step": script.step, "step": script.step + 1, "epoch": epoch, "window_s": 0.05}
                data |= {"loss": 7.0 - 5.0 * script.step / num_events, "lr": 0.1 + 1e-9 * script.step}
                data.pop("first_step_s", None)
                template["t_s"], template["utc"] = round(script.time.seconds, 6), _utc(script)
                file.write((json.dumps(template, separators=(",", ":")) + "\n").encode())
                script.step += 1
        script.validate(300 * (epoch + 1), min(47_000, 530 * (epoch + 1)))
    script.finish("all_epochs")
    return script.run.path


def _utc(script) -> str:
    return script.time.utc.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def main() -> int:
    """Measure, print, judge."""
    num_events = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    folder = Path(tempfile.mkdtemp(prefix="dawnrun-bench-"))
    try:
        run = long_run(folder, num_events)
        log = run / "events" / "1" / "trainer.jsonl"
        print(f"{num_events:,} events, {log.stat().st_size / 1e6:,.0f} MB")
        base = measure(folder / "c0", "-c", PARSE, str(log))
        report = ("-m", "dawnrun", "report")
        found = {
            "entries": measure(folder / "c1", *report, "--audit", str(ENTRIES)),
            "table": measure(folder / "c2", *report, str(run)),
            "cached table": measure(folder / "c2", *report, str(run)),
            "html": measure(folder / "c3", *report, str(run), "--output", str(folder / "out")),
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    scale = num_events / 1_000_000
    broken = []
    print(f"{'':14}{'CPU s':>8}{'wall s':>8}{'MB':>6}  ratio to json.loads of each line ({base.cpu_s:.1f} s)")
    for name, spent in found.items():
        ratio = "" if name == "entries" else f"  {spent.cpu_s / base.cpu_s:.2f}"
        print(f"{name:14}{spent.cpu_s:8.2f}{spent.wall_s:8.2f}{spent.peak_mb:6.0f}{ratio}")
        limit = LIMITS_S[name] if name == "entries" else max(2.5, LIMITS_S[name] * scale)
        broken += [f"{name}: {spent.cpu_s:.1f} s, limit {limit:g} s"] if spent.cpu_s > limit else []
        broken += (
            [f"{name}: {spent.peak_mb:.0f} MB, limit {MEMORY_LIMIT_MB} MB"] if spent.peak_mb > MEMORY_LIMIT_MB else []
        )
    print("\n".join(broken) or "within the limits")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
