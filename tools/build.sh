#!/usr/bin/env bash
# build.sh DIRECTORY [CMAKE OPTION]... [-- TARGET...]: installs what is missing, configures once, builds what changed.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
"$root/tools/setup.sh"
directory=$1
shift
options=()
while [ $# -gt 0 ] && [ "$1" != "--" ]; do
  options+=("$1")
  shift
done
[ $# -gt 0 ] && shift
if [ ! -f "$directory/build.ninja" ] || [ "${#options[@]}" -gt 0 ]; then
  cmake -S "$root" -B "$directory" -G Ninja "${options[@]}" >&2
fi
ninja -C "$directory" "$@" >&2
