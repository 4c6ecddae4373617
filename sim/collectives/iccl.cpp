#include "collectives/iccl.hpp"

#include <algorithm>

#include "collectives/ring.hpp"

namespace slackline {

namespace {

Generated generate_iccl(const GenerateRequest& request) {
  const Network& network = request.network;
  const auto idle = [&](uint32_t src, uint32_t dst) {
    if (network.server_of(static_cast<int>(src)) == network.server_of(static_cast<int>(dst))) return Fraction(0);
    const Fraction l = std::max(network.slowdown(static_cast<int>(src)), network.slowdown(static_cast<int>(dst)));
    const Fraction load((l.numerator() + l.denominator() - 1) / l.denominator());
    return (load - l) / l;
  };
  Generated result;
  result.schedule = ring_schedule(request.collective, ring_orders(network, rings_option(request)), idle);
  return result;
}

}  // namespace

const Algorithm iccl_algorithm = {"iccl", "a ring whose channels on dead NICs move to backup NICs (ICCL, VCCL)",
                                  no_ring_for, generate_iccl, {"rings"}};

}  // namespace slackline
