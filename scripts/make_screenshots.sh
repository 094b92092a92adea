#!/usr/bin/env bash
# Pictures of a run's page for docs/reports.md, at 1200 and 400 px and in print: scripts/make_screenshots.sh [RUN [FOLDER]]
# RUN: by default the newest run of the demo; there is none: it is trained. Needs Chromium, and for print pdftoppm (Debian:
# poppler-utils); without them the pictures stay as they are. Look at them before committing.
set -euo pipefail
dawnrun=${DAWNRUN:-dawnrun}
run=${1:-$(ls -td runs/demo-2*/ 2>/dev/null | head -n 1)}
folder=${2:-docs/images}
browser=$(command -v chromium || command -v chromium-browser || true)
if [ -z "$browser" ]; then
    echo "no Chromium here: $folder is left as it is"
    exit 0
fi
if [ -z "$run" ]; then
    "$dawnrun" data demo data/demo
    DAWNRUN=$dawnrun "$(dirname "$0")/train_and_report.sh" demo --data-root data
    run=$(ls -td runs/demo-2*/ | head -n 1)
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

code=0
"$dawnrun" report "$run" --format html --output "$scratch" >/dev/null || code=$?
[ "$code" = 0 ] || [ "$code" = 6 ] || exit "$code"
mkdir -p "$folder"
browse() {
    "$browser" --headless=new --no-sandbox --disable-gpu --no-first-run --disable-background-networking \
        --hide-scrollbars --user-data-dir="$scratch/profile" "$@" "file://$scratch/report.html" 2>/dev/null
}
browse --window-size=1200,2400 --screenshot="$folder/report-1200.png"
browse --window-size=400,2600 --screenshot="$folder/report-400.png"
if command -v pdftoppm >/dev/null; then
    browse --no-pdf-header-footer --print-to-pdf="$scratch/report.pdf"
    pdftoppm -png -r 80 -f 1 -l 2 "$scratch/report.pdf" "$folder/report-print"
else
    echo "no pdftoppm here: $folder/report-print-*.png are left as they are"
fi
ls -l "$folder"/report-*.png
