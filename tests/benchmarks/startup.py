"""How long the command line takes to answer, over an empty interpreter: `python tests/benchmarks/startup.py`.

Interleaved; the median of each command's ratios to `python -c pass` in the same round. Ends with 1 if a limit is broken.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from record_factory import make_run  # noqa: E402

ROUNDS = 15
LIMITS = {"--help": 10, "plan": 25, "report": 25}
RECIPE = """
name: startup
input: {num_train_images: 1281167}
phases:
  - {epochs: 13, image_size: 128, global_batch_size: 4096, per_device_batch_size: 512}
  - {epochs: 15, image_size: 224, global_batch_size: 1792, per_device_batch_size: 224}
lr: [{epochs: [0, 7], start: 1.0, end: 2.0}, {epochs: [7, 28], start: 2.0, end: 0.0}]
"""


def seconds(*words: str) -> float:
    """Wall time of one interpreter with these arguments."""
    began = time.perf_counter()
    subprocess.run([sys.executable, *words], cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def main() -> int:
    """Measure, print, judge."""
    with tempfile.TemporaryDirectory() as folder:
        recipe = Path(folder) / "recipe.yaml"
        recipe.write_text(RECIPE)
        run = make_run(Path(folder)).path
        words = {
            "--help": ["--help"],
            "plan": ["plan", "--config", str(recipe), "--processes", "8"],
            "report": ["report", str(run)],
        }
        ratios: dict[str, list[float]] = {name: [] for name in words}
        for name in words:
            seconds("-m", "dawnrun", *words[name])  # once, so that byte code is written and files are cached
        for _ in range(ROUNDS):
            empty = seconds("-c", "pass")
            for name, ratio in ratios.items():
                ratio.append(seconds("-m", "dawnrun", *words[name]) / empty)
    broken = 0
    for name, ratio in ratios.items():
        median, limit = statistics.median(ratio), LIMITS[name]
        broken += median > limit
        print(f"dawnrun {name}: {median:.1f} x python -c pass (limit {limit}){'  BROKEN' if median > limit else ''}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
