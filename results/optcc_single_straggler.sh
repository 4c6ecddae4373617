#!/usr/bin/env bash
# Makes results/optcc_single_straggler.csv and .svg/.png: ring and OptCC with one straggler over cluster and message sizes.
# JOBS points run at the same time (default 1; a point of 512 servers needs 2 GiB).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
tools/build.sh build -- slackline
build/bin/slackline sweep scenarios/optcc_single_straggler.json --out results/optcc_single_straggler.csv --jobs "${JOBS:-1}" --resume
for terminal in svg png; do
  gnuplot -e "terminal='$terminal'" results/optcc_single_straggler.gp
done
