#!/usr/bin/env bash
# Plays scenarios/drills/*.json, each with every recovery policy, and writes results/drills.csv and results/drills.md:
# which policy loses least. Takes about two minutes on two cores. SLACKLINE_BUILT=1 uses build/ as it is.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
[[ -n ${SLACKLINE_BUILT:-} ]] || tools/build.sh build -- slackline
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
drills=(one_nic two_nics_one_server two_servers rail_switch cable_flap nic_half_rate early half_time late during_recovery all_nics nvlink)
for drill in "${drills[@]}"; do
  build/bin/slackline sweep "scenarios/drills/$drill.json" --out "$work/$drill.csv" --jobs "${JOBS:-2}" --quiet
done
{ head -1 "$work/one_nic.csv"; for drill in "${drills[@]}"; do tail -n +2 "$work/$drill.csv"; done; } > results/drills.csv
python3 - "$work" "${drills[@]}" > "$work/drills.md" <<'PYTHON'
import csv, json, sys
work, drills = sys.argv[1], sys.argv[2:]
policies = ["none", "reroute", "restart", "replan"]
rows = {(r["scenario"], r["recovery"]): r for r in csv.DictReader(open("results/drills.csv"))}
print("# What should I do when this happens?\n")
print("Made by `results/drills.sh` from `scenarios/drills/`; numbers in `drills.csv`. Eleven drills run an 8 GiB AllReduce in all eight groups of 16 servers with")
print("8 GPUs and 8 NICs of 400 Gb/s on rails, OptCC schedules; the last one an AllReduce of 1 GiB with Blink's trees in a DGX-1V. A failure is known after")
print("5 ms (1 ms in the DGX-1V), moving flows takes another 1 ms (0.1 ms), a new schedule 20 ms (2 ms).\n")
print("Time lost against the same schedule on the undamaged network, and what waits for ever:\n")
print("| drill | " + " | ".join(policies) + " | least lost |")
print("|---|" + "---|" * (len(policies) + 1))
answers = []
for drill in drills:
    cells, losses = [], {}
    for policy in policies:
        row = rows[(drill, policy)]
        if row["time_us"]:
            lost = float(row["time_us"]) / float(row["undisturbed_us"]) - 1
            losses[policy] = lost
            cells.append(f"{100 * lost:.1f} %")
        else:
            cells.append("given up" if "given up" in row["status"] else "stalled")
    best = min(losses, key=losses.get)
    same = [p for p in policies if p in losses and losses[p] < losses[best] + 0.005]
    print(f"| `{drill}` | " + " | ".join(cells) + " | " + ", ".join(same) + " |")
    scenario = json.load(open(f"scenarios/drills/{drill}.json"))
    row = rows[(drill, best)]
    detail = []
    for key, what in (("detection_us", "to notice and move"), ("planning_us", "for a new schedule"), ("discarded_us", "of work dropped")):
        if float(row[key] or 0) > 0:
            detail.append(f"{float(row[key]) / 1000:.1f} ms {what}")
    if int(row["lost_bytes"] or 0) > 0:
        detail.append(f"{int(row['lost_bytes']) / 1e6:.1f} MB sent again")
    lost_ms = (float(row["time_us"]) - float(row["undisturbed_us"])) / 1000
    answers.append(f"- **{drill}**: {scenario['description']} Least is lost with *{'*, *'.join(same)}*: {lost_ms:.1f} ms" + (f" ({', '.join(detail)}, the rest slower running)." if detail else "."))
print("\n" + "\n".join(answers))
PYTHON
mv "$work/drills.md" results/drills.md
