#!/usr/bin/env bash
# Trains a shipped recipe and reports on the run: train_and_report.sh RECIPE [options of dawnrun train]
# $DAWNRUN is the command. Ends with the training's exit code; a run below its target is reported too.
set -euo pipefail

recipe=$1
shift
code=0
"$DAWNRUN" train --config "$recipe" "$@" || code=$?
if [ $code -ne 0 ] && [ $code -ne 6 ]; then exit $code; fi
run=$(ls -td runs/"$recipe"-*/ | head -n 1)
"$DAWNRUN" report "${run%/}" --html || [ $? -eq 6 ]
exit $code
