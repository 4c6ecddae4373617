#!/usr/bin/env bash
# test.sh [CTEST OPTION]...: builds everything in release with warnings as errors and again with the address and
# undefined-behaviour sanitizers, runs the sanitized unit and property tests, then all tests but the long ones.
# `tools/test.sh -L long` runs those.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
jobs=$(nproc)
"$root/tools/build.sh" "$root/build"
if [ $# -eq 0 ]; then
  "$root/tools/build.sh" "$root/build-sanitize" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 -DSLACKLINE_SANITIZE=ON -DSLACKLINE_CUDA=OFF -- unit_tests property_tests
  # ns-3's libraries are not instrumented and keep what they allocate until the process ends.
  # Fewer mutants than in release, where the same test runs again.
  SLACKLINE_MUTANTS=900 ASAN_OPTIONS=detect_leaks=0 ctest --test-dir "$root/build-sanitize" --output-on-failure -j "$jobs" -L 'unit|property' -LE long
  set -- -LE long
fi
ctest --test-dir "$root/build" --output-on-failure -j "$jobs" "$@"
