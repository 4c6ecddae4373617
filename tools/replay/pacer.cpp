#include "pacer.hpp"

#include <algorithm>
#include <cmath>

namespace slackline {

namespace {

// Flows that share a port alternate after so much real time.
constexpr double quantum_ps = 2e9;

double byte_picoseconds(Bandwidth rate) { return 8e12 / static_cast<double>(rate.count()); }

}  // namespace

Pacer::Pacer(const Shape& shape, const Plan& plan) : sharing_(shape.sharing) {
  for (const NetworkLink& link : shape.network->links())
    links_.push_back({byte_picoseconds(link.capacity) * shape.factor, 0});
  const auto scaled = [&](Duration time) {
    return static_cast<int64_t>(std::llround(static_cast<double>(time.count()) * shape.factor));
  };
  for (const Step& step : plan.steps()) {
    if (step.kind == StepKind::send || step.rank == step.peer) continue;
    const auto [entry, is_new] = paths_.try_emplace({step.peer, step.rank});
    if (!is_new) continue;
    const Route& route = shape.network->route(static_cast<int>(step.peer), static_cast<int>(step.rank));
    Path& path = entry->second;
    path.links = route.links;
    for (const uint32_t link : route.links) path.byte_ps = std::max(path.byte_ps, links_[link].byte_ps);
    path.latency_ps = scaled(route.latency);
    path.overhead_ps = scaled(shape.network->message_overhead());
    const int64_t element = plan.layout().message().element();
    path.quantum = std::max<int64_t>(static_cast<int64_t>(quantum_ps / path.byte_ps) / element, 1) * element;
  }
}

void Pacer::reset() {
  for (Link& link : links_) link.free = 0;
}

int64_t Pacer::take(uint32_t link, int64_t earliest, int64_t bytes, int64_t overhead) {
  const std::lock_guard lock(mutex_);
  const int64_t start = std::max(earliest, links_[link].free);
  links_[link].free = start + overhead + std::llround(links_[link].byte_ps * static_cast<double>(bytes));
  return start;
}

int64_t Pacer::take_all(const Path& path, int64_t earliest, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  int64_t start = earliest;
  for (const uint32_t link : path.links) start = std::max(start, links_[link].free);
  const int64_t end = start + path.overhead_ps + std::llround(path.byte_ps * static_cast<double>(bytes));
  for (const uint32_t link : path.links) links_[link].free = end;
  return start;
}

double shape_factor(const Network& network, const Plan& plan, unsigned cores) {
  // The time of the busiest link is a lower bound of the whole.
  std::vector<double> busy(network.links().size(), 0);
  for (uint32_t s = 0; s < plan.steps().size(); ++s) {
    const Step& step = plan.steps()[s];
    if (step.kind == StepKind::send || step.rank == step.peer) continue;
    const auto bytes = static_cast<double>(plan.bytes(s));
    if (bytes == 0) continue;
    for (const uint32_t link : network.route(static_cast<int>(step.peer), static_cast<int>(step.rank)).links)
      busy[link] += static_cast<double>(network.message_overhead().count()) +
                    bytes * byte_picoseconds(network.links()[link].capacity);
  }
  const double busiest = busy.empty() ? 0 : *std::max_element(busy.begin(), busy.end());
  if (busiest <= 0) return 1;
  const double copying = 25.0 * 1000.0 * static_cast<double>(plan.total_bytes()) / cores;
  const double waking = 5e8 * static_cast<double>(plan.transfers()) / cores;
  return std::max(1.0, std::ceil(std::max({1e12, copying, waking}) / busiest));
}

}  // namespace slackline
