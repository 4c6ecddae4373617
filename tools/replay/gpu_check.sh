#!/bin/bash
# Runs every check of the cuda backend and a small benchmark on a machine with an NVIDIA GPU, its driver, and nothing else,
# in less than 4 minutes, and writes results/gpu/. In two steps, since that machine can build nothing:
#   tools/replay/gpu_check.sh prepare    where slackline is built: puts schedules into build/gpu_check/
#   tools/replay/gpu_check.sh            on the GPU machine, with this file, build/bin/slackline-replay and build/gpu_check/
set -euo pipefail
cd "$(dirname "$0")/../.."
schedules=build/gpu_check
program=build/bin/slackline-replay

if [ "${1:-}" = prepare ]; then
  slackline=build/bin/slackline
  mkdir -p $schedules
  generate() {  # NAME ALGORITHM RANKS SLOWDOWN COLLECTIVE SCHEDULE
    "$slackline" generate "$2" --scenario scenarios/replay_vs_sim.json --set topology.servers="$3" \
      --set failures.0.slowdown=\""$4"\" --set collective.type="$5" --set collective.size=120MiB --set "schedule=$6" --out "$schedules/$1.json"
  }
  for ranks in 2 5 8 16; do
    generate ring_$ranks ring $ranks 1 allreduce '{"algorithm":"ring"}'
  done
  generate allgather_8 ring 8 1 allgather '{"algorithm":"ring"}'
  generate reduce_scatter_5 ring 5 1 reduce_scatter '{"algorithm":"ring"}'
  generate optcc_5 optcc 5 2 allreduce '{"algorithm":"optcc","segments":8}'
  generate optcc_8 optcc 8 4/3 allreduce '{"algorithm":"optcc","segments":8}'
  # A ring that lacks its last transfer.
  python3 - "$schedules" <<'PYTHON'
import json, sys
schedule = json.load(open(sys.argv[1] + "/ring_5.json"))
schedule["transfers"].pop()
json.dump(schedule, open(sys.argv[1] + "/wrong_5.json", "w"))
PYTHON
  exit 0
fi

start=$SECONDS
out=results/gpu
mkdir -p $out
: > $out/log.txt
{ date -u; nvidia-smi -L; nvidia-smi --query-gpu=driver_version,memory.total --format=csv; } > $out/machine.txt 2>&1 || true
cat $out/machine.txt
failed=0
collect() {  # CSV TABLE
  if [ -e "$2" ]; then tail -n +2 "$1" >> "$2"; else cp "$1" "$2"; fi
  rm -f "$1"
}
replay() {  # TABLE ARGUMENTS
  local table=$1 code=0
  shift
  echo "\$ slackline-replay $*" >> $out/log.txt
  "$program" "$@" --backend cuda --out $out/row.csv >> $out/log.txt 2>&1 || code=$?
  [ -e $out/row.csv ] && collect $out/row.csv "$table"
  return $code
}
rm -f $out/checks.csv $out/benchmark.csv

for schedule in ring_2 ring_5 ring_8 ring_16 allgather_8 reduce_scatter_5 optcc_5 optcc_8; do
  for element in float32 float16 bfloat16 int32; do
    for size in 1B 1000003B 48MiB; do
      if ! replay $out/checks.csv $schedules/$schedule.json --element $element --size $size --iterations 2 --warmup 0; then
        echo "FAILED: $schedule $element $size"
        failed=1
      fi
    done
  done
done
# Refused without --force; with it, wrong elements are found.
code=0; "$program" $schedules/wrong_5.json --backend cuda --size 1MiB >> $out/log.txt 2>&1 || code=$?
[ $code = 1 ] || { echo "FAILED: a wrong schedule was not refused (exit $code)"; failed=1; }
code=0; replay $out/checks.csv $schedules/wrong_5.json --size 1MiB --iterations 1 --warmup 0 --force || code=$?
[ $code = 1 ] || { echo "FAILED: a wrong schedule gave right results (exit $code)"; failed=1; }

for schedule in ring_2 ring_8 optcc_8; do
  for element in float32 bfloat16; do
    for size in 1MiB 16MiB 256MiB 1GiB; do
      replay $out/benchmark.csv $schedules/$schedule.json --element $element --size $size --iterations 10 --warmup 3 ||
        { echo "FAILED: benchmark $schedule $element $size"; failed=1; }
    done
  done
done
grep -h '# cuda: GPU' $out/log.txt | sort -u -k1,7 > $out/bandwidth.txt || true
echo "$(tail -n +2 $out/checks.csv | wc -l) checks and $(tail -n +2 $out/benchmark.csv | wc -l) benchmark rows in $((SECONDS - start)) s; failed: $failed" | tee -a $out/machine.txt
exit $failed
