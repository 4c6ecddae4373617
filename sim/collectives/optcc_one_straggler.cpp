#include "collectives/optcc_composition.hpp"

namespace slackline {

namespace {

// Segments in fours, in both orders of the stages (design/optcc.md, "Composition: one straggler"). Ports are
// never shared, so everything runs on channel 0, in the order of the paper's slots.
class OneStraggler : public OptccComposition {
 public:
  explicit OneStraggler(const OptccParameters& parameters);

 protected:
  int64_t bodies() const override { return first_body(k_ - 1) + 4; }
  int64_t first_body(int64_t segment) const override { return segment / 4 * 4 + (segment % 4 >= 2 ? 1 : 0); }
  int64_t last_body(int64_t segment) const override { return first_body(segment) + 3; }
  void start() override;
  void emit_body(int64_t b) override;
  int64_t server_transfers() const override { return k_ * (2 * h_ * (h_ - 1) + 2 * h_ + (extra_ ? 2 * h_ : 0)); }

 private:
  static constexpr int64_t no_segment = -1;

  // What one body does: at most one segment in S2 and in S3, at most one ring stage on each lane.
  struct RingStage {
    int64_t segment = no_segment;
    bool gather = false;  // S4, else S1
  };
  struct Body {
    RingStage lane[2];
    int64_t upload = no_segment;    // S2
    int64_t download = no_segment;  // S3
  };

  // Patterns A, C: S1 S2 S3 S4; patterns B, D: S3 S1 S4 S2 (design/optcc.md, "The four stages").
  static bool straggler_first(int64_t segment) { return segment % 4 == 1 || segment % 4 == 3; }

  // A segment's chunks are its sections, then its extra chunk.
  uint32_t section(int64_t segment, int64_t j) const {
    return static_cast<uint32_t>(segment * stride_ + (j % h_ + h_) % h_);
  }
  uint32_t extra(int64_t body) const { return static_cast<uint32_t>(body * stride_ + h_); }

  void plan();
  void hop(const RingStage& stage, int64_t link, int64_t q);
  void upload(int64_t segment, int64_t u, uint32_t turnaround);
  void download(int64_t segment, int64_t u);
  void upload_extra(int64_t body, int64_t u, uint32_t turnaround);
  void download_extra(int64_t body, int64_t u, uint32_t turnaround);

  uint32_t straggler_;
  bool extra_ = false;
  int64_t stride_ = 0;  // chunks of a segment
  std::vector<Body> plan_;

  std::vector<uint32_t> reduced_;   // by chunk: the transfer that ended S1, or started it
  std::vector<uint32_t> uploaded_;  // by chunk: S2, the last upload of an extra chunk
  std::vector<uint32_t> moved_;     // by chunk: the latest of S3 and S4
  uint32_t last_upload_ = none, last_download_ = none;
};

OneStraggler::OneStraggler(const OptccParameters& parameters)
    : OptccComposition(parameters), straggler_(static_cast<uint32_t>(parameters.stragglers.at(0))) {
  // For l < 2 an extra chunk of x = (2 - l)/l sections fills the bubbles of each body; a section is the
  // denominator of x units long.
  const Fraction l = slowdown(parameters.stragglers[0]);
  Fraction x(0);
  if (l < Fraction(2)) x = (Fraction(2) - l) / l;
  extra_ = x > Fraction(0);
  stride_ = h_ + (extra_ ? 1 : 0);
  const int64_t section_units = x.denominator(), extra_units = x.numerator();
  for (int64_t s = 0; s < k_; ++s) {
    slices_.add_segment((Fraction(h_) * Fraction(section_units) + Fraction(extra_units)).numerator());
    for (int64_t j = 0; j < h_; ++j) slices_.add_chunk(j * section_units, section_units);
    if (extra_) slices_.add_chunk(h_ * section_units, extra_units);
  }
  slices_.finish_layout();
  plan();
}

void OneStraggler::plan() {
  plan_.resize(static_cast<size_t>(bodies()));
  for (int64_t s = 0; s < k_; ++s) {
    const size_t b = static_cast<size_t>(first_body(s));
    // An allgather that follows its reduce-scatter at once takes the later lane, so that every section has a
    // slot to arrive in before it is sent on, which hides the latency.
    const auto ring_stage = [&](size_t body, bool gather, size_t lane) {
      if (plan_[body].lane[lane].segment != no_segment) lane = 1 - lane;
      plan_[body].lane[lane] = {s, gather};
    };
    if (straggler_first(s)) {
      plan_[b].download = s;
      ring_stage(b + 1, false, 0);
      ring_stage(b + 2, true, 1);
      plan_[b + 3].upload = s;
    } else {
      ring_stage(b, false, s % 4 == 0 ? 0 : 1);
      plan_[b + 1].upload = s;
      plan_[b + 2].download = s;
      ring_stage(b + 3, true, s % 4 == 0 ? 0 : 1);
    }
  }
}

void OneStraggler::start() {
  reduced_.assign(static_cast<size_t>(k_ * stride_), none);
  uploaded_ = moved_ = reduced_;
  last_upload_ = last_download_ = none;
}

// Link i of the healthy ring sends its hop q: section i - q in the reduce-scatter, i - q + 1 in the allgather.
void OneStraggler::hop(const RingStage& stage, int64_t link, int64_t q) {
  const uint32_t chunk = section(stage.segment, stage.gather ? link - q + 1 : link - q);
  const uint32_t src = ring(link), dst = ring(link + 1);
  if (!stage.gather) {
    reduced_[chunk] = add(src, dst, chunk, TransferOp::reduce, {reduced_[chunk]});
  } else {
    const uint32_t source = moved_[chunk] != none ? moved_[chunk] : reduced_[chunk];
    moved_[chunk] = add(src, dst, chunk, TransferOp::copy, {source});
  }
}

// S2 in pair u: rank u owns section u + 1 and sends it to the straggler.
void OneStraggler::upload(int64_t segment, int64_t u, uint32_t turnaround) {
  const uint32_t chunk = section(segment, u + 1);
  const TransferOp op = straggler_first(segment) ? TransferOp::copy : TransferOp::reduce;
  uploaded_[chunk] = last_upload_ = add(ring(u), straggler_, chunk, op, {reduced_[chunk], turnaround});
}

// S3 in pair u: the straggler sends to rank u + 1, the raw section u + 1 that starts its chain there, or the total of
// section u + 2, which rank u + 1 owns.
void OneStraggler::download(int64_t segment, int64_t u) {
  if (straggler_first(segment)) {
    const uint32_t chunk = section(segment, u + 1);
    reduced_[chunk] = last_download_ = add(straggler_, ring(u + 1), chunk, TransferOp::reduce, {});
  } else {
    const uint32_t chunk = section(segment, u + 2);
    moved_[chunk] = last_download_ = add(straggler_, ring(u + 1), chunk, TransferOp::copy, {uploaded_[chunk]});
  }
}

void OneStraggler::upload_extra(int64_t body, int64_t u, uint32_t turnaround) {
  const uint32_t chunk = extra(body);
  uploaded_[chunk] = add(ring(u), straggler_, chunk, TransferOp::reduce, {turnaround});
}

void OneStraggler::download_extra(int64_t body, int64_t u, uint32_t turnaround) {
  // The straggler receives in order, so that the last upload's end is the end of all.
  add(straggler_, ring(u + 1), extra(body), TransferOp::copy, {uploaded_[extra(body)], turnaround});
}

void OneStraggler::emit_body(int64_t b) {
  const Body& body = plan_[static_cast<size_t>(b)];
  const bool upload_extras = extra_ && b < k_;
  const bool download_extras = extra_ && b >= 1 && b - 1 < k_;
  // The first body has no S2 and the last no S3. Their extra chunks follow when the pairs are through: the
  // straggler then turns around twice in the whole schedule, and it is busy, one way or the other, all the time.
  const bool uploads_last = upload_extras && body.upload == no_segment;
  const bool downloads_last = download_extras && body.download == no_segment;
  for (int64_t u = 0; u < h_; ++u) {
    if (body.upload != no_segment) {
      const bool turns_around = slotted_ && !extra_ && last_upload_ == none;
      upload(body.upload, u, turns_around ? last_download_ : none);
    }
    if (body.download != no_segment) download(body.download, u);
    for (const RingStage& stage : body.lane) {
      if (stage.segment == no_segment) continue;
      for (int64_t link = 0; link < h_; ++link) {
        if (link == u) continue;  // both its ends are busy with the straggler
        hop(stage, link, u < link ? u : u - 1);
      }
    }
    if (upload_extras && !uploads_last) upload_extra(b, u, none);
    if (download_extras && !downloads_last) download_extra(b - 1, u, none);
  }
  for (int64_t u = 0; u < h_ && uploads_last; ++u)
    upload_extra(b, u, slotted_ && u == 0 ? last_download_ : none);
  for (int64_t u = 0; u < h_ && downloads_last; ++u)
    download_extra(b - 1, u, slotted_ && u == 0 ? last_upload_ : none);
}

}  // namespace

std::unique_ptr<OptccComposition> compose_one_straggler(const OptccParameters& parameters) {
  return std::make_unique<OneStraggler>(parameters);
}

}  // namespace slackline
