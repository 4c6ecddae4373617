#!/usr/bin/env bash
# whole_process.sh: wall time, processor time and peak memory of whole `slackline run` processes (generation, validation,
# simulation, bounds) on one core, at the sizes of issue RUN.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
program=$root/build/bin/slackline
scenario=$root/scenarios/one_nic_down.json
run() {
  local name=$1 out
  shift
  out=$(mktemp)
  # GNU time is not on every machine; bash's own reports no memory, /proc does.
  local begin end
  begin=$(date +%s.%N)
  taskset -c 0 "$program" run "$scenario" --format csv --out "$out" "$@" &
  local pid=$! peak=0 now
  while now=$(awk '/VmHWM/ {print $2}' "/proc/$pid/status" 2>/dev/null) && [ -n "$now" ]; do
    peak=$now
    sleep 0.02
  done
  wait "$pid"
  end=$(date +%s.%N)
  awk -v name="$name" -v begin="$begin" -v end="$end" -v peak="$peak" -F, \
    'END { printf "%-28s %7.2f s  %6.2f GiB  %9d transfers  %9d events\n", name, end - begin, peak / 1048576, $20, $21 }' "$out"
  rm -f "$out"
}
run "ring, p = 1024" --set topology.servers=1024 --set schedule.algorithm=ring
run "ring, p = 1024, no failure" --set topology.servers=1024 --set schedule.algorithm=ring --set 'failures=[]'
run "optcc, p = 1024, k = 16" --set topology.servers=1024 --set schedule.segments=16
