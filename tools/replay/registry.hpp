// The backends by name. Each is added by its files and one line in replay_backends().
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "replay/backend.hpp"
#include "replay/pacer.hpp"

namespace slackline {

/// What the command line asks of a backend. Throws Error{usage} from `make` for what the backend cannot do.
struct BackendOptions {
  std::optional<Shape> shape;
  bool record_times = false;
  std::chrono::milliseconds timeout{30'000};
  int ranks_per_gpu = 0;  ///< at most so many ranks share a GPU; 0: as many as must
};

struct BackendEntry {
  std::string_view name;
  std::string_view summary;  ///< one line
  /// Throws Error{device} where this build or this machine has no such thing; called before anything else, so
  /// that the message comes at once.
  void (*require)();
  std::unique_ptr<ReplayBackend> (*make)(const ReplayJob& job, const BackendOptions& options);
};

const std::vector<BackendEntry>& replay_backends();

}  // namespace slackline
