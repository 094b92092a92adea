"""One worker process: `python -m dawnrun.train RUN_DIR --attempt N`, or with `--validate` one of a validation."""

import os
import time

_BEGAN = time.perf_counter()  # before torch is imported: the run's clock starts here

# OpenMP reads this when it is loaded. Threads that spin at barriers fight for cores that something else uses: with two
# threads on two busy cores a ResNet-50 step at 32 px took 3 to 5 times as long as with threads that sleep.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from dawnrun.train.worker import main  # noqa: E402

if __name__ == "__main__":
    main(began=_BEGAN)
