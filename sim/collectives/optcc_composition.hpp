// How OptCC puts the stages of its segments together, for one straggler and for several
// (Chen et al., arXiv 2606.01680; design/optcc.md). Internal to optcc.cpp and its two compositions.
#pragma once

#include <memory>
#include <vector>

#include "collectives/slices.hpp"

namespace slackline {

/// When transfers start.
enum class Pace : uint8_t {
  slots,  ///< in the paper's slots: dependencies hold back what could start earlier
  asap,   ///< as soon as data and ports allow; never later than in the slots
};

struct OptccParameters {
  const Network& network;
  int64_t segments = 1;
  std::vector<int> stragglers;  ///< servers; the others make up the ring, which goes at its slowest member's speed
  NvlinkOrder nvlink = NvlinkOrder::overlapped;
  Pace pace = Pace::slots;
};

/// A schedule that can be written out, in full or as a probe (Slices::start).
class OptccComposition {
 public:
  virtual ~OptccComposition() = default;
  const Slices& slices() const { return slices_; }
  int64_t transfers() const { return server_transfers() * slices_.ranks_per_server() + k_ * slices_.nvlink_transfers(); }
  void emit(TransferSink& sink, bool probe = false);

 protected:
  static constexpr uint32_t none = Slices::none;

  explicit OptccComposition(const OptccParameters& parameters);
  /// Bodies that the pipeline has, and the first and last one in which a segment takes part.
  virtual int64_t bodies() const = 0;
  virtual int64_t first_body(int64_t segment) const = 0;
  virtual int64_t last_body(int64_t segment) const = 0;
  virtual void start() = 0;
  virtual void emit_body(int64_t body) = 0;
  virtual int64_t server_transfers() const = 0;

  /// Slowdown of a server in terms of the ring's slowest.
  Fraction slowdown(int server) const { return slices_.slowdown(server) / ring_slowdown_; }
  uint32_t ring(int64_t i) const { return ring_[static_cast<size_t>(i % h_)]; }
  uint32_t add(uint32_t src, uint32_t dst, uint32_t chunk, TransferOp op, std::initializer_list<uint32_t> after) {
    return slices_.add(src, dst, chunk, op, 0, after);
  }

  Slices slices_;
  int64_t k_;
  int64_t h_ = 0;  ///< servers in the ring
  bool slotted_;

 private:
  std::vector<uint32_t> ring_;
  Fraction ring_slowdown_{1};
  bool overlapped_;
};

std::unique_ptr<OptccComposition> compose_one_straggler(const OptccParameters& parameters);
std::unique_ptr<OptccComposition> compose_many_stragglers(const OptccParameters& parameters);

}  // namespace slackline
