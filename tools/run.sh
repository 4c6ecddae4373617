#!/usr/bin/env bash
# run.sh [SCENARIO.json] [OPTION]...: builds slackline if need be and plays a scenario.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
"$root/tools/build.sh" "$root/build" -- slackline
[ $# -gt 0 ] || set -- "$root/scenarios/one_nic_down.json"
exec "$root/build/bin/slackline" run "$@"
