#include "interrupt.hpp"

#include <signal.h>

#include <atomic>
#include <chrono>

namespace slackline {

namespace {

std::atomic<bool> requested{false};

}  // namespace

std::function<bool()> interruption(double seconds) {
  struct sigaction action = {};
  action.sa_handler = [](int) { requested = true; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  const auto start = std::chrono::steady_clock::now();
  return [seconds, start] {
    return requested || (seconds > 0 && std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > seconds);
  };
}

}  // namespace slackline
