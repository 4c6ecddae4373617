#!/usr/bin/env bash
# Makes one figure's data and plots in results/optcc_paper: figure.sh servers|sizes|slowdown|two_servers|two_slowdown|four_gpus|
# eight_gpus|gpus_slowdown|nvlink|small_messages, or all of them: figure.sh all. JOBS points run at the same time (default 2).
# SLACKLINE=PROGRAM takes that program instead of building one.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
figures=("$@")
if [[ $# -eq 0 || $1 == all ]]; then
  figures=(small_messages nvlink gpus_slowdown slowdown two_slowdown sizes four_gpus eight_gpus servers two_servers)
fi
slackline=${SLACKLINE:-build/bin/slackline}
[[ -n ${SLACKLINE:-} ]] || tools/build.sh build -- slackline
for figure in "${figures[@]}"; do
  scenario=scenarios/optcc_paper_$figure.json
  [[ $figure == small_messages ]] && scenario=scenarios/small_messages.json
  "$slackline" sweep "$scenario" --out "results/optcc_paper/$figure.csv" --jobs "${JOBS:-2}" --resume
  [[ $figure == small_messages ]] && awk -f results/optcc_paper/best.awk results/optcc_paper/small_messages.csv
  for terminal in svg png; do
    gnuplot -e "terminal='$terminal'; figure='$figure'" results/optcc_paper/figure.gp
  done
done
