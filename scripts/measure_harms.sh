#!/usr/bin/env bash
# How long each harm of docs/sites.md goes unnoticed: `scripts/measure_harms.sh [ROUNDS]`, as root on Debian (.ci/run
# installs what it needs). Prints, for each harm, the seconds until the command had ended and no process was left.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
for _ in $(seq "${1:-5}"); do
    "$python" -m pytest -q -s -m "" tests/testbeds -k "harm or killed_agent_fails" --timeout=300 || true
done | grep --line-buffered -oE 'MEASURED [a-z ]+ [0-9].*' | tee >(cat >&2) | sort | awk '
    { name = $2 == "slurm" ? $2 " " $3 : $2; value = $2 == "slurm" ? $4 : $3; seen[name] = seen[name] " " value }
    END {
        for (name in seen) {
            n = split(seen[name], values, " ")
            for (i = 1; i <= n; i++) for (j = i + 1; j <= n; j++) if (values[j] + 0 < values[i] + 0) {
                held = values[i]; values[i] = values[j]; values[j] = held
            }
            printf "%-12s of %d: median %.1f s, worst %.1f s\n", name, n, values[int((n + 1) / 2)], values[n]
        }
    }'
