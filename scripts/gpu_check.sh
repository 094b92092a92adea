#!/usr/bin/env bash
# Measures one machine with a GPU, without network, in at most 8 minutes: scripts/gpu_check.sh [--out DIR] [--reduced]
# Writes DIR/gpu-check.json and DIR/gpu-check.txt (default: the current folder). --reduced: seconds, on a CPU too.
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
exec timeout --signal=INT 480 "${PYTHON:-python3}" scripts/gpu_check.py "$@"
