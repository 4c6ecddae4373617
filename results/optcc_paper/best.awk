# Fails unless `best` is there and no slower than any other algorithm at every point of a sweep: awk -f best.awk small_messages.csv
BEGIN { FS = "," }
NR > 1 && $NF == "ok" {
  point = $4 " ranks, " $7 " bytes, " $9
  if ($3 == "best") best[point] = $12
  else if (!(point in least) || $12 + 0 < least[point] + 0) { least[point] = $12; winner[point] = $3 }
}
END {
  for (point in least) {
    ++points
    if (!(point in best)) { print point ": no best"; bad = 1 }
    else if (best[point] + 0 > least[point] + 0) { print point ": best takes " best[point] " us, " winner[point] " " least[point] " us"; bad = 1 }
  }
  if (!points) { print "no points"; bad = 1 }
  exit bad
}
