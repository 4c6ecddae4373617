#include "schedule/validate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "schedule/order.hpp"
#include "schedule/pieces.hpp"

namespace slackline {

namespace {

constexpr uint32_t none = UINT32_MAX;

std::string region(const Chunk& chunk) {
  return fmt::format("[{} {}..{})", to_string(chunk.buffer), chunk.offset,
                     chunk.offset + chunk.length);
}

std::string name_chunk(const Schedule& schedule, uint32_t chunk) {
  return fmt::format("chunk {} {}", chunk, region(schedule.chunks()[chunk]));
}

std::string name_transfer(size_t index) {
  return fmt::format("transfer {}", index);
}

// "transfer 12: rank 0 -> rank 1 reduce chunk 5 [data 5..6)"
std::string describe(const Schedule& schedule, size_t index) {
  const Transfer t = schedule.transfer(index);
  std::string text = fmt::format("transfer {}: rank {} -> rank {} {} {}", index, t.src, t.dst,
                                 to_string(t.op), name_chunk(schedule, t.src_chunk));
  if (t.src_chunk != t.dst_chunk) text += " to " + name_chunk(schedule, t.dst_chunk);
  return text;
}

// ---------------------------------------------------------------- the lists themselves

// The number of ranks that the arrays below are sized by must be in proportion to the schedule.
constexpr size_t ranks_per_transfer = 4, few_ranks = 1 << 16;

class ListChecks {
public:
  ListChecks(const Schedule& schedule, const ValidateOptions& options, size_t max_findings,
             std::vector<Finding>& findings)
      : schedule_(schedule), options_(options), max_findings_(max_findings), findings_(findings) {}

  void run() {
    check_collective();
    if (!findings_.empty()) return;
    check_chunks();
    for (size_t t = 0; t < schedule_.size() && findings_.size() < max_findings_; ++t)
      check_transfer(t);
    if (findings_.empty() && options_.check_result) check_participation();
  }

private:
  void add(std::string_view rule, std::string message, int64_t transfer = -1, int rank = -1,
           int64_t chunk = -1) {
    if (findings_.size() >= max_findings_) return;
    Finding finding;
    finding.rule = rule;
    finding.message = std::move(message);
    if (transfer >= 0) {
      finding.where = name_transfer(static_cast<size_t>(transfer));
      // Only what is in range can be described.
      if (rule == "size-mismatch" || rule == "self-overlap" || rule == "buffer-misuse")
        finding.witness = {describe(schedule_, static_cast<size_t>(transfer))};
    } else if (chunk >= 0) {
      finding.where = fmt::format("chunk {}", chunk);
    }
    finding.transfer = transfer;
    finding.rank = rank;
    finding.chunk = chunk;
    findings_.push_back(std::move(finding));
  }

  void check_collective();
  void check_chunks();
  void check_transfer(size_t index);
  void check_participation();

  const Schedule& schedule_;
  const ValidateOptions& options_;
  size_t max_findings_;
  std::vector<Finding>& findings_;
  std::vector<char> bad_chunk_;
};

void ListChecks::check_collective() {
  constexpr std::string_view rule = "bad-collective";
  const Collective& collective = schedule_.collective();
  const std::string_view type = to_string(collective.type);
  if (collective.ranks < 2) {
    add(rule,
        fmt::format("a collective has at least 2 ranks, this {} has {}", type, collective.ranks));
    return;
  }
  if (schedule_.units() < 1)
    add(rule, fmt::format("the message must have at least 1 unit, and has {}", schedule_.units()));
  else if (has_parts(collective.type) && schedule_.units() % collective.ranks != 0)
    add(rule, fmt::format("{} gives each rank its part, so that the units must be a multiple of "
                          "the {} ranks, and are {}",
                          type, collective.ranks, schedule_.units()));
  if (has_root(collective.type) && (collective.root < 0 || collective.root >= collective.ranks))
    add(rule, fmt::format("the root of a {} must be one of ranks 0..{}, and is {}", type,
                          collective.ranks - 1, collective.root));
}

void ListChecks::check_chunks() {
  const Collective& collective = schedule_.collective();
  const auto& chunks = schedule_.chunks();
  bad_chunk_.assign(chunks.size(), 0);
  for (size_t c = 0; c < chunks.size() && findings_.size() < max_findings_; ++c) {
    const Chunk& chunk = chunks[c];
    const int64_t length = buffer_length(collective, schedule_.units(), chunk.buffer);
    if (length == 0) {
      bad_chunk_[c] = 1;
      add("buffer-misuse",
          fmt::format("chunk {} lies in `{}`, but {}", c, to_string(chunk.buffer),
                      collective.in_place
                          ? "an in-place collective has only `data` and `scratch`"
                          : "an out-of-place collective has `input`, `output` and `scratch`"),
          -1, -1, static_cast<int64_t>(c));
    } else if (chunk.length < 1 || chunk.offset < 0 || chunk.offset > length - chunk.length) {
      bad_chunk_[c] = 1;
      add("chunk-range",
          chunk.buffer == Buffer::scratch || chunk.length < 1 || chunk.offset < 0
              ? fmt::format("chunk {} must start at 0 or later and have at least 1 unit: offset "
                            "{}, length {}",
                            c, chunk.offset, chunk.length)
              : fmt::format(
                    "chunk {} goes beyond its buffer: offset {}, length {}, and `{}` has {} units",
                    c, chunk.offset, chunk.length, to_string(chunk.buffer), length),
          -1, -1, static_cast<int64_t>(c));
    }
  }
}

void ListChecks::check_transfer(size_t index) {
  const Transfer t = schedule_.transfer(index);
  const auto i = static_cast<int64_t>(index);
  const int ranks = schedule_.collective().ranks;
  for (const auto& [rank, what] : {std::pair(t.src, "source"), std::pair(t.dst, "destination")})
    if (rank >= static_cast<uint32_t>(ranks))
      add("rank-range",
          fmt::format("the {} of transfer {} is rank {}, and there are ranks 0..{} only", what,
                      index, rank, ranks - 1),
          i,
          rank <= static_cast<uint32_t>(std::numeric_limits<int>::max()) ? static_cast<int>(rank)
                                                                         : -1);
  for (const uint32_t d : t.after)
    if (d >= index)
      add("dependency-range",
          fmt::format(
              "transfer {0} waits for transfer {1}, which does not stand before it in the list",
              index, d),
          i);
  const size_t chunks = schedule_.chunks().size();
  bool in_range = true;
  for (const auto& [chunk, what] :
       {std::pair(t.src_chunk, "source"), std::pair(t.dst_chunk, "destination")}) {
    if (chunk >= chunks) {
      add("chunk-range",
          fmt::format("the {} of transfer {} is chunk {}, and there are {} chunks", what, index,
                      chunk, chunks),
          i, -1, chunk);
      in_range = false;
    } else if (bad_chunk_[chunk]) {
      in_range = false;  // reported with the chunk
    }
  }
  if (!in_range) return;
  const Chunk& source = schedule_.chunks()[t.src_chunk];
  const Chunk& destination = schedule_.chunks()[t.dst_chunk];
  const auto dst = static_cast<int>(t.dst);
  if (source.length != destination.length)
    add("size-mismatch",
        fmt::format("transfer {} reads {} units and writes {}", index, source.length,
                    destination.length),
        i, dst, t.dst_chunk);
  if (destination.buffer == Buffer::input && options_.input_is_constant)
    add("buffer-misuse",
        fmt::format(
            "transfer {} writes to `input` of rank {}, which an out-of-place collective must leave "
            "as it is",
            index, t.dst),
        i, dst, t.dst_chunk);
  if (t.src == t.dst && source.buffer == destination.buffer &&
      source.offset < destination.offset + destination.length &&
      destination.offset < source.offset + source.length)
    add("self-overlap",
        fmt::format("transfer {} reads and writes the same units of `{}` on rank {}", index,
                    to_string(source.buffer), t.dst),
        i, dst, t.dst_chunk);
}

// In every collective every rank has something to give or to get. The general check finds this too,
// but it takes memory for all ranks, whose number a file can set to anything.
void ListChecks::check_participation() {
  const auto ranks = static_cast<size_t>(schedule_.collective().ranks);
  if (ranks <= ranks_per_transfer * schedule_.size() + few_ranks) return;
  std::vector<uint32_t> present;
  present.reserve(2 * schedule_.size());
  for (size_t t = 0; t < schedule_.size(); ++t) {
    present.push_back(schedule_.src(t));
    present.push_back(schedule_.dst(t));
  }
  std::sort(present.begin(), present.end());
  present.erase(std::unique(present.begin(), present.end()), present.end());
  uint32_t absent = 0;
  for (const uint32_t rank : present) absent += rank == absent ? 1 : 0;
  add("wrong-result",
      fmt::format("rank {} and {} others take part in no transfer at all", absent,
                  ranks - present.size() - 1),
      -1, static_cast<int>(absent));
}

// ---------------------------------------------------------------- what the collective brings and
// wants

// The contribution of a rank to one unit of the message, (r, u) in schedule.hpp.
struct Contribution {
  uint32_t rank = 0;
  int64_t unit = 0;
  auto operator<=>(const Contribution&) const = default;
};

// What a place holds before, or must hold after: nothing (in particular), one contribution, or
// those of all ranks to one unit.
struct Content {
  enum class Kind : uint8_t { nothing, one, all };
  Kind kind = Kind::nothing;
  Contribution contribution;  // with Kind::all, its unit only
};

// The table in schedule.hpp, for the first unit of a piece, which stands for all of them: pieces
// end where parts end.
class Table {
public:
  Table(const Schedule& schedule, bool wants_results)
      : collective_(schedule.collective()),
        wants_results_(wants_results),
        part_(schedule.units() / (has_parts(collective_.type) ? collective_.ranks : 1)) {}

  Content before(uint32_t rank, Buffer buffer, int64_t at) const {
    if (buffer != (collective_.in_place ? Buffer::data : Buffer::input)) return {};
    switch (collective_.type) {
      case CollectiveType::broadcast:
      case CollectiveType::scatter:
        return rank == root() ? one(rank, at) : Content{};
      case CollectiveType::allgather:
      case CollectiveType::gather:
        if (!collective_.in_place) return one(rank, rank * part_ + at);
        return at / part_ == rank ? one(rank, at) : Content{};
      default:
        return one(rank, at);
    }
  }

  // Ranks [first, second) want something in this place.
  std::pair<uint32_t, uint32_t> wanting_ranks(Buffer buffer, int64_t at) const {
    if (!wants_results_ || buffer != (collective_.in_place ? Buffer::data : Buffer::output))
      return {0, 0};
    switch (collective_.type) {
      case CollectiveType::reduce:
      case CollectiveType::gather:
        return {root(), root() + 1};
      case CollectiveType::reduce_scatter:
      case CollectiveType::scatter:
        if (const auto owner = static_cast<uint32_t>(at / part_); collective_.in_place)
          return {owner, owner + 1};
        [[fallthrough]];
      default:
        return {0, static_cast<uint32_t>(collective_.ranks)};
    }
  }

  // What `rank`, one of wanting_ranks(), must hold in the end.
  Content after(uint32_t rank, int64_t at) const {
    switch (collective_.type) {
      case CollectiveType::allreduce:
      case CollectiveType::reduce:
        return all(at);
      case CollectiveType::reduce_scatter:
        return all(collective_.in_place ? at : rank * part_ + at);
      case CollectiveType::broadcast:
        return one(root(), at);
      case CollectiveType::scatter:
        return one(root(), collective_.in_place ? at : rank * part_ + at);
      case CollectiveType::allgather:
      case CollectiveType::gather:
        return one(static_cast<uint32_t>(at / part_), at);
      case CollectiveType::alltoall:
        return one(static_cast<uint32_t>(at / part_), rank * part_ + at % part_);
    }
    return {};
  }

private:
  uint32_t root() const { return static_cast<uint32_t>(collective_.root); }
  static Content one(uint32_t rank, int64_t unit) { return {Content::Kind::one, {rank, unit}}; }
  static Content all(int64_t unit) { return {Content::Kind::all, {0, unit}}; }

  const Collective& collective_;
  bool wants_results_;
  int64_t part_;
};

// A multiset of contributions: how many there are, and the sum of a 128-bit weight of each. The
// weights are as good as random. Of two different multisets of the same size that the table can
// want or see in place of a wanted one, one holds some contribution an odd number of times more
// often than the other, so that the sums agree with probability 2^-128.
struct Sum {
  uint64_t low = 0, high = 0;
  uint32_t count = 0;  // as far as it can count

  static constexpr uint32_t most = UINT32_MAX - 1;
  void add(const Sum& other) {
    low += other.low;
    high += other.high;
    count = other.count > most - count ? most : count + other.count;
  }
  bool operator==(const Sum&) const = default;
};

uint64_t mix(uint64_t x) {  // the finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014)
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

class Weights {
public:
  explicit Weights(size_t ranks) : of_rank_(ranks) {
    uint64_t state = 0;
    const auto next = [&] { return mix(state += 0x9e3779b97f4a7c15U); };
    for (auto& [low, high] : of_rank_) low = next(), high = next();
  }
  Sum of(const Contribution& c) const {
    const auto unit = static_cast<uint64_t>(c.unit) + 1;
    const auto& [low, high] = of_rank_[c.rank];
    return {mix(low + mix(unit * 0xd1342543de82ef95U)), mix(high + mix(unit * 0xaef17502108ef2d9U)),
            1};
  }
  Sum of_all(int64_t unit) const {
    Sum sum;
    for (uint32_t rank = 0; rank < of_rank_.size(); ++rank) sum.add(of({rank, unit}));
    return sum;
  }

private:
  std::vector<std::pair<uint64_t, uint64_t>> of_rank_;
};

// ---------------------------------------------------------------- one group of pieces

// One piece moved by one transfer: what the checks need of it, side by side.
struct Move {
  uint32_t transfer;
  uint32_t src, dst;              // ranks
  uint32_t src_piece, dst_piece;  // positions in the group
  uint32_t first_dependency;      // or none
  uint16_t channel;
  TransferOp op;
  bool more_dependencies;
};

// Proves most orders cheaply, among the transfers of one group in the order of the list: an order
// is proven if it follows from `after` and from receive queues without the help of transfers of
// other groups or of send queues.
class GroupOrder {
public:
  explicit GroupOrder(const Schedule& schedule)
      : schedule_(schedule), last_receive_(static_cast<size_t>(schedule.collective().ranks)) {}

  void clear() {
    members_.clear();
    before_.clear();
    forest_.clear();
    rows_ = 0;
    ++stamp_;
  }

  uint32_t size() const { return static_cast<uint32_t>(members_.size()); }
  uint32_t transfer(uint32_t member) const { return members_[member].transfer; }

  // The members that are likely to be its dependencies may be given as hints, or none.
  uint32_t add(const Move& move, uint32_t hint, uint32_t other_hint);

  bool proves(Conflict conflict, uint32_t earlier, uint32_t later);

private:
  struct Member {
    uint32_t transfer;
    uint32_t dst;
    uint32_t before_begin;  // into before_: first its dependencies, then its receive queue's last
    uint16_t dependencies;
    uint16_t channel;
  };
  struct LastReceive {
    uint32_t stamp = 0, member = 0;
  };

  uint32_t find(uint32_t transfer, uint32_t end) const;
  uint32_t before_end(uint32_t member) const {
    return member + 1 < members_.size() ? members_[member + 1].before_begin
                                        : static_cast<uint32_t>(before_.size());
  }
  bool reached(uint32_t earlier, uint32_t later);
  void extend_rows(uint32_t end);

  const Schedule& schedule_;
  std::vector<Member> members_;
  std::vector<uint32_t> before_;
  ChainForest forest_;
  uint32_t stamp_ = 0;
  std::vector<LastReceive> last_receive_;  // by rank
  // Row m has a bit for every member that has ended both phases before member m begins phase B.
  std::vector<uint64_t> bits_;
  uint32_t rows_ = 0, row_words_ = 0;
};

// Among the members before `end`.
uint32_t GroupOrder::find(uint32_t transfer, uint32_t end) const {
  const auto last = members_.begin() + end;
  const auto found =
      std::lower_bound(members_.begin(), last, transfer,
                       [](const Member& member, uint32_t t) { return member.transfer < t; });
  return found != last && found->transfer == transfer
             ? static_cast<uint32_t>(found - members_.begin())
             : none;
}

uint32_t GroupOrder::add(const Move& move, uint32_t hint, uint32_t other_hint) {
  const uint32_t self = size();
  Member member{move.transfer, move.dst, static_cast<uint32_t>(before_.size()), 0, move.channel};
  const auto add_dependency = [&](uint32_t d) {
    uint32_t known = none;
    if (hint != none && members_[hint].transfer == d)
      known = hint;
    else if (other_hint != none && members_[other_hint].transfer == d)
      known = other_hint;
    else
      known = find(d, self);
    if (known == none || member.dependencies == UINT16_MAX) return;
    before_.push_back(known);
    ++member.dependencies;
  };
  if (move.more_dependencies)
    for (const uint32_t d : schedule_.after(move.transfer)) add_dependency(d);
  else if (move.first_dependency != none)
    add_dependency(move.first_dependency);
  LastReceive& last = last_receive_[move.dst];
  if (last.stamp == stamp_ && members_[last.member].channel == move.channel)
    before_.push_back(last.member);
  last = {stamp_, self};

  uint32_t latest = none;
  for (size_t i = member.before_begin; i < before_.size(); ++i)
    if (latest == none || before_[i] > latest) latest = before_[i];
  forest_.add(latest);
  members_.push_back(member);
  return self;
}

bool GroupOrder::reached(uint32_t earlier, uint32_t later) {
  if (earlier >= later) return earlier == later;
  extend_rows(later + 1);
  return (bits_[size_t{later} * row_words_ + earlier / 64] >> (earlier % 64)) & 1;
}

void GroupOrder::extend_rows(uint32_t end) {
  const uint32_t words = (end + 63) / 64;
  if (rows_ == 0 || words > row_words_) {  // start again, twice as wide
    row_words_ = rows_ == 0 ? words : 2 * words;
    rows_ = 0;
  }
  if (bits_.size() < size_t{end} * row_words_) bits_.resize(size_t{end} * row_words_);
  for (; rows_ < end; ++rows_) {
    uint64_t* const row = &bits_[size_t{rows_} * row_words_];
    std::fill_n(row, row_words_, 0);
    for (uint32_t i = members_[rows_].before_begin; i < before_end(rows_); ++i) {
      const uint32_t m = before_[i];
      const uint64_t* const other = &bits_[size_t{m} * row_words_];
      for (uint32_t w = 0; w <= m / 64; ++w) row[w] |= other[w];
      row[m / 64] |= uint64_t{1} << (m % 64);
    }
  }
}

bool GroupOrder::proves(Conflict conflict, uint32_t earlier, uint32_t later) {
  // One member's bits take an eighth of a byte times the members; beyond this many the exact search
  // is cheaper.
  constexpr uint32_t most_members = 1 << 14;
  const Member& a = members_[earlier];
  const Member& b = members_[later];
  const bool reads =
      conflict == Conflict::write_read;  // `later` must wait before phase A, else before phase B
  if (!reads && a.dst == b.dst && a.channel == b.channel) return true;  // one receive queue
  const uint32_t begin = b.before_begin;
  const uint32_t end = reads ? begin + b.dependencies : before_end(later);
  for (uint32_t i = begin; i < end; ++i)
    if (before_[i] == earlier) return true;
  for (uint32_t i = begin; i < end; ++i)
    if (forest_.reaches(earlier, before_[i])) return true;
  if (later >= most_members) return false;
  for (uint32_t i = begin; i < end; ++i)
    if (reached(earlier, before_[i])) return true;
  return false;
}

// Executes the moves of one group in list order, watching what every place holds and who touched it
// last.
class GroupChecks {
public:
  GroupChecks(const Schedule& schedule, const Pieces& pieces, bool wants_results,
              size_t max_findings, std::vector<Finding>& findings)
      : schedule_(schedule),
        pieces_(pieces),
        table_(schedule, wants_results),
        weights_(static_cast<size_t>(schedule.collective().ranks)),
        ranks_(static_cast<uint32_t>(schedule.collective().ranks)),
        max_findings_(max_findings),
        findings_(findings),
        order_(schedule) {}

  void run(uint32_t group, std::span<const Move> moves);
  // To be called after the last group.
  void find_races();

private:
  static constexpr uint32_t unknown =
      UINT32_MAX;  // as a count: what an undefined read has led to, not looked at
  struct Cell {
    Sum sum;           // count 0: nothing
    uint32_t writer;   // member that wrote last, or none
    uint32_t readers;  // list of those that read since, into readers_, or none
  };
  struct Reader {
    uint32_t member, next;
  };

  bool full() const { return findings_.size() >= max_findings_; }
  void make_cells();
  size_t find_cell(uint32_t rank, uint32_t position) const;  // or SIZE_MAX
  Sum initial(uint32_t rank, uint32_t piece) const;
  void execute(const Move& move, uint32_t member);
  void require(Conflict conflict, uint32_t earlier, uint32_t later);
  void report_race(const OrderQuery& query);
  void report_undefined(const Move& move, bool source);
  void check_results();
  void report_wrong(uint32_t rank, uint32_t piece, const Content& wanted);

  const Schedule& schedule_;
  const Pieces& pieces_;
  const Table table_;
  const Weights weights_;
  const uint32_t ranks_;
  const size_t max_findings_;
  std::vector<Finding>& findings_;
  GroupOrder order_;
  // Conflicts whose order the group alone does not tell, and the transfers from the first to the
  // last of them.
  std::vector<OrderQuery> queries_;
  uint32_t first_asked_ = none, last_asked_ = 0;

  // Of the group at hand.
  std::span<const uint32_t> members_;  // pieces
  std::span<const Move> moves_;
  std::vector<Cell> cells_;
  std::vector<uint64_t>
      keys_;  // of cells_, ascending, or empty where every rank has a cell for every piece
  bool dense_ = true;
  std::vector<Reader> readers_;
};

Sum GroupChecks::initial(uint32_t rank, uint32_t piece) const {
  const Content content = table_.before(rank, pieces_.buffer(piece), pieces_.begin(piece));
  return content.kind == Content::Kind::nothing ? Sum{} : weights_.of(content.contribution);
}

void GroupChecks::make_cells() {
  const size_t width = members_.size();
  const size_t all = width * ranks_;
  dense_ = all <= 8 * moves_.size() + 64;
  cells_.clear();
  keys_.clear();
  if (dense_) {
    cells_.resize(all);
    for (size_t position = 0; position < width; ++position)
      for (uint32_t rank = 0; rank < ranks_; ++rank)
        cells_[rank * width + position] = {initial(rank, members_[position]), none, none};
    return;
  }
  for (const Move& move : moves_) {
    keys_.push_back(uint64_t{move.src} * width + move.src_piece);
    keys_.push_back(uint64_t{move.dst} * width + move.dst_piece);
  }
  std::sort(keys_.begin(), keys_.end());
  keys_.erase(std::unique(keys_.begin(), keys_.end()), keys_.end());
  for (const uint64_t key : keys_)
    cells_.push_back(
        {initial(static_cast<uint32_t>(key / width), members_[key % width]), none, none});
}

size_t GroupChecks::find_cell(uint32_t rank, uint32_t position) const {
  const uint64_t key = uint64_t{rank} * members_.size() + position;
  if (dense_) return key;
  const auto found = std::lower_bound(keys_.begin(), keys_.end(), key);
  return found != keys_.end() && *found == key ? static_cast<size_t>(found - keys_.begin())
                                               : SIZE_MAX;
}

void GroupChecks::run(uint32_t group, std::span<const Move> moves) {
  members_ = pieces_.members(group);
  moves_ = moves;
  order_.clear();
  readers_.clear();
  make_cells();
  uint32_t member = none;
  for (const Move& move : moves_) {
    if (member == none || order_.transfer(member) != move.transfer) {
      const Cell& source = cells_[find_cell(move.src, move.src_piece)];
      const Cell& destination = cells_[find_cell(move.dst, move.dst_piece)];
      member = order_.add(move, source.writer, destination.writer);
    }
    execute(move, member);
    if (full()) return;
  }
  check_results();
}

void GroupChecks::execute(const Move& move, uint32_t member) {
  Cell& source = cells_[find_cell(move.src, move.src_piece)];
  Cell& destination = cells_[find_cell(move.dst, move.dst_piece)];
  if (source.writer != none) require(Conflict::write_read, source.writer, member);
  readers_.push_back({member, source.readers});
  source.readers = static_cast<uint32_t>(readers_.size() - 1);
  if (source.sum.count == 0) report_undefined(move, true);

  if (destination.writer != none) require(Conflict::write_write, destination.writer, member);
  for (uint32_t r = destination.readers; r != none; r = readers_[r].next)
    require(Conflict::read_write, readers_[r].member, member);
  destination.writer = member;
  destination.readers = none;

  const bool reduces = move.op == TransferOp::reduce;
  if (reduces && destination.sum.count == 0) report_undefined(move, false);
  const auto undefined = [](const Cell& cell) {
    return cell.sum.count == 0 || cell.sum.count == unknown;
  };
  if (undefined(source) || (reduces && undefined(destination)))
    destination.sum = {0, 0, unknown};
  else if (reduces)
    destination.sum.add(source.sum);
  else
    destination.sum = source.sum;
}

void GroupChecks::require(Conflict conflict, uint32_t earlier, uint32_t later) {
  if (order_.proves(conflict, earlier, later)) return;
  const OrderQuery query{order_.transfer(earlier), order_.transfer(later), conflict};
  if (!queries_.empty() && queries_.back() == query) return;
  queries_.push_back(query);
  first_asked_ = std::min(first_asked_, query.earlier);
  last_asked_ = std::max(last_asked_, query.later);
  // Answers take time in proportion to the transfers asked about. So ask about many at a time, but
  // no more than that: where there are races the first few show it.
  constexpr size_t few = size_t{1} << 16, many = size_t{1} << 23;
  if (queries_.size() % few == 0 &&
      (queries_.size() >= many || queries_.size() >= (last_asked_ - first_asked_) / 4))
    find_races();
}

void GroupChecks::find_races() {
  for (const OrderQuery& query : unordered_pairs(schedule_, std::move(queries_), max_findings_))
    report_race(query);
  queries_.clear();
  first_asked_ = none;
  last_asked_ = 0;
}

void GroupChecks::report_race(const OrderQuery& query) {
  const Transfer later = schedule_.transfer(query.later);
  const bool reads = query.conflict == Conflict::write_read;
  const uint32_t rank = reads ? later.src : later.dst;
  const uint32_t chunk = reads ? later.src_chunk : later.dst_chunk;
  const std::string place = fmt::format("{} of rank {}", name_chunk(schedule_, chunk), rank);
  Finding finding;
  finding.rule = "race";
  switch (query.conflict) {
    case Conflict::write_read:
      finding.message = fmt::format("transfer {} may read {} before transfer {} has written it",
                                    query.later, place, query.earlier);
      break;
    case Conflict::read_write:
      finding.message = fmt::format("transfer {} may write {} before transfer {} has read it",
                                    query.later, place, query.earlier);
      break;
    case Conflict::write_write:
      finding.message =
          fmt::format("transfers {} and {} may write {} at the same time or in either order",
                      query.earlier, query.later, place);
      break;
  }
  finding.where = name_transfer(query.later);
  finding.witness = {describe(schedule_, query.earlier), describe(schedule_, query.later)};
  finding.transfer = query.later;
  finding.rank = static_cast<int>(rank);
  finding.chunk = chunk;
  findings_.push_back(std::move(finding));
}

void GroupChecks::report_undefined(const Move& move, bool source) {
  if (full()) return;
  const uint32_t rank = source ? move.src : move.dst;
  const uint32_t position = source ? move.src_piece : move.dst_piece;
  const uint32_t chunk =
      source ? schedule_.src_chunk(move.transfer) : schedule_.dst_chunk(move.transfer);
  Finding finding;
  finding.rule = "undefined-read";
  finding.message =
      fmt::format("transfer {} {} {} of rank {}, which holds nothing then", move.transfer,
                  source ? "reads" : "reduces into", name_chunk(schedule_, chunk), rank);
  finding.where = name_transfer(move.transfer);
  finding.witness = {describe(schedule_, move.transfer)};
  finding.transfer = move.transfer;
  finding.rank = static_cast<int>(rank);
  finding.chunk = chunk;
  for (const Move* later = &move + 1; later != moves_.data() + moves_.size(); ++later) {
    if (later->dst != rank || later->dst_piece != position) continue;
    finding.message += fmt::format(
        "; it is first written by transfer {}, which stands later in the list", later->transfer);
    finding.witness.push_back(describe(schedule_, later->transfer));
    break;
  }
  findings_.push_back(std::move(finding));
}

void GroupChecks::check_results() {
  for (uint32_t position = 0; position < members_.size(); ++position) {
    const uint32_t piece = members_[position];
    const Buffer buffer = pieces_.buffer(piece);
    const int64_t at = pieces_.begin(piece);
    const auto [first, last] = table_.wanting_ranks(buffer, at);
    int64_t sum_unit = -1;
    Sum sum_of_all;
    for (uint32_t rank = first; rank < last; ++rank) {
      const size_t cell = find_cell(rank, position);
      const Sum held = cell == SIZE_MAX ? initial(rank, piece) : cells_[cell].sum;
      if (held.count == unknown) continue;  // reported where it began
      const Content wanted = table_.after(rank, at);
      Sum expected;
      if (wanted.kind == Content::Kind::one) {
        expected = weights_.of(wanted.contribution);
      } else {
        if (wanted.contribution.unit != sum_unit) {
          sum_unit = wanted.contribution.unit;
          sum_of_all = weights_.of_all(sum_unit);
        }
        expected = sum_of_all;
      }
      if (held == expected) continue;
      if (full()) return;
      report_wrong(rank, piece, wanted);
    }
  }
}

// "twice", "3 times"
std::string times(uint64_t count) {
  if (count == 2) return "twice";
  return count == UINT64_MAX ? "very many times" : fmt::format("{} times", count);
}

std::string join_some(const std::vector<std::string>& items) {
  constexpr size_t shown = 3;
  std::string text;
  for (size_t i = 0; i < items.size() && i < shown; ++i) {
    if (i > 0) text += i + 1 == items.size() ? " and " : ", ";
    text += items[i];
  }
  if (items.size() > shown) text += fmt::format(" and {} more", items.size() - shown);
  return text;
}

void GroupChecks::report_wrong(uint32_t rank, uint32_t piece, const Content& wanted) {
  const size_t cell = find_cell(rank, pieces_.position(piece));

  // How often does what a cell holds now end up in the cell at fault? Backwards through the list,
  // from the end.
  std::vector<uint64_t> demand(cells_.size(), 0);
  std::vector<char> used(moves_.size(), 0);
  const auto add = [](uint64_t& to, uint64_t more) {
    to = more > UINT64_MAX - to ? UINT64_MAX : to + more;
  };
  if (cell != SIZE_MAX) demand[cell] = 1;
  for (size_t j = moves_.size(); j-- > 0;) {
    const Move& move = moves_[j];
    uint64_t& destination = demand[find_cell(move.dst, move.dst_piece)];
    if (destination == 0) continue;
    used[j] = 1;
    add(demand[find_cell(move.src, move.src_piece)], destination);
    if (move.op == TransferOp::copy) destination = 0;
  }
  std::map<Contribution, uint64_t> held;
  const auto start = [&](uint32_t r, uint32_t position) {
    return table_.before(r, pieces_.buffer(members_[position]), pieces_.begin(members_[position]));
  };
  if (cell == SIZE_MAX) {
    if (const Content content = start(rank, pieces_.position(piece));
        content.kind == Content::Kind::one)
      held[content.contribution] = 1;
  }
  for (size_t c = 0; c < cells_.size(); ++c) {
    if (demand[c] == 0) continue;
    const uint64_t key = dense_ ? c : keys_[c];
    const Content content = start(static_cast<uint32_t>(key / members_.size()),
                                  static_cast<uint32_t>(key % members_.size()));
    if (content.kind == Content::Kind::one) add(held[content.contribution], demand[c]);
  }

  // What is too much, and what is not there.
  const bool sums = wanted.kind == Content::Kind::all;
  const int64_t unit = wanted.contribution.unit;
  const auto is_wanted = [&](const Contribution& c) {
    return sums ? c.unit == unit : c == wanted.contribution;
  };
  const auto name = [&](const Contribution& c) {
    return sums && c.unit == unit ? fmt::format("rank {}'s contribution", c.rank)
                                  : fmt::format("rank {}'s unit {}", c.rank, c.unit);
  };
  std::vector<std::string> too_often, foreign, missing;
  Contribution culprit;
  bool has_culprit = false;
  for (const auto& [contribution, count] : held) {
    if (is_wanted(contribution) && count == 1) continue;
    if (!has_culprit) culprit = contribution;
    has_culprit = true;
    if (!is_wanted(contribution))
      foreign.push_back(name(contribution));
    else
      too_often.push_back(name(contribution) + " " + times(count));
  }
  for (uint32_t r = 0; r < ranks_; ++r) {
    const Contribution c{sums ? r : wanted.contribution.rank, unit};
    if (!held.contains(c)) missing.push_back(name(c));
    if (!sums) break;
  }

  // The moves by which the first superfluous contribution came, or else those that wrote last on
  // the way here.
  std::vector<size_t> path;
  if (has_culprit) {
    std::vector<char> has(cells_.size(), 0);
    for (size_t c = 0; c < cells_.size(); ++c) {
      const uint64_t key = dense_ ? c : keys_[c];
      const Content content = start(static_cast<uint32_t>(key / members_.size()),
                                    static_cast<uint32_t>(key % members_.size()));
      has[c] = content.kind == Content::Kind::one && content.contribution == culprit;
    }
    for (size_t j = 0; j < moves_.size(); ++j) {
      const Move& move = moves_[j];
      const char arrives = has[find_cell(move.src, move.src_piece)];
      char& there = has[find_cell(move.dst, move.dst_piece)];
      if (arrives && used[j]) path.push_back(j);
      there = move.op == TransferOp::copy ? arrives : there | arrives;
    }
  } else if (cell != SIZE_MAX) {
    size_t at = cell;
    for (size_t j = moves_.size(); j-- > 0;) {
      if (find_cell(moves_[j].dst, moves_[j].dst_piece) != at) continue;
      path.push_back(j);
      at = find_cell(moves_[j].src, moves_[j].src_piece);
    }
    std::reverse(path.begin(), path.end());
  }

  Finding finding;
  finding.rule = "wrong-result";
  finding.rank = static_cast<int>(rank);
  if (const uint32_t writer = cell == SIZE_MAX ? none : cells_[cell].writer; writer != none) {
    finding.transfer = order_.transfer(writer);
    finding.where = name_transfer(order_.transfer(writer));
    finding.chunk = schedule_.dst_chunk(order_.transfer(writer));
  } else {
    for (const Move& move : moves_) {  // any chunk with this piece will do for a name
      if (members_[move.dst_piece] == piece) finding.chunk = schedule_.dst_chunk(move.transfer);
      if (members_[move.src_piece] == piece) finding.chunk = schedule_.src_chunk(move.transfer);
      if (finding.chunk >= 0) break;
    }
  }
  const Chunk place{pieces_.buffer(piece), pieces_.begin(piece),
                    pieces_.end(piece) - pieces_.begin(piece)};
  std::string text = fmt::format("rank {} ", rank);
  if (finding.chunk >= 0) text += fmt::format("chunk {} ", finding.chunk);
  text += region(place);
  if (held.empty()) {
    text += " holds nothing";
  } else {
    std::vector<std::string> faults;
    if (!too_often.empty()) faults.push_back("holds " + join_some(too_often));
    if (!foreign.empty()) faults.push_back("wrongly holds " + join_some(foreign));
    if (!missing.empty()) faults.push_back("lacks " + join_some(missing));
    for (size_t i = 0; i < faults.size(); ++i) text += (i == 0 ? " " : "; it ") + faults[i];
  }
  text += sums ? "; it should hold every rank's contribution once"
               : fmt::format("; it should hold rank {}'s unit {}", wanted.contribution.rank, unit);
  finding.message = std::move(text);
  constexpr size_t shown = 16;
  for (size_t i = 0; i < path.size(); ++i) {
    if (path.size() > shown && i == shown / 2) {
      finding.witness.push_back(fmt::format("... {} transfers more ...", path.size() - shown));
      i = path.size() - shown / 2;
    }
    finding.witness.push_back(describe(schedule_, moves_[path[i]].transfer));
  }
  findings_.push_back(std::move(finding));
}

// ---------------------------------------------------------------- all groups

// Hands the moves to GroupChecks, group by group, sorting a limited number of them at a time.
class Validation {
public:
  Validation(const Schedule& schedule, const Pieces& pieces, bool wants_results,
             size_t max_findings, std::vector<Finding>& findings)
      : schedule_(schedule),
        pieces_(pieces),
        max_findings_(max_findings),
        findings_(findings),
        checks_(schedule, pieces, wants_results, max_findings, findings) {}

  void run();

private:
  struct Range {
    uint32_t first = none, last = 0;  // transfers
    uint64_t moves = 0;
  };

  void count_moves();
  void sort_moves(uint32_t first_group, uint32_t end_group);

  const Schedule& schedule_;
  const Pieces& pieces_;
  const size_t max_findings_;
  std::vector<Finding>& findings_;
  GroupChecks checks_;
  std::vector<Range> ranges_;                                   // by group
  std::vector<std::pair<uint32_t, uint32_t>> groups_of_chunk_;  // lowest and highest
  std::vector<Move> moves_;
  std::vector<size_t> move_begin_;  // by group of the batch
};

void Validation::count_moves() {
  const size_t chunks = schedule_.chunks().size();
  groups_of_chunk_.assign(chunks, {none, 0});
  for (uint32_t c = 0; c < chunks; ++c) {
    const auto [first, count] = pieces_.of_chunk(c);
    for (uint32_t piece = first; piece < first + count; ++piece) {
      auto& [low, high] = groups_of_chunk_[c];
      low = std::min(low, pieces_.group(piece));
      high = std::max(high, pieces_.group(piece));
    }
  }
  ranges_.assign(pieces_.groups(), {});
  for (uint32_t t = 0; t < schedule_.size(); ++t) {
    const auto [first, count] = pieces_.of_chunk(schedule_.src_chunk(t));
    for (uint32_t piece = first; piece < first + count; ++piece) {
      Range& range = ranges_[pieces_.group(piece)];
      range.first = std::min(range.first, t);
      range.last = t;
      ++range.moves;
    }
  }
}

void Validation::sort_moves(uint32_t first_group, uint32_t end_group) {
  move_begin_.assign(1, 0);
  Range all;
  for (uint32_t g = first_group; g < end_group; ++g) {
    all.first = std::min(all.first, ranges_[g].first);
    all.last = std::max(all.last, ranges_[g].last);
    move_begin_.push_back(move_begin_.back() + ranges_[g].moves);
  }
  moves_.resize(move_begin_.back());
  if (moves_.empty()) return;
  std::vector<size_t> next(move_begin_.begin(), move_begin_.end() - 1);
  for (uint32_t t = all.first; t <= all.last; ++t) {
    const uint32_t chunk = schedule_.src_chunk(t);
    const auto [low, high] = groups_of_chunk_[chunk];
    if (high < first_group || low >= end_group) continue;
    const Transfer transfer = schedule_.transfer(t);
    const auto [first, count] = pieces_.of_chunk(chunk);
    const uint32_t destination = pieces_.of_chunk(transfer.dst_chunk).first;
    Move move{t,
              transfer.src,
              transfer.dst,
              0,
              0,
              transfer.after.empty() ? none : transfer.after[0],
              transfer.channel,
              transfer.op,
              transfer.after.size() > 1};
    for (uint32_t k = 0; k < count; ++k) {
      const uint32_t group = pieces_.group(first + k);
      if (group < first_group || group >= end_group) continue;
      move.src_piece = pieces_.position(first + k);
      move.dst_piece = pieces_.position(destination + k);
      moves_[next[group - first_group]++] = move;
    }
  }
}

void Validation::run() {
  constexpr uint64_t batch_moves = uint64_t{1} << 22;
  count_moves();
  const auto groups = static_cast<uint32_t>(pieces_.groups());
  for (uint32_t first = 0; first < groups && findings_.size() < max_findings_;) {
    uint32_t end = first;
    uint64_t moves = 0;
    while (end < groups && (end == first || moves + ranges_[end].moves <= batch_moves))
      moves += ranges_[end++].moves;
    sort_moves(first, end);
    for (uint32_t g = first; g < end && findings_.size() < max_findings_; ++g) {
      const size_t begin = move_begin_[g - first];
      checks_.run(g, {moves_.data() + begin, move_begin_[g - first + 1] - begin});
    }
    first = end;
  }
  checks_.find_races();
}

// The most fundamental first.
int order_of(const Finding& finding) {
  if (finding.rule == "undefined-read") return 0;
  return finding.rule == "race" ? 1 : 2;
}

}  // namespace

std::vector<Finding> validate(const Schedule& schedule, const ValidateOptions& options) {
  const size_t max_findings = std::max<size_t>(options.max_findings, 1);
  std::vector<Finding> findings;
  ListChecks(schedule, options, max_findings, findings).run();
  if (!findings.empty()) return findings;

  const Pieces pieces(schedule);
  if (!pieces.fine_enough()) {
    Finding finding;
    finding.rule = "too-fine";
    finding.message = fmt::format(
        "the transfers shift data against each other by so little that the message would have to "
        "be looked at in more than {} pieces; whether the result is right is not known",
        pieces.limit());
    findings.push_back(std::move(finding));
    return findings;
  }
  Validation(schedule, pieces, options.check_result, max_findings, findings).run();

  // A chunk of several pieces has the same thing wrong with each.
  const auto key = [](const Finding& f) {
    return std::tuple(order_of(f), f.rule == "wrong-result" ? 0 : f.transfer, f.rank, f.chunk,
                      f.transfer);
  };
  std::stable_sort(findings.begin(), findings.end(),
                   [&](const Finding& a, const Finding& b) { return key(a) < key(b); });
  const auto same = [&](const Finding& a, const Finding& b) {
    return a.chunk >= 0 && a.rule == b.rule && a.transfer == b.transfer && a.rank == b.rank &&
           a.chunk == b.chunk && (a.rule != "race" || a.message == b.message);
  };
  findings.erase(std::unique(findings.begin(), findings.end(), same), findings.end());
  if (findings.size() > max_findings) findings.resize(max_findings);
  return findings;
}

std::string_view to_string(Severity severity) {
  switch (severity) {
    case Severity::error:
      return "error";
    case Severity::warning:
      return "warning";
    case Severity::info:
      return "info";
  }
  return "error";
}

bool has_errors(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.severity == Severity::error; });
}

}  // namespace slackline
