#!/bin/bash
# Executes many schedules on the cpu backend and counts wrong elements: ring and OptCC for p = 2..16, sizes 1 B..64 MiB, every
# element type, and every file of the corpus that slackline validates as right. Writes results/replay_checks.csv; exit 1 on #wrong.
# Usage: tools/replay/replay_check.sh [BIN [CORPUS]]     default: build/bin ../shared/corpus/schedules
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=${1:-build/bin}
corpus=${2:-../shared/corpus/schedules}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
table=$work/table.csv
failed=0 runs=0 refused=0
echo "schedule,collective,ranks,bytes,element,wrong" > "$table"
replay() {  # NAME FILE ELEMENT SIZE
  local code=0
  rm -f "$work/row.csv"
  "$bin/slackline-replay" "$2" --element "$3" --size "$4" --iterations 1 --warmup 0 --out "$work/row.csv" > "$work/log" 2>&1 || code=$?
  runs=$((runs + 1))
  if [ -e "$work/row.csv" ]; then
    # The columns of slackline-replay --out: collective 2, ranks 4, bytes 7, element 16, wrong 21.
    tail -n 1 "$work/row.csv" | awk -F, -v name="$1" -v OFS=, '{print name, $2, $4, $7, $16, $21}' >> "$table"
  fi
  if [ $code != 0 ]; then
    echo "FAILED ($code): $1 $3 $4: $(tail -n 1 "$work/log")"
    failed=1
  fi
}
for ranks in $(seq 2 16); do
  for algorithm in ring optcc_2 optcc_4/3; do
    slowdown=1 name=${algorithm%%_*}
    [ "$name" = optcc ] && slowdown=${algorithm#*_}
    schedule='{"algorithm":"ring"}'
    [ "$name" = optcc ] && schedule='{"algorithm":"optcc","segments":4}'
    "$bin/slackline" generate "$name" --scenario scenarios/replay_vs_sim.json --set topology.servers="$ranks" \
      --set failures.0.slowdown=\""$slowdown"\" --set "schedule=$schedule" --out "$work/schedule.cbor" > /dev/null
    for element in float32 float16 bfloat16 int32; do
      for size in 1B 4099B 1048577B; do replay "$algorithm" "$work/schedule.cbor" $element $size; done
    done
    case $ranks in 2 | 5 | 16) for element in float32 float16 bfloat16 int32; do replay "$algorithm" "$work/schedule.cbor" $element 64MiB; done ;; esac
  done
done
if [ -d "$corpus" ]; then
  while IFS= read -r file; do
    # What is wrong is refused with exit 1, what is no schedule with exit 2.
    "$bin/slackline-replay" "$file" --size 1B --iterations 1 --warmup 0 --out "$work/row.csv" > "$work/log" 2>&1 || true
    if [ ! -e "$work/row.csv" ]; then
      refused=$((refused + 1))
      continue
    fi
    replay "${file#"$corpus"/}" "$file" float32 1B
    replay "${file#"$corpus"/}" "$file" bfloat16 1000000B
    rm -f "$work/row.csv"
  done < <(find "$corpus" -type f \( -name '*.xml' -o -name '*.json' \) | LC_ALL=C sort)
fi
mkdir -p results
mv "$table" results/replay_checks.csv
echo "$runs runs, $refused files of the corpus wrong or no schedules; failed: $failed"
exit $failed
