#include "collectives/optcc.hpp"

#include <algorithm>

#include "collectives/segments.hpp"
#include "schedule/list_timing.hpp"

namespace slackline {

namespace {

// Composes the segments of one straggler. Ports are never shared, so everything runs on channel 0, in the order
// of the paper's slots.
class OneStraggler {
 public:
  OneStraggler(const Network& network, int64_t segments);

  int64_t units() const { return units_; }
  const std::vector<Chunk>& chunks() const { return chunks_; }
  int64_t transfers() const { return k_ * (2 * h_ * (h_ - 1) + 2 * h_ + (extra_ ? 2 * h_ : 0)); }
  void emit(TransferSink& sink);

  static int64_t transfers_per_segment(int64_t healthy) { return 2 * healthy * (healthy + 1); }

 private:
  static constexpr uint32_t none = UINT32_MAX;
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
  static int64_t first_body(int64_t segment) { return segment / 4 * 4 + (segment % 4 >= 2 ? 1 : 0); }

  uint32_t section(int64_t segment, int64_t j) const {
    return static_cast<uint32_t>(segment * h_ + (j % h_ + h_) % h_);
  }
  uint32_t extra(int64_t body) const { return static_cast<uint32_t>(k_ * h_ + body); }

  uint32_t add(uint32_t src, uint32_t dst, uint32_t chunk, TransferOp op,
               std::initializer_list<uint32_t> after) {
    uint32_t known[2];
    size_t count = 0;
    for (const uint32_t earlier : after)
      if (earlier != none) known[count++] = earlier;
    sink_->add({src, dst, chunk, chunk, op, 0, {known, count}});
    return next_++;
  }
  void hop(const RingStage& stage, int64_t link, int64_t q);
  void upload(int64_t segment, int64_t u, uint32_t turnaround = none);
  void download(int64_t segment, int64_t u);
  void upload_extra(int64_t body, int64_t u, uint32_t turnaround = none);
  void download_extra(int64_t body, int64_t u, uint32_t turnaround = none);

  int64_t k_, h_;
  bool extra_ = false;
  int64_t units_ = 0;
  std::vector<Chunk> chunks_;
  std::vector<uint32_t> ring_;  // healthy ranks
  uint32_t straggler_ = 0;

  TransferSink* sink_ = nullptr;
  uint32_t next_ = 0;
  std::vector<uint32_t> reduced_;   // by section: the transfer that ended S1, or started it
  std::vector<uint32_t> uploaded_;  // by section: S2
  std::vector<uint32_t> moved_;     // by section: the latest of S3 and S4
  std::vector<uint32_t> extra_up_;  // by extra chunk: the last upload
  uint32_t last_upload_ = none, last_download_ = none;
};

OneStraggler::OneStraggler(const Network& network, int64_t segments) : k_(segments) {
  const std::vector<int> slow = network.stragglers();
  straggler_ = slow.empty() ? 0 : static_cast<uint32_t>(slow.front());
  for (uint32_t rank = 0; rank < static_cast<uint32_t>(network.ranks()); ++rank)
    if (rank != straggler_) ring_.push_back(rank);
  h_ = static_cast<int64_t>(ring_.size());

  // For l < 2 an extra chunk of x = (2 - l)/l sections fills the bubbles of each body; a section is the
  // denominator of x units long.
  const Fraction l = network.slowdown(static_cast<int>(straggler_));
  Fraction x(0);
  if (l < Fraction(2)) x = (Fraction(2) - l) / l;
  extra_ = x > Fraction(0);
  const int64_t section_units = x.denominator(), extra_units = x.numerator();
  const Fraction segment_units = Fraction(h_) * Fraction(section_units) + Fraction(extra_units);
  units_ = (segment_units * Fraction(k_)).numerator();
  chunks_.resize(static_cast<size_t>(k_ * (h_ + (extra_ ? 1 : 0))));
  for (int64_t s = 0; s < k_; ++s) {
    const int64_t begin = s * segment_units.numerator();
    for (int64_t j = 0; j < h_; ++j)
      chunks_[section(s, j)] = {Buffer::data, begin + j * section_units, section_units};
    if (extra_) chunks_[extra(s)] = {Buffer::data, begin + h_ * section_units, extra_units};
  }
}

// Link i of the healthy ring sends its hop q: section i - q in the reduce-scatter, i - q + 1 in the allgather.
void OneStraggler::hop(const RingStage& stage, int64_t link, int64_t q) {
  const uint32_t chunk = section(stage.segment, stage.gather ? link - q + 1 : link - q);
  const uint32_t src = ring_[static_cast<size_t>(link)], dst = ring_[static_cast<size_t>((link + 1) % h_)];
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
  uploaded_[chunk] = last_upload_ = add(ring_[static_cast<size_t>(u)], straggler_, chunk, op, {reduced_[chunk], turnaround});
}

// S3 in pair u: the straggler sends to rank u + 1, the raw section u + 1 that starts its chain there, or the total of
// section u + 2, which rank u + 1 owns.
void OneStraggler::download(int64_t segment, int64_t u) {
  const uint32_t dst = ring_[static_cast<size_t>((u + 1) % h_)];
  if (straggler_first(segment)) {
    const uint32_t chunk = section(segment, u + 1);
    reduced_[chunk] = last_download_ = add(straggler_, dst, chunk, TransferOp::reduce, {});
  } else {
    const uint32_t chunk = section(segment, u + 2);
    moved_[chunk] = last_download_ = add(straggler_, dst, chunk, TransferOp::copy, {uploaded_[chunk]});
  }
}

void OneStraggler::upload_extra(int64_t body, int64_t u, uint32_t turnaround) {
  const uint32_t chunk = extra(body);
  extra_up_[static_cast<size_t>(body)] =
      add(ring_[static_cast<size_t>(u)], straggler_, chunk, TransferOp::reduce, {turnaround});
}

void OneStraggler::download_extra(int64_t body, int64_t u, uint32_t turnaround) {
  // The straggler receives in order, so that the last upload's end is the end of all.
  add(straggler_, ring_[static_cast<size_t>((u + 1) % h_)], extra(body), TransferOp::copy,
      {extra_up_[static_cast<size_t>(body)], turnaround});
}

void OneStraggler::emit(TransferSink& sink) {
  sink_ = &sink;
  next_ = 0;
  reduced_.assign(static_cast<size_t>(k_ * h_), none);
  uploaded_ = moved_ = reduced_;
  extra_up_.assign(static_cast<size_t>(k_), none);

  std::vector<Body> bodies(static_cast<size_t>(first_body(k_ - 1)) + 4);
  if (k_ % 4 == 3 || k_ % 4 == 0) bodies.resize(static_cast<size_t>(first_body(k_ - 1)) + 4);
  for (int64_t s = 0; s < k_; ++s) {
    const size_t b = static_cast<size_t>(first_body(s));
    // An allgather that follows its reduce-scatter at once takes the later lane, so that every section has a
    // slot to arrive in before it is sent on, which hides the latency.
    const auto ring_stage = [&](size_t body, bool gather, size_t lane) {
      if (bodies[body].lane[lane].segment != no_segment) lane = 1 - lane;
      bodies[body].lane[lane] = {s, gather};
    };
    if (straggler_first(s)) {
      bodies[b].download = s;
      ring_stage(b + 1, false, 0);
      ring_stage(b + 2, true, 1);
      bodies[b + 3].upload = s;
    } else {
      ring_stage(b, false, s % 4 == 0 ? 0 : 1);
      bodies[b + 1].upload = s;
      bodies[b + 2].download = s;
      ring_stage(b + 3, true, s % 4 == 0 ? 0 : 1);
    }
  }

  for (int64_t b = 0; b < static_cast<int64_t>(bodies.size()); ++b) {
    const Body& body = bodies[static_cast<size_t>(b)];
    const bool upload_extras = extra_ && b < k_;
    const bool download_extras = extra_ && b >= 1 && b - 1 < k_;
    // The first body has no S2 and the last no S3. Their extra chunks follow when the pairs are through: the
    // straggler then turns around twice in the whole schedule, and it is busy, one way or the other, all the time.
    const bool uploads_last = upload_extras && body.upload == no_segment;
    const bool downloads_last = download_extras && body.download == no_segment;
    for (int64_t u = 0; u < h_; ++u) {
      if (body.upload != no_segment) {
        const bool turns_around = !extra_ && last_upload_ == none;
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
      if (upload_extras && !uploads_last) upload_extra(b, u);
      if (download_extras && !downloads_last) download_extra(b - 1, u);
    }
    for (int64_t u = 0; u < h_ && uploads_last; ++u) upload_extra(b, u, u == 0 ? last_download_ : none);
    for (int64_t u = 0; u < h_ && downloads_last; ++u) download_extra(b - 1, u, u == 0 ? last_upload_ : none);
  }
}

std::optional<std::string> inapplicable(const GenerateRequest& request) {
  const Network& network = request.network;
  if (request.collective.type != CollectiveType::allreduce) return "OptCC is an AllReduce";
  if (network.ranks_per_server() != 1) return "this form of OptCC wants one rank per server";
  if (const auto slow = network.stragglers(); slow.size() > 1)
    return "this form of OptCC handles one straggler, and there are " + std::to_string(slow.size());
  return std::nullopt;
}

Generated generate_optcc(const GenerateRequest& request) {
  const int64_t per_segment = OneStraggler::transfers_per_segment(request.network.ranks() - 1);
  int64_t segments = 0;
  if (const auto wanted = request.options.find("segments"); wanted && !wanted->value().is_string())
    segments = wanted->integer(1, 1'000'000);
  else if (wanted && wanted->string() != "auto")
    wanted->fail("must be a number of segments or \"auto\"");
  int64_t max_transfers = int64_t{1} << 26;
  if (const auto limit = request.options.find("max_transfers")) max_transfers = limit->integer(1, int64_t{4} << 30);

  Generated result;
  if (segments == 0) {
    const auto time_of = [&](int64_t k, Bytes size) {
      OneStraggler candidate(request.network, k);
      const MessageLayout layout(size, request.element, candidate.units());
      ListTiming timing(request.network, layout, candidate.chunks());
      candidate.emit(timing);
      return timing.completion().count();
    };
    // Once the pipeline is full every group of four segments adds the same time, so that long pipelines need
    // not be timed whole: two short ones with sections of the same size tell.
    const auto time = [&](int64_t k) {
      constexpr int64_t base = 8, group = 4;
      if (k <= base + group) return Duration(time_of(k, request.size));
      const auto part = [&](int64_t segments) {
        return time_of(segments, Bytes(static_cast<int64_t>(static_cast<__int128>(request.size.count()) * segments / k)));
      };
      const int64_t start = part(base);
      return Duration(start + (part(base + group) - start) * (k - base) / group);
    };
    // Sections of less than an element would be empty.
    const int64_t elements = (request.size.count() + request.element.count() - 1) / request.element.count();
    const int64_t highest = std::min(max_transfers / per_segment, elements / (request.network.ranks() - 1) + 1);
    segments = best_segments(4, highest, time);
    result.notes.push_back("segments: " + std::to_string(segments) + ", the fastest of those tried" +
                           (segments + 4 > max_transfers / per_segment ? " (max_transfers allows no more)" : ""));
  }
  OneStraggler composition(request.network, segments);
  Schedule& schedule = result.schedule;
  schedule = Schedule(request.collective, composition.units());
  for (const Chunk& chunk : composition.chunks()) schedule.add_chunk(chunk);
  schedule.reserve(static_cast<size_t>(composition.transfers()), static_cast<size_t>(composition.transfers()));
  composition.emit(schedule);
  result.segments = segments;
  return result;
}

}  // namespace

const Algorithm optcc_algorithm = {"optcc", "OptCC's four pipelined stages around a straggler", inapplicable,
                                   generate_optcc, {"max_transfers", "segments"}};

}  // namespace slackline
