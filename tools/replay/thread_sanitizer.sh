#!/bin/bash
# Builds the replay program and its unit tests with the thread sanitizer in build-tsan, and runs the tests and a few schedules.
# Exit 1 on a data race (or a failure). Takes minutes, mostly to build.
# Usage: tools/replay/thread_sanitizer.sh [GTEST_FILTER]      default: everything but GPUs and MPI, whose libraries are not instrumented
set -euo pipefail
cd "$(dirname "$0")/../.."
tools/build.sh build-tsan -DCMAKE_BUILD_TYPE=Debug "-DCMAKE_CXX_FLAGS_DEBUG=-O1 -g" -DSLACKLINE_THREAD_SANITIZE=ON -DSLACKLINE_CUDA=OFF -- replay_tests slackline-replay
export TSAN_OPTIONS="halt_on_error=1 exitcode=66 ${TSAN_OPTIONS:-}"
build-tsan/bin/replay_tests --gtest_filter="${1:--ReplayCuda.*:ReplayMpi.*}"
for size in 1B 1000003B 16MiB; do
  build-tsan/bin/slackline-replay schedules/examples/ring3.json --size $size --element bfloat16 --iterations 3
done
echo "no data races"
