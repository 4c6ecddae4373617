#include "contents.hpp"

namespace slackline {

bool reduces(CollectiveType type) {
  return type == CollectiveType::allreduce || type == CollectiveType::reduce || type == CollectiveType::reduce_scatter;
}

Buffer result_buffer(const Collective& collective) { return collective.in_place ? Buffer::data : Buffer::output; }
Buffer source_buffer(const Collective& collective) { return collective.in_place ? Buffer::data : Buffer::input; }

BufferLayout::BufferLayout(const Collective& collective, const MessageLayout& message)
    : collective_(collective), message_(message) {
  const int64_t elements = message.size() / message.element(), units = message.units();
  scratch_unit_bytes_ = (elements + units - 1) / units * message.element();
}

// Out of place, the side on which a rank has only its part starts with the part.
bool BufferLayout::is_part(Buffer buffer) const {
  const CollectiveType type = collective_.type;
  if (buffer == Buffer::input) return type == CollectiveType::allgather || type == CollectiveType::gather;
  if (buffer == Buffer::output) return type == CollectiveType::reduce_scatter || type == CollectiveType::scatter;
  return false;
}

int64_t BufferLayout::units(Buffer buffer) const {
  if (buffer == Buffer::scratch) return 0;
  return is_part(buffer) ? message_.units() / collective_.ranks : message_.units();
}

int64_t BufferLayout::first_unit(int rank, Buffer buffer) const {
  return is_part(buffer) ? rank * (message_.units() / collective_.ranks) : 0;
}

int64_t BufferLayout::offset(int rank, Buffer buffer, int64_t unit) const {
  if (buffer == Buffer::scratch) return unit * scratch_unit_bytes_;
  const int64_t first = first_unit(rank, buffer);
  return message_.offset(first + unit) - message_.offset(first);
}

int64_t BufferLayout::unit_bytes(int rank, Buffer buffer, int64_t unit) const {
  return offset(rank, buffer, unit + 1) - offset(rank, buffer, unit);
}

namespace {

// Units [begin, end) of the message, as they lie in `buffer`.
Content range(const BufferLayout& layout, int rank, Buffer buffer, int64_t begin, int64_t end, int from) {
  const int64_t first = layout.first_unit(rank, buffer);
  const int64_t offset = layout.offset(rank, buffer, begin - first);
  return {buffer, offset, layout.offset(rank, buffer, end - first) - offset, from, layout.message().offset(begin)};
}

}  // namespace

std::vector<Content> contents_before(const BufferLayout& layout, int rank) {
  const Collective& collective = layout.collective();
  const Buffer buffer = source_buffer(collective);
  const int64_t units = layout.message().units(), part = units / collective.ranks;
  switch (collective.type) {
    case CollectiveType::broadcast:
    case CollectiveType::scatter:
      if (rank != collective.root) return {};
      break;
    case CollectiveType::allgather:
    case CollectiveType::gather: return {range(layout, rank, buffer, rank * part, (rank + 1) * part, rank)};
    default: break;
  }
  return {range(layout, rank, buffer, 0, units, rank)};
}

std::vector<Content> contents_after(const BufferLayout& layout, int rank) {
  const Collective& collective = layout.collective();
  const Buffer buffer = result_buffer(collective);
  const int64_t units = layout.message().units(), part = units / collective.ranks;
  std::vector<Content> result;
  switch (collective.type) {
    case CollectiveType::reduce:
      if (rank != collective.root) break;
      [[fallthrough]];
    case CollectiveType::allreduce:
      result.push_back(range(layout, rank, buffer, 0, units, Content::all_ranks));
      break;
    case CollectiveType::reduce_scatter:
      result.push_back(range(layout, rank, buffer, rank * part, (rank + 1) * part, Content::all_ranks));
      break;
    case CollectiveType::broadcast: result.push_back(range(layout, rank, buffer, 0, units, collective.root)); break;
    case CollectiveType::scatter:
      result.push_back(range(layout, rank, buffer, rank * part, (rank + 1) * part, collective.root));
      break;
    case CollectiveType::gather:
      if (rank != collective.root) break;
      [[fallthrough]];
    case CollectiveType::allgather:
      for (int q = 0; q < collective.ranks; ++q)
        result.push_back(range(layout, rank, buffer, q * part, (q + 1) * part, q));
      break;
    case CollectiveType::alltoall:
      for (int r = 0; r < collective.ranks; ++r) {
        Content content = range(layout, rank, buffer, r * part, (r + 1) * part, r);
        content.message_offset = layout.message().offset(rank * part);
        result.push_back(content);
      }
      break;
  }
  return result;
}

}  // namespace slackline
