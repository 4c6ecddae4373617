#!/bin/bash
# Executes schedules of every generator for p = 2..16 and the corpus's AllReduce, AllGather and ReduceScatter files on the cpu backend:
# sizes 1 B..64 MiB, every element type, on one core and on all. Writes results/replay_checks.csv; exit 1 where an element is wrong, or
# where a file that results/corpus_verdicts.csv calls right does not run.
# Usage: tools/replay/replay_check.sh [BIN [CORPUS]]      default: build/bin ../shared/corpus
# Every finished run is a line of build/replay_check/runs.csv and is not run again, unless it failed: interrupted, it goes on where
# it was, and leaves the table of what it did. Remove the folder to start afresh.
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=${1:-build/bin}
corpus=${2:-../shared/corpus}
work=build/replay_check
runs=$work/runs.csv
mkdir -p "$work"
[ -e "$runs" ] || echo "group,name,ranks,element,size,cores,exit,bytes,wrong" > "$runs"
awk -F, 'NR == 1 || $7 == 0 || $1 == "corpus"' "$runs" > "$runs.kept"
mv "$runs.kept" "$runs"
declare -A finished
while IFS=, read -r group name ranks element size cores rest; do
  finished["$group,$name,$ranks,$element,$size,$cores"]=1
done < "$runs"
all=$(nproc)
one=$(taskset -pc $$ | sed 's/.*: //; s/[-,].*//')  # a core that may be used

# GROUP NAME RANKS FILE ELEMENT SIZE CORES: one run, unless it is finished.
replay() {
  local key="$1,$2,$3,$5,$6,$7" code=0 row=$work/row.csv on=()
  [ -n "${finished["$key"]:-}" ] && return
  [ "$7" = 1 ] && on=(taskset -c "$one")
  rm -f "$row"
  "${on[@]}" "$bin/slackline-replay" "$4" --element "$5" --size "$6" --iterations 1 --warmup 0 --out "$row" > "$work/log" 2>&1 || code=$?
  [ $code = 130 ] || [ $code = 143 ] && exit $code
  local bytes="" wrong=""
  # Columns of slackline-replay --out, from the end, as names of algorithms may hold commas: wrong is the last, bytes the 15th.
  [ -e "$row" ] && IFS=, read -r bytes wrong < <(tail -n 1 "$row" | awk -F, '{ print $(NF - 14) "," $NF }')
  if [ $code != 0 ] && [ "$1" != corpus ]; then
    echo "FAILED ($code): $key: $(tail -n 1 "$work/log")"
    form_failed=1
  fi
  echo "$key,$code,$bytes,$wrong" >> "$runs"
}

# A row a group: what was run so far, and what came out. Files of the corpus that are refused (exit 1 or 2 and no result) do not count.
summarise() {
  awk -F, -v OFS=, '
  NR == 1 || $2 == "all" { next }
  { group = $1
    if (!(group in runs)) { order[++groups] = group; low[group] = 1e9 }
    if ($8 == "") { if (group != "corpus") ++failed[group]; next }
    ++runs[group]
    wrong[group] += $9
    if ($9 > 0 || $7 != 0) ++failed[group]
    if (!seen[group, "name", $2, $3]++) ++schedules[group]
    if ($3 < low[group]) low[group] = $3
    if ($3 + 0 > high[group]) high[group] = $3 + 0
    if ($8 > largest[group]) largest[group] = $8
    if (!seen[group, "type", $4]++) types[group] = types[group] (types[group] == "" ? "" : " ") $4
    if (!seen[group, "cores", $6]++) cores[group] = cores[group] (cores[group] == "" ? "" : " ") $6 }
  END { print "group,schedules,ranks_from,ranks_to,bytes_to,elements,cores,runs,runs_failed,wrong_elements"
        for (i = 1; i <= groups; ++i) { g = order[i]
          print g, schedules[g] + 0, low[g], high[g] + 0, largest[g] + 0, types[g], cores[g], runs[g] + 0, failed[g] + 0, wrong[g] + 0 } }' "$runs" > "$work/table.csv"
  mv "$work/table.csv" results/replay_checks.csv
}
trap summarise EXIT

scenario=scenarios/replay_vs_sim.json
# NAME RANKS ALGORITHM full|part [SETTING]...: generates a schedule and runs it; 64 MiB in every type (full), or in one for some ranks (part).
form() {
  local name=$1 ranks=$2 algorithm=$3 extent=$4 file="$work/schedule.cbor" turn=$2 form_failed=0
  shift 4
  local marker="$name,all,$ranks,-,$sizes,-"
  if [ -n "${finished["$marker"]:-}" ]; then return; fi
  local set=()
  for setting in "$@"; do set+=(--set "$setting"); done
  if ! "$bin/slackline" generate "$algorithm" --scenario "$scenario" "${set[@]}" --out "$file" > /dev/null 2> "$work/log"; then
    echo "FAILED: $name for $ranks ranks: $(tail -n 1 "$work/log")"
    echo "$name,generate,$ranks,,,,2,," >> "$runs"
    return
  fi
  for size in $sizes; do
    for element in float32 float16 bfloat16 int32; do
      turn=$((turn + 1))  # every size and type on one core and on all, by turns over the numbers of ranks
      if [ $size = 64MiB ] && [ "$extent" != full ] && { [ $element != bfloat16 ] || [ $((ranks % 7)) != 2 ]; }; then continue; fi
      replay "$name" "$name" "$ranks" "$file" $element $size $((turn % 2 ? 1 : all))
    done
  done
  [ $form_failed = 1 ] || echo "$marker,0,," >> "$runs"
}
slow() { echo "failures=[{\"server\":0,\"slowdown\":\"$1\"}]"; }
two() { echo "failures=[{\"server\":0,\"slowdown\":\"$1\"},{\"server\":1,\"slowdown\":\"$2\"}]"; }
parts='collective.size=2882880 B'  # a multiple of 2, 3, .., 16 elements
# RANKS: all forms.
forms() {
  local ranks=$1 servers="topology.servers=$1" type
  form ring $ranks ring full "$servers" 'schedule={"algorithm":"ring"}' "$(slow 2)"
  form "ring allgather" $ranks ring part "$servers" 'schedule={"algorithm":"ring"}' collective.type=allgather "$parts"
  form "ring reduce_scatter" $ranks ring part "$servers" 'schedule={"algorithm":"ring"}' collective.type=reduce_scatter "$parts"
  form "optcc l=2" $ranks optcc full "$servers" "$(slow 2)" 'schedule={"algorithm":"optcc","segments":4}'
  for l in 1 8/7 4/3 3; do
    form "optcc l=$l" $ranks optcc part "$servers" "$(slow $l)" 'schedule={"algorithm":"optcc","segments":3}'
  done
  if [ $ranks -ge 3 ]; then
    form "optcc two stragglers" $ranks optcc part "$servers" "$(two 4/3 8/7)" 'schedule={"algorithm":"optcc","segments":3}'
    form "nested_rings two stragglers" $ranks nested_rings part "$servers" "$(two 2 4/3)" 'schedule={"algorithm":"nested_rings","segments":3}'
  fi
  if [ $((ranks % 2)) = 0 ] && [ $ranks -ge 4 ]; then
    form "optcc two GPUs a server" $ranks optcc part "topology.servers=$((ranks / 2))" 'topology.gpus_per_server=2' 'topology.nics_per_server=2' \
      'ranks={"gpus_per_server":2}' 'failures=[{"server":0,"nics":1}]' 'schedule={"algorithm":"optcc","segments":3}'
  fi
  form nested_rings $ranks nested_rings part "$servers" "$(slow 2)" 'schedule={"algorithm":"nested_rings","segments":4}'
  for type in allreduce broadcast; do
    local root=""
    [ $type = broadcast ] && root=',"root":0'
    for machine in dgx2 dgx1v; do
      if [ $machine = dgx1v ] && [ "$ranks" -gt 8 ]; then continue; fi
      form "blink $type $machine" $ranks blink part "topology={\"file\":\"$PWD/topologies/$machine.json\"}" 'failures=[]' \
        "ranks={\"gpus\":[$(seq -s, 0 $((ranks - 1)))]}" "collective={\"type\":\"$type\",\"size\":\"16 MiB\",\"element\":\"4 B\"$root}" \
        'schedule={"algorithm":"blink"}'
    done
  done
}

bad=0
sizes="1B 4099B 1048577B"
for ranks in $(seq 2 16); do forms "$ranks"; done
if [ -d "$corpus/schedules" ]; then
  # What slackline concluded of each file: format, collective, ranks, errors.
  while IFS=, read -r file format collective ranks errors; do
    for run in "float32 1B $all" "bfloat16 1000000B 1"; do
      read -r element size cores <<< "$run"
      path=$corpus/schedules/$file
      if [[ $file == *.xz ]]; then
        path=$work/$(basename "$file" .xz)
        xz -dc "$corpus/schedules/$file" > "$path"
      fi
      replay corpus "$file" "$ranks" "$path" "$element" "$size" "$cores"
    done
    code=$(awk -F, -v file="$file" '$1 == "corpus" && $2 == file && $7 != 0 { print $7; exit }' "$runs")
    if [ -z "$errors" ] && [ -n "$code" ]; then
      echo "FAILED ($code): $file, which is right"
      bad=1
    fi
  done < <(awk -F, 'NR == 1 { for (i = 1; i <= NF; ++i) if ($i == "errors") errors = i } NR > 1 && ($3 == "allreduce" || $3 == "allgather" || $3 == "reduce_scatter") { print $1 "," $2 "," $3 "," $4 "," $errors }' results/corpus_verdicts.csv)
fi

sizes=64MiB
for ranks in $(seq 2 16); do forms "$ranks"; done
summarise
cat results/replay_checks.csv
awk -F, -v bad=$bad 'NR > 1 && ($9 > 0 || $10 > 0) { bad = 1 } END { exit bad }' results/replay_checks.csv
