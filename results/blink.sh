#!/usr/bin/env bash
# Makes results/blink_*.csv and the charts from them: Blink against NCCL's rings and trees on DGX-1, DGX-2 and two servers.
# JOBS points run at the same time (default 1).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
tools/build.sh build -- slackline
for scenario in blink_dgx1v_all blink_dgx1p_all blink_dgx2_sizes blink_two_servers; do
  build/bin/slackline sweep "scenarios/$scenario.json" --out "results/$scenario.csv" --jobs "${JOBS:-1}" --resume
done
for terminal in svg png; do
  for machine in dgx1v dgx1p; do
    gnuplot -e "terminal='$terminal'; machine='$machine'" results/blink_dgx1.gp
  done
  gnuplot -e "terminal='$terminal'" results/blink_dgx2_sizes.gp
  gnuplot -e "terminal='$terminal'" results/blink_two_servers.gp
done
