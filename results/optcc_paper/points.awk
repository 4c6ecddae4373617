# One curve of one panel: x, time, lower bound and fault-free ring, by tabs. -v x=ranks|GiB|bytes|l|nvlink -v algorithm=.. and, to
# choose the panel, -v slowdowns=PREFIX -v ranks=.. -v per_server=..
BEGIN { FS = ","; OFS = "\t"; split("150 225 300 450 600 900", speeds, " ") }
NR > 1 && $3 == algorithm && $NF == "ok" && (slowdowns == "" || index($9 ";", slowdowns ";") == 1) \
       && (ranks == "" || $4 == ranks) && (per_server == "" || $6 == per_server) {
  l = 1
  if ($9 != "") { split($9, first, ";"); sub(/^[0-9]+:/, "", first[1]); l = split(first[1], part, "/") == 2 ? part[1] / part[2] : part[1] + 0 }
  if (x == "ranks") place = $4
  if (x == "GiB") place = $7 / 2^30
  if (x == "bytes") place = $7
  if (x == "l") place = l
  if (x == "nvlink") place = speeds[++row]  # the first axis of the scenario's sweep; no column has it
  print place, $12, $15, $18
}
