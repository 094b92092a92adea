#!/usr/bin/env bash
# Pictures of a run's page for docs/reports.md, at 1200 and 400 px: scripts/make_screenshots.sh RUN [FOLDER]
# Needs Chromium. Take a real run, for example the newest of `make demo`, and look at the pictures before committing them.
set -euo pipefail
run=${1:?usage: scripts/make_screenshots.sh RUN [FOLDER]}
folder=${2:-docs/images}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

code=0
${DAWNRUN:-dawnrun} report "$run" --format html --output "$scratch" || code=$?
[ "$code" = 0 ] || [ "$code" = 6 ] || exit "$code"
mkdir -p "$folder"
for width in 1200 400; do
    chromium --headless=new --no-sandbox --disable-gpu --no-first-run --disable-background-networking \
        --user-data-dir="$scratch/profile" --window-size="$width,1800" \
        --screenshot="$folder/report-$width.png" "file://$scratch/report.html" 2>/dev/null
done
ls "$folder"/report-*.png
