#include "schedule/schedule_io.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/utf8.hpp"
#include "schedule/cbor_reader.hpp"
#include "schedule/json_reader.hpp"
#include "schedule/foreign_schedules.hpp"
#include "schedule/message_program.hpp"
#include "schedule/msccl_check.hpp"
#include "schedule/mscclpp_check.hpp"
#include "schedule/schedule_builder.hpp"

namespace slackline {

namespace {

constexpr std::string_view format_name = "slackline-schedule";
constexpr int format_version = 1;

// A string that is certainly UTF-8: what an importer took from a file need not be.
std::string utf8(const std::string& text) {
  if (is_utf8(text)) return text;
  return nlohmann::json::parse(
      nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

// Collects output in a large buffer: a stream's own costs more per transfer than formatting does.
class Output {
 public:
  explicit Output(std::ostream& stream) : stream_(stream), buffer_(size_t{1} << 18) {}
  Output(const Output&) = delete;

  /// Hands everything to the stream; to be called at the end.
  void flush() {
    stream_.write(buffer_.data(), static_cast<std::streamsize>(used_));
    used_ = 0;
  }
  void text(std::string_view text) {
    if (text.size() > room()) {
      flush();
      if (text.size() > buffer_.size()) {
        stream_.write(text.data(), static_cast<std::streamsize>(text.size()));
        return;
      }
    }
    std::memcpy(buffer_.data() + used_, text.data(), text.size());
    used_ += text.size();
  }
  void decimal(int64_t value) {
    if (room() < 20) flush();
    const auto result = std::to_chars(buffer_.data() + used_, buffer_.data() + buffer_.size(), value);
    used_ = static_cast<size_t>(result.ptr - buffer_.data());
  }
  // The initial byte of a CBOR item of this major type and its argument, in the shortest form.
  void cbor(uint8_t major, uint64_t argument) {
    if (room() < 9) flush();
    const auto initial = static_cast<uint8_t>(major << 5);
    if (argument < 24) return byte(static_cast<uint8_t>(initial | argument));
    const unsigned log_size = argument <= UINT8_MAX ? 0 : argument <= UINT16_MAX ? 1 : argument <= UINT32_MAX ? 2 : 3;
    byte(static_cast<uint8_t>(initial | (24 + log_size)));
    for (int shift = (8 << log_size) - 8; shift >= 0; shift -= 8) byte(static_cast<uint8_t>(argument >> shift));
  }
  void cbor_number(int64_t value) { cbor(0, static_cast<uint64_t>(value)); }
  void cbor_text(std::string_view value) {
    cbor(3, value.size());
    text(value);
  }
  void cbor_array(size_t count) { cbor(4, count); }
  void cbor_map(size_t count) { cbor(5, count); }
  void cbor_boolean(bool value) { cbor(7, value ? 21 : 20); }

 private:
  size_t room() const { return buffer_.size() - used_; }
  void byte(uint8_t value) { buffer_[used_++] = static_cast<char>(value); }

  std::ostream& stream_;
  std::vector<char> buffer_;
  size_t used_ = 0;
};

void write_json_transfer(Output& out, const Transfer& transfer) {
  out.text("{\"src\":");
  out.decimal(transfer.src);
  out.text(",\"dst\":");
  out.decimal(transfer.dst);
  if (transfer.src_chunk == transfer.dst_chunk) {
    out.text(",\"chunk\":");
    out.decimal(transfer.src_chunk);
  } else {
    out.text(",\"src_chunk\":");
    out.decimal(transfer.src_chunk);
    out.text(",\"dst_chunk\":");
    out.decimal(transfer.dst_chunk);
  }
  out.text(transfer.op == TransferOp::copy ? ",\"op\":\"copy\"" : ",\"op\":\"reduce\"");
  if (transfer.channel != 0) {
    out.text(",\"channel\":");
    out.decimal(transfer.channel);
  }
  if (!transfer.after.empty()) {
    std::string_view separator = ",\"after\":[";
    for (const uint32_t earlier : transfer.after) {
      out.text(separator);
      out.decimal(earlier);
      separator = ",";
    }
    out.text("]");
  }
  out.text("}");
}

void write_cbor_transfer(Output& out, const Transfer& transfer) {
  const bool one_chunk = transfer.src_chunk == transfer.dst_chunk;
  out.cbor_map(size_t{one_chunk ? 4u : 5u} + (transfer.channel != 0) + !transfer.after.empty());
  out.cbor_text("src");
  out.cbor_number(transfer.src);
  out.cbor_text("dst");
  out.cbor_number(transfer.dst);
  out.cbor_text(one_chunk ? "chunk" : "src_chunk");
  out.cbor_number(transfer.src_chunk);
  if (!one_chunk) {
    out.cbor_text("dst_chunk");
    out.cbor_number(transfer.dst_chunk);
  }
  out.cbor_text("op");
  out.cbor_text(to_string(transfer.op));
  if (transfer.channel != 0) {
    out.cbor_text("channel");
    out.cbor_number(transfer.channel);
  }
  if (!transfer.after.empty()) {
    out.cbor_text("after");
    out.cbor_array(transfer.after.size());
    for (const uint32_t earlier : transfer.after) out.cbor_number(earlier);
  }
}

bool recognizes_json(std::string_view contents) {
  if (contents.starts_with("\xef\xbb\xbf")) contents.remove_prefix(3);
  const size_t first = contents.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && contents[first] == '{';
}

bool recognizes_cbor(std::string_view contents) {
  return !contents.empty() && static_cast<uint8_t>(contents[0]) >> 5 == 5;  // a map
}

}  // namespace

Schedule parse_schedule_json(std::string_view text, const std::string& file) {
  ScheduleBuilder builder(file);
  // A canonical file has a line for each transfer; a shorter one than 32 bytes is rare enough.
  const auto lines = static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
  builder.schedule().reserve(std::min(lines, text.size() / 32), std::min(lines, text.size() / 32));
  JsonReader(text, file, builder).read();
  return std::move(builder.schedule());
}

Schedule parse_schedule_cbor(std::string_view bytes, const std::string& file) {
  ScheduleBuilder builder(file);
  // The shortest transfer takes 20 bytes.
  builder.schedule().reserve(bytes.size() / 32, bytes.size() / 32);
  CborReader(bytes, file, builder).read();
  return std::move(builder.schedule());
}

void write_schedule_json(const Schedule& schedule, std::ostream& stream) {
  const Collective& collective = schedule.collective();
  Output out(stream);
  out.text("{\n  \"format\": \"");
  out.text(format_name);
  out.text("\",\n  \"version\": ");
  out.decimal(format_version);
  out.text(",\n  \"algorithm\": ");
  out.text(nlohmann::json(utf8(schedule.algorithm())).dump());
  out.text(",\n  \"collective\": {\"type\": \"");
  out.text(to_string(collective.type));
  out.text("\", \"ranks\": ");
  out.decimal(collective.ranks);
  if (has_root(collective.type)) {
    out.text(", \"root\": ");
    out.decimal(collective.root);
  }
  out.text(collective.in_place ? ", \"in_place\": true" : ", \"in_place\": false");
  out.text(", \"reduction\": \"");
  out.text(to_string(collective.reduction));
  out.text("\"},\n  \"units\": ");
  out.decimal(schedule.units());
  out.text(",\n  \"chunks\": [");
  std::string_view separator = "\n    ";
  for (const Chunk& chunk : schedule.chunks()) {
    out.text(separator);
    out.text("{\"buffer\":\"");
    out.text(to_string(chunk.buffer));
    out.text("\",\"offset\":");
    out.decimal(chunk.offset);
    out.text(",\"length\":");
    out.decimal(chunk.length);
    out.text("}");
    separator = ",\n    ";
  }
  out.text(schedule.chunks().empty() ? "],\n  \"transfers\": [" : "\n  ],\n  \"transfers\": [");
  separator = "\n    ";
  for (size_t i = 0; i < schedule.size(); ++i) {
    out.text(separator);
    write_json_transfer(out, schedule.transfer(i));
    separator = ",\n    ";
  }
  out.text(schedule.size() == 0 ? "]\n}\n" : "\n  ]\n}\n");
  out.flush();
}

void write_schedule_cbor(const Schedule& schedule, std::ostream& stream) {
  const Collective& collective = schedule.collective();
  Output out(stream);
  out.cbor_map(7);
  out.cbor_text("format");
  out.cbor_text(format_name);
  out.cbor_text("version");
  out.cbor_number(format_version);
  out.cbor_text("algorithm");
  out.cbor_text(utf8(schedule.algorithm()));
  out.cbor_text("collective");
  out.cbor_map(has_root(collective.type) ? 5 : 4);
  out.cbor_text("type");
  out.cbor_text(to_string(collective.type));
  out.cbor_text("ranks");
  out.cbor_number(collective.ranks);
  if (has_root(collective.type)) {
    out.cbor_text("root");
    out.cbor_number(collective.root);
  }
  out.cbor_text("in_place");
  out.cbor_boolean(collective.in_place);
  out.cbor_text("reduction");
  out.cbor_text(to_string(collective.reduction));
  out.cbor_text("units");
  out.cbor_number(schedule.units());
  out.cbor_text("chunks");
  out.cbor_array(schedule.chunks().size());
  for (const Chunk& chunk : schedule.chunks()) {
    out.cbor_map(3);
    out.cbor_text("buffer");
    out.cbor_text(to_string(chunk.buffer));
    out.cbor_text("offset");
    out.cbor_number(chunk.offset);
    out.cbor_text("length");
    out.cbor_number(chunk.length);
  }
  out.cbor_text("transfers");
  out.cbor_array(schedule.size());
  for (size_t i = 0; i < schedule.size(); ++i) write_cbor_transfer(out, schedule.transfer(i));
  out.flush();
}

const std::vector<ScheduleReader>& schedule_readers() {
  static const std::vector<ScheduleReader> readers = {
      {"TE-CCL table", looks_like_te_ccl, parse_te_ccl},
      {"MSCCL++ plan", looks_like_mscclpp_plan, parse_mscclpp_plan},
      {"other JSON", looks_like_other_json, parse_other_json},
      {"JSON", recognizes_json, parse_schedule_json},
      {"CBOR", recognizes_cbor, parse_schedule_cbor},
      {"MSCCL XML", looks_like_msccl_xml, parse_schedule_msccl},
      {"NCCL graph XML", looks_like_nccl_graph, parse_nccl_graph},
      {"ForestColl trees", looks_like_forest, parse_forest},
      {"Chakra trace", looks_like_chakra, parse_chakra},
      {"GOAL program", looks_like_goal, parse_goal},
  };
  return readers;
}

const std::vector<ScheduleWriter>& schedule_writers() {
  static const std::vector<ScheduleWriter> writers = {
      {".json", write_schedule_json},
      {".cbor", write_schedule_cbor},
      {".xml", write_schedule_msccl},
  };
  return writers;
}

const ScheduleWriter& schedule_writer(const std::filesystem::path& path) {
  std::string accepted;
  for (const ScheduleWriter& writer : schedule_writers()) {
    if (path.extension() == writer.extension) return writer;
    accepted += (accepted.empty() ? "" : ", ") + std::string(writer.extension);
  }
  throw Error(ErrorKind::usage, "a schedule is written in the format that its file's extension names, one of " + accepted,
              path.string());
}

Schedule read_schedule(const std::filesystem::path& path) {
  const FileContents file(path);
  const std::string_view contents = file.view();
  std::string known;
  for (const ScheduleReader& reader : schedule_readers()) {
    if (reader.recognizes(contents)) return reader.parse(contents, path.string());
    known += (known.empty() ? "" : ", ") + std::string(reader.name);
  }
  if (contents.starts_with("\xfd" "7zXZ")) throw Error(ErrorKind::input, "is compressed by xz; unpack it first (xz -dk)", path.string());
  throw Error(ErrorKind::input,
              contents.empty() ? "is empty" : "is not a schedule in any format that slackline reads: " + known,
              path.string());
}

void write_schedule(const Schedule& schedule, const std::filesystem::path& path) {
  const ScheduleWriter& writer = schedule_writer(path);
  write_file_atomically(path, [&](std::ostream& stream) { writer.write(schedule, stream); });
}

}  // namespace slackline
