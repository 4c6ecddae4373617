#include "schedule/schedule_builder.hpp"

#include <limits>

#include "base/error.hpp"

namespace slackline {

namespace {

// Indices into the fields of each object, in their order below.
enum RootKey : size_t { format_key, version_key, algorithm_key, collective_key, units_key, chunks_key, transfers_key };
enum CollectiveKey : size_t { type_key, ranks_key, root_key, in_place_key, reduction_key };
enum ChunkKey : size_t { buffer_key, offset_key, length_key };
enum TransferKey : size_t {
  src_key,
  dst_key,
  chunk_key,
  src_chunk_key,
  dst_chunk_key,
  op_key,
  channel_key,
  after_key
};

constexpr std::array<std::string_view, 2> op_names = {"copy", "reduce"};

}  // namespace

std::span<const ScheduleBuilder::Field> ScheduleBuilder::fields(Place place) {
  constexpr uint64_t max_int = std::numeric_limits<int>::max();
  constexpr uint64_t max_int64 = std::numeric_limits<int64_t>::max();
  constexpr uint64_t max_uint32 = std::numeric_limits<uint32_t>::max();
  constexpr uint64_t max_uint16 = std::numeric_limits<uint16_t>::max();
  static constexpr Field document[] = {{"", Kind::object}};
  static constexpr Field root[] = {{"format", Kind::string},
                                   {"version", Kind::integer, true, 1, 1},
                                   {"algorithm", Kind::string, false},
                                   {"collective", Kind::object},
                                   {"units", Kind::integer, true, 1, max_int64},
                                   {"chunks", Kind::array},
                                   {"transfers", Kind::array}};
  static constexpr Field collective[] = {{"type", Kind::string},
                                         {"ranks", Kind::integer, true, 1, max_int},
                                         {"root", Kind::integer, false, 0, max_int},
                                         {"in_place", Kind::boolean, false},
                                         {"reduction", Kind::string, false}};
  static constexpr Field array_of_objects[] = {{"", Kind::object}};
  static constexpr Field chunk[] = {{"buffer", Kind::string},
                                    {"offset", Kind::integer, true, 0, max_int64},
                                    {"length", Kind::integer, true, 0, max_int64}};
  static constexpr Field transfer[] = {{"src", Kind::integer, true, 0, max_uint32},
                                       {"dst", Kind::integer, true, 0, max_uint32},
                                       {"chunk", Kind::integer, false, 0, max_uint32},
                                       {"src_chunk", Kind::integer, false, 0, max_uint32},
                                       {"dst_chunk", Kind::integer, false, 0, max_uint32},
                                       {"op", Kind::string},
                                       {"channel", Kind::integer, false, 0, max_uint16},
                                       {"after", Kind::array, false}};
  static constexpr Field after[] = {{"", Kind::integer, true, 0, max_uint32}};
  static constexpr std::array<std::span<const Field>, places> by_place = {
      document, root, collective, array_of_objects, chunk, array_of_objects, transfer, after};
  return by_place[static_cast<size_t>(place)];
}

void ScheduleBuilder::enter(Place place) {
  place_ = place;
  // The keys of an object are looked for from the one after the last, since they mostly come in order.
  key_[static_cast<size_t>(place)] = fields(place).size() - 1;
  seen_[static_cast<size_t>(place)] = 0;
}

void ScheduleBuilder::boolean(bool value) {
  if (field().kind != Kind::boolean) mismatch(value ? "true" : "false");
  collective_.in_place = value;
}

void ScheduleBuilder::number_integer(int64_t value) {
  if (value < 0) mismatch(std::to_string(value));
  number_unsigned(static_cast<uint64_t>(value));
}

void ScheduleBuilder::number_unsigned(uint64_t value) {
  const Field& wanted = field();
  if (wanted.kind != Kind::integer || value < wanted.lowest || value > wanted.highest)
    mismatch(std::to_string(value));
  const auto number = static_cast<uint32_t>(value);
  switch (place_) {
    case Place::after: after_.push_back(number); break;
    case Place::transfer:
      switch (key_[static_cast<size_t>(place_)]) {
        case src_key: transfer_.src = number; break;
        case dst_key: transfer_.dst = number; break;
        case chunk_key: transfer_.src_chunk = transfer_.dst_chunk = number; break;
        case src_chunk_key: transfer_.src_chunk = number; break;
        case dst_chunk_key: transfer_.dst_chunk = number; break;
        case channel_key: transfer_.channel = static_cast<uint16_t>(value); break;
      }
      break;
    case Place::chunk:
      (key_[static_cast<size_t>(place_)] == offset_key ? chunk_.offset : chunk_.length) =
          static_cast<int64_t>(value);
      break;
    case Place::collective:
      (key_[static_cast<size_t>(place_)] == ranks_key ? collective_.ranks : collective_.root) =
          static_cast<int>(value);
      break;
    case Place::root:
      if (key_[static_cast<size_t>(place_)] == units_key) schedule_.set_units(static_cast<int64_t>(value));
      break;
    default: break;
  }
}

// The enumerator at the position of its name.
template <class Enum>
Enum ScheduleBuilder::named(std::string_view value, std::span<const std::string_view> known) const {
  for (size_t i = 0; i < known.size(); ++i)
    if (known[i] == value) return static_cast<Enum>(i);
  fail_at(pointer(), "unknown " + std::string(field().name) + " \"" + std::string(value) + "\"" +
                         suggest_name(value, known));
}

void ScheduleBuilder::string(std::string_view value) {
  if (field().kind != Kind::string) mismatch("a string");
  const size_t key = key_[static_cast<size_t>(place_)];
  if (place_ == Place::transfer) {
    transfer_.op = named<TransferOp>(value, op_names);
  } else if (place_ == Place::chunk) {
    chunk_.buffer = named<Buffer>(value, buffer_names());
  } else if (place_ == Place::collective) {
    if (key == type_key)
      collective_.type = named<CollectiveType>(value, collective_type_names());
    else
      collective_.reduction = named<Reduction>(value, reduction_names());
  } else if (key == algorithm_key) {
    schedule_.set_algorithm(std::string(value));
  } else if (value != "slackline-schedule") {
    fail_at(pointer(), "must be \"slackline-schedule\", not \"" + std::string(value) + "\"");
  }
}

void ScheduleBuilder::start_object() {
  if (field().kind != Kind::object) mismatch("an object");
  switch (place_) {
    case Place::document: enter(Place::root); break;
    case Place::root:
      collective_ = {};
      enter(Place::collective);
      break;
    case Place::chunks:
      chunk_ = {};
      enter(Place::chunk);
      break;
    default:
      transfer_ = {};
      after_.clear();
      enter(Place::transfer);
      break;
  }
}

void ScheduleBuilder::key(std::string_view name) {
  const std::span<const Field> known = fields(place_);
  size_t& key = key_[static_cast<size_t>(place_)];
  size_t tried = 0;
  do key = key + 1 < known.size() ? key + 1 : 0;
  while (known[key].name != name && ++tried < known.size());
  if (tried == known.size()) {
    std::vector<std::string_view> names;
    for (const Field& entry : known) names.push_back(entry.name);
    fail_at(member_pointer() + "/" + escape_pointer(name),
            "unknown key \"" + std::string(name) + "\"" + suggest_name(name, names));
  }
  if (seen(place_, key)) fail_at(pointer(), "the key \"" + std::string(name) + "\" appears twice in one object");
  seen_[static_cast<size_t>(place_)] |= 1u << key;
}

void ScheduleBuilder::end_object() {
  const std::span<const Field> known = fields(place_);
  for (size_t key = 0; key < known.size(); ++key)
    if (known[key].required && !seen(place_, key))
      fail_at(member_pointer(), "needs the key \"" + std::string(known[key].name) + "\"");
  switch (place_) {
    case Place::collective: end_collective(); break;
    case Place::chunk: end_chunk(); break;
    case Place::transfer: end_transfer(); break;
    default: place_ = Place::document; break;
  }
}

void ScheduleBuilder::end_collective() {
  const bool given = seen(place_, root_key);
  if (given && !has_root(collective_.type))
    fail_at("/collective/root", std::string(to_string(collective_.type)) + " has no root");
  if (!given && has_root(collective_.type))
    fail_at("/collective", std::string(to_string(collective_.type)) + " needs the key \"root\"");
  schedule_.set_collective(collective_);
  place_ = Place::root;
}

void ScheduleBuilder::end_chunk() {
  if (chunk_.length > std::numeric_limits<int64_t>::max() - chunk_.offset)
    fail_at(member_pointer(), "offset + length must stay below 2^63");
  if (schedule_.chunks().size() >= std::numeric_limits<uint32_t>::max())
    fail_at(member_pointer(), "a schedule holds at most 2^32 - 1 chunks");
  schedule_.add_chunk(chunk_);
  place_ = Place::chunks;
}

void ScheduleBuilder::end_transfer() {
  const bool one = seen(place_, chunk_key);
  const bool source = seen(place_, src_chunk_key), destination = seen(place_, dst_chunk_key);
  if (one ? source || destination : !source || !destination)
    fail_at(member_pointer(), "needs either the key \"chunk\" or both \"src_chunk\" and \"dst_chunk\"");
  transfer_.after = after_;
  try {
    schedule_.add(transfer_);
  } catch (const Error& error) {
    fail_at(member_pointer(), error.message());
  }
  place_ = Place::transfers;
}

void ScheduleBuilder::start_array() {
  if (field().kind != Kind::array) mismatch("an array");
  if (place_ == Place::transfer)
    enter(Place::after);
  else
    enter(key_[static_cast<size_t>(place_)] == chunks_key ? Place::chunks : Place::transfers);
}

void ScheduleBuilder::end_array() {
  place_ = place_ == Place::after ? Place::transfer : Place::root;
}

// Of the object or array that holds the next event.
std::string ScheduleBuilder::member_pointer() const {
  switch (place_) {
    case Place::document:
    case Place::root: return "";
    case Place::collective: return "/collective";
    case Place::chunks: return "/chunks";
    case Place::chunk: return "/chunks/" + std::to_string(schedule_.chunks().size());
    case Place::transfers: return "/transfers";
    case Place::transfer: return "/transfers/" + std::to_string(schedule_.size());
    case Place::after: return "/transfers/" + std::to_string(schedule_.size()) + "/after";
  }
  return "";
}

// Of the next event itself.
std::string ScheduleBuilder::pointer() const {
  switch (place_) {
    case Place::document: return "";
    case Place::chunks: return "/chunks/" + std::to_string(schedule_.chunks().size());
    case Place::transfers: return "/transfers/" + std::to_string(schedule_.size());
    case Place::after: return member_pointer() + "/" + std::to_string(after_.size());
    default: return member_pointer() + "/" + std::string(field().name);
  }
}

void ScheduleBuilder::fail_at(const std::string& pointer, const std::string& message) const {
  throw Error(ErrorKind::input, message, file_ + ": " + (pointer.empty() ? "/" : pointer));
}

void ScheduleBuilder::mismatch(const std::string& found) const {
  const Field& wanted = field();
  std::string text;
  switch (wanted.kind) {
    case Kind::integer:
      text = wanted.lowest == wanted.highest
                 ? "must be " + std::to_string(wanted.lowest)
                 : "must be a whole number from " + std::to_string(wanted.lowest) + " to " +
                       std::to_string(wanted.highest);
      break;
    case Kind::string: text = "must be a string"; break;
    case Kind::boolean: text = "must be true or false"; break;
    case Kind::array: text = "must be an array"; break;
    case Kind::object: text = "must be an object"; break;
  }
  fail_at(pointer(), text + ", not " + found);
}

}  // namespace slackline
