#include "schedule/schedule.hpp"

#include <array>
#include <limits>
#include <stdexcept>

#include "base/error.hpp"

namespace slackline {

namespace {

constexpr std::array<std::string_view, 8> collective_names = {
    "allreduce", "allgather", "reduce_scatter", "broadcast", "reduce", "gather", "scatter", "alltoall"};
constexpr std::array<std::string_view, 4> reduction_name_list = {"sum", "prod", "min", "max"};
constexpr std::array<std::string_view, 4> buffer_name_list = {"data", "input", "output", "scratch"};

template <class Enum>
Enum find_name(std::string_view name, std::span<const std::string_view> names) {
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return static_cast<Enum>(i);
  throw std::out_of_range(std::string(name));
}

}  // namespace

std::string_view to_string(CollectiveType type) { return collective_names[static_cast<size_t>(type)]; }
std::string_view to_string(Reduction reduction) { return reduction_name_list[static_cast<size_t>(reduction)]; }
std::string_view to_string(Buffer buffer) { return buffer_name_list[static_cast<size_t>(buffer)]; }
std::string_view to_string(TransferOp op) { return op == TransferOp::copy ? "copy" : "reduce"; }
std::span<const std::string_view> collective_type_names() { return collective_names; }
std::span<const std::string_view> reduction_names() { return reduction_name_list; }
std::span<const std::string_view> buffer_names() { return buffer_name_list; }
CollectiveType collective_type(std::string_view name) { return find_name<CollectiveType>(name, collective_names); }
Reduction reduction(std::string_view name) { return find_name<Reduction>(name, reduction_name_list); }
Buffer buffer(std::string_view name) { return find_name<Buffer>(name, buffer_name_list); }

bool has_root(CollectiveType type) {
  return type == CollectiveType::broadcast || type == CollectiveType::reduce ||
         type == CollectiveType::gather || type == CollectiveType::scatter;
}

bool has_parts(CollectiveType type) {
  return type != CollectiveType::allreduce && type != CollectiveType::broadcast &&
         type != CollectiveType::reduce;
}

void Schedule::reserve(size_t transfers, size_t dependencies) {
  src_.reserve(transfers);
  dst_.reserve(transfers);
  src_chunk_.reserve(transfers);
  dst_chunk_.reserve(transfers);
  op_.reserve(transfers);
  channel_.reserve(transfers);
  after_begin_.reserve(transfers + 1);
  after_.reserve(dependencies);
}

void Schedule::add(const Transfer& transfer) {
  constexpr size_t limit = std::numeric_limits<uint32_t>::max() - 1;
  if (size() >= limit || after_.size() + transfer.after.size() >= limit)
    throw Error(ErrorKind::input, "a schedule holds at most 2^32 - 2 transfers and as many dependencies");
  src_.push_back(transfer.src);
  dst_.push_back(transfer.dst);
  src_chunk_.push_back(transfer.src_chunk);
  dst_chunk_.push_back(transfer.dst_chunk);
  op_.push_back(static_cast<uint8_t>(transfer.op));
  channel_.push_back(transfer.channel);
  after_.insert(after_.end(), transfer.after.begin(), transfer.after.end());
  after_begin_.push_back(static_cast<uint32_t>(after_.size()));
}

bool moves_between_positions(const Schedule& schedule) {
  const Collective& collective = schedule.collective();
  const int64_t part = has_parts(collective.type) ? schedule.units() / collective.ranks : 0;
  for (size_t i = 0; i < schedule.size(); ++i) {
    if (schedule.src_chunk(i) == schedule.dst_chunk(i)) continue;
    const Chunk& source = schedule.chunks()[schedule.src_chunk(i)];
    const Chunk& destination = schedule.chunks()[schedule.dst_chunk(i)];
    if (source.buffer == Buffer::scratch) return true;
    if (destination.buffer == Buffer::scratch) continue;  // matters when it is read
    const int64_t shift = source.offset - destination.offset;
    if (shift != 0 && (part == 0 || shift % part != 0)) return true;
  }
  return false;
}

}  // namespace slackline
