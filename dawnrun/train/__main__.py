"""One worker process: `python -m dawnrun.train RUN_DIR --attempt N`, or with `--validate` one of a validation."""

import time

_BEGAN = time.perf_counter()  # before torch is imported: the run's clock starts here

from dawnrun.train.worker import main  # noqa: E402

if __name__ == "__main__":
    main(began=_BEGAN)
