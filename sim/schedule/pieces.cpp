#include "schedule/pieces.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace slackline {

namespace {

// Where the cuts of the chunk's buffer lie inside it, without its own ends.
std::span<const int64_t> inside(const std::vector<int64_t>& cuts, const Chunk& chunk) {
  const auto first = std::upper_bound(cuts.begin(), cuts.end(), chunk.offset);
  const auto last = std::lower_bound(first, cuts.end(), chunk.offset + chunk.length);
  return {first, last};
}

void sort_unique(std::vector<int64_t>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

}  // namespace

int64_t buffer_length(const Collective& collective, int64_t units, Buffer buffer) {
  const CollectiveType type = collective.type;
  const int64_t part = has_parts(type) ? units / collective.ranks : units;
  switch (buffer) {
    case Buffer::data:
      return collective.in_place ? units : 0;
    case Buffer::input:
      if (collective.in_place) return 0;
      return type == CollectiveType::allgather || type == CollectiveType::gather ? part : units;
    case Buffer::output:
      if (collective.in_place) return 0;
      return type == CollectiveType::reduce_scatter || type == CollectiveType::scatter ? part
                                                                                       : units;
    case Buffer::scratch:
      return std::numeric_limits<int64_t>::max();
  }
  return 0;
}

Pieces::Pieces(const Schedule& schedule) {
  const size_t chunks = schedule.chunks().size();
  limit_ = (size_t{1} << 20) + 4 * (schedule.size() + chunks);
  find_pairs(schedule);
  cut(schedule);
  fine_enough_ = carry_cuts(schedule) || cut_evenly();
  if (!fine_enough_) return;
  find_spans(schedule);
  form_groups();
}

Buffer Pieces::buffer(uint32_t piece) const {
  size_t b = 0;
  while (piece >= buffer_begin_[b + 1]) ++b;
  return static_cast<Buffer>(b);
}

void Pieces::find_pairs(const Schedule& schedule) {
  used_.assign(schedule.chunks().size(), 0);
  // Most schedules have few pairs, in the order of their transfers and many times over.
  size_t compact_at = size_t{1} << 20;
  const auto compact = [&] {
    std::sort(pairs_.begin(), pairs_.end());
    pairs_.erase(std::unique(pairs_.begin(), pairs_.end()), pairs_.end());
  };
  for (size_t t = 0; t < schedule.size(); ++t) {
    const uint32_t source = schedule.src_chunk(t), destination = schedule.dst_chunk(t);
    used_[source] = used_[destination] = 1;
    if (source == destination) continue;
    if (!pairs_.empty() && pairs_.back() == std::pair(source, destination)) continue;
    if (pairs_.size() >= compact_at) {
      compact();
      compact_at = std::max(compact_at, 2 * pairs_.size());
    }
    pairs_.emplace_back(source, destination);
  }
  compact();
}

void Pieces::cut(const Schedule& schedule) {
  const Collective& collective = schedule.collective();
  for (size_t b = 0; b < buffers; ++b) {
    const auto buffer = static_cast<Buffer>(b);
    const int64_t length = buffer_length(collective, schedule.units(), buffer);
    if (buffer == Buffer::scratch || length == 0) continue;
    cuts_[b] = {0, length};
    // What a rank brings or must get changes from part to part.
    if (has_parts(collective.type) && length == schedule.units())
      for (int64_t q = 1; q < collective.ranks; ++q)
        cuts_[b].push_back(length / collective.ranks * q);
  }
  for (size_t c = 0; c < used_.size(); ++c) {
    if (!used_[c]) continue;
    const Chunk& chunk = schedule.chunks()[c];
    auto& cuts = cuts_[static_cast<size_t>(chunk.buffer)];
    cuts.push_back(chunk.offset);
    cuts.push_back(chunk.offset + chunk.length);
  }
  for (auto& cuts : cuts_) sort_unique(cuts);
}

// False if it would take too many rounds or pieces.
bool Pieces::carry_cuts(const Schedule& schedule) {
  constexpr int rounds = 32;
  for (int round = 0; round < rounds; ++round) {
    Cuts more;
    size_t added = 0;
    const auto carry = [&](const Chunk& from, const Chunk& to) {
      const auto cuts = inside(cuts_[static_cast<size_t>(from.buffer)], from);
      if (cuts.empty()) return;
      const auto known = inside(cuts_[static_cast<size_t>(to.buffer)], to);
      auto next = known.begin();
      for (const int64_t cut : cuts) {
        const int64_t wanted = cut - from.offset + to.offset;
        while (next != known.end() && *next < wanted) ++next;
        if (next != known.end() && *next == wanted) continue;
        more[static_cast<size_t>(to.buffer)].push_back(wanted);
        ++added;
      }
    };
    for (const auto& [source, destination] : pairs_) {
      const Chunk& from = schedule.chunks()[source];
      const Chunk& to = schedule.chunks()[destination];
      carry(from, to);
      carry(to, from);
      if (added > 8 * limit_) return false;
    }
    if (added == 0) return true;
    size_t total = 0;
    for (size_t b = 0; b < buffers; ++b) {
      cuts_[b].insert(cuts_[b].end(), more[b].begin(), more[b].end());
      sort_unique(cuts_[b]);
      total += cuts_[b].size();
    }
    if (total > limit_) return false;
  }
  return false;
}

// Cuts at all multiples of what divides every length and offset, which every transfer carries to
// such multiples.
bool Pieces::cut_evenly() {
  int64_t step = 0;
  for (const auto& cuts : cuts_)
    for (const int64_t cut : cuts) step = std::gcd(step, cut);
  int64_t total = 0;
  for (const auto& cuts : cuts_) {
    if (cuts.empty()) continue;
    const int64_t pieces = (cuts.back() - cuts.front()) / step;
    if (pieces > static_cast<int64_t>(limit_) - total) return false;
    total += pieces;
  }
  for (auto& cuts : cuts_) {
    if (cuts.empty()) continue;
    const int64_t first = cuts.front(), last = cuts.back();
    cuts.clear();
    for (int64_t cut = first; cut < last; cut += step) cuts.push_back(cut);
    cuts.push_back(last);
  }
  return true;
}

void Pieces::find_spans(const Schedule& schedule) {
  for (size_t b = 0; b < buffers; ++b) {
    buffer_begin_[b] = static_cast<uint32_t>(begin_.size());
    for (size_t i = 0; i + 1 < cuts_[b].size(); ++i) {
      begin_.push_back(cuts_[b][i]);
      end_.push_back(cuts_[b][i + 1]);
    }
  }
  buffer_begin_[buffers] = static_cast<uint32_t>(begin_.size());
  spans_.resize(used_.size());
  for (size_t c = 0; c < used_.size(); ++c) {
    if (!used_[c]) continue;
    const Chunk& chunk = schedule.chunks()[c];
    const auto b = static_cast<size_t>(chunk.buffer);
    const auto& cuts = cuts_[b];
    const auto first = std::lower_bound(cuts.begin(), cuts.end(), chunk.offset);
    const auto last = std::lower_bound(first, cuts.end(), chunk.offset + chunk.length);
    spans_[c] = {buffer_begin_[b] + static_cast<uint32_t>(first - cuts.begin()),
                 static_cast<uint32_t>(last - first)};
  }
  cuts_ = {};
}

void Pieces::form_groups() {
  // Union-find in which the lowest piece of a group is its root.
  std::vector<uint32_t> root(size());
  std::iota(root.begin(), root.end(), 0);
  const auto find = [&](uint32_t piece) {
    while (root[piece] != piece) piece = root[piece] = root[root[piece]];
    return piece;
  };
  for (const auto& [source, destination] : pairs_) {
    const Span from = spans_[source], to = spans_[destination];
    for (uint32_t k = 0; k < from.count; ++k) {
      const uint32_t a = find(from.first + k), b = find(to.first + k);
      root[std::max(a, b)] = std::min(a, b);
    }
  }
  pairs_ = {};
  group_.resize(size());
  uint32_t groups = 0;
  for (uint32_t piece = 0; piece < size(); ++piece) {
    const uint32_t lowest = find(piece);
    group_[piece] = lowest == piece ? groups++ : group_[lowest];
  }
  group_begin_.assign(groups + 1, 0);
  for (const uint32_t group : group_) ++group_begin_[group + 1];
  std::partial_sum(group_begin_.begin(), group_begin_.end(), group_begin_.begin());
  members_.resize(size());
  position_.resize(size());
  std::vector<uint32_t> filled(groups, 0);
  for (uint32_t piece = 0; piece < size(); ++piece) {
    position_[piece] = filled[group_[piece]]++;
    members_[group_begin_[group_[piece]] + position_[piece]] = piece;
  }
}

}  // namespace slackline
