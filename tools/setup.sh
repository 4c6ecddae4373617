#!/usr/bin/env bash
# Installs the Debian packages that slackline needs and that are missing. The only place that installs anything.
set -euo pipefail
packages=(
  g++ cmake ninja-build ccache git
  ns3 libns3-dev libgsl-dev libsqlite3-dev     # ns-3's CMake package refers to all four
  libboost-graph-dev nlohmann-json3-dev libfmt-dev libcli11-dev libpugixml-dev liblpsolve55-dev
  gnuplot-nox                                  # the figures in results/
  libgtest-dev libgmock-dev librapidcheck-dev libvalijson-dev libbenchmark-dev
  xz-utils                                     # some files of the corpus are packed
)
missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null)" = "ii " ] || missing+=("$package")
done
[ "${#missing[@]}" -eq 0 ] && exit 0
echo "setup: installing ${missing[*]}" >&2
sudo=()
[ "$(id -u)" -eq 0 ] || sudo=(sudo)
"${sudo[@]}" apt-get update -qq
DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
