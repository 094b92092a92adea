#!/usr/bin/env bash
# Trains the demo with five seeds and counts those that reach the target: demo_seeds.sh [options of dawnrun train]
set -euo pipefail

reached=0
for seed in 1 2 3 4 5; do
    if "$DAWNRUN" train --config demo --set "seed=$seed" "$@"; then reached=$((reached + 1)); fi
done
# shellcheck disable=SC2046  # run folders of ours hold no spaces
"$DAWNRUN" report $(ls -td runs/demo-[0-9]*/ | head -n 5) || [ $? -eq 6 ]
echo "$reached of 5 seeds reached the target"
[ $reached -eq 5 ]
