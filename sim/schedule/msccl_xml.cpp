#include <algorithm>
#include <array>
#include <charconv>
#include <ostream>
#include <set>
#include <stdexcept>

#include "base/xml.hpp"
#include "schedule/msccl.hpp"

namespace slackline {

namespace {

constexpr std::array<std::string_view, 9> op_names = {"s", "r", "rcs", "rrs", "rrc", "rrcs", "cpy", "re", "nop"};
constexpr std::array<std::string_view, 3> buffer_letters = {"i", "o", "s"};
constexpr std::array<std::string_view, 3> protocol_names = {"Simple", "LL", "LL128"};
constexpr std::array<std::string_view, 4> dialect_names = {"auto", "executor", "msccl", "legacy-taccl"};

// Bounds that keep a hostile file from asking for unbounded memory; far above what any executor takes.
constexpr int64_t largest_chunk = 1 << 20;
constexpr int64_t largest_rank = 1 << 20;
constexpr int64_t largest_index = 1 << 24;

class Reader {
 public:
  Reader(const XmlFile& xml, MscclDialect dialect, std::vector<Finding>& findings)
      : xml_(xml), dialect_(dialect), findings_(findings) {}

  MscclProgram read();

 private:
  [[noreturn]] void fail(const std::string& message, int32_t line) const {
    throw Error(ErrorKind::input, message, xml_.where(line));
  }
  void warn(std::string_view rule, const std::string& message, int32_t line) {
    findings_.push_back({.rule = rule, .severity = Severity::warning, .message = message,
                         .where = xml_.where(line)});
  }
  bool taccl() const { return dialect_ == MscclDialect::any || dialect_ == MscclDialect::legacy_taccl; }

  int64_t number(const pugi::xml_attribute& attribute, const char* element, int64_t lowest, int64_t highest, int32_t line) const {
    // Most numbers are fine, and the words for a complaint take longer than reading them.
    const std::string_view text = attribute.value();
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() && value >= lowest && value <= highest) return value;
    return xml_integer(text, "<" + std::string(element) + "> " + attribute.name(), xml_.where(line), lowest, highest);
  }
  template <size_t n>
  uint8_t one_of(const pugi::xml_attribute& attribute, const char* element, const std::array<std::string_view, n>& known,
                 int32_t line) const {
    const auto found = std::find(known.begin(), known.end(), attribute.value());
    if (found == known.end())
      fail("<" + std::string(element) + "> has " + attribute.name() + "=\"" + std::string(attribute.value()).substr(0, 40) +
               "\"" + suggest_name(attribute.value(), known),
           line);
    return static_cast<uint8_t>(found - known.begin());
  }
  [[noreturn]] void missing(const char* element, const char* attribute, int32_t line) const {
    fail("<" + std::string(element) + "> lacks the attribute \"" + attribute + "\"", line);
  }
  void unknown_attribute(const char* element, const char* name, std::span<const std::string_view> known, int32_t line) {
    const std::string message = "<" + std::string(element) + "> has the attribute \"" + name + "\"";
    if (dialect_ == MscclDialect::executor) fail(message + suggest_name(name, known), line);
    if (ignored_.insert(std::string(element) + " " + name).second)
      warn("attribute-ignored", message + ", which executors ignore", line);
  }
  void unknown_element(const pugi::xml_node& node, const char* parent) {
    if (node.type() != pugi::node_element) return;
    const int32_t line = xml_.line(node);
    const std::string message = "<" + std::string(node.name()) + "> inside " + parent;
    if (dialect_ == MscclDialect::executor) fail(message + " is no element of MSCCL", line);
    if (ignored_.insert(message).second) warn("element-ignored", message + " is ignored by executors", line);
  }

  void read_gpu(const pugi::xml_node& node, MscclGpu& gpu);
  void read_block(const pugi::xml_node& node, MscclBlock& block);
  void read_step(const pugi::xml_node& node, MscclStep& step);

  const XmlFile& xml_;
  MscclDialect dialect_;
  std::vector<Finding>& findings_;
  std::set<std::string> ignored_;  // what has been warned of once
};

void Reader::read_step(const pugi::xml_node& node, MscclStep& step) {
  const int32_t line = step.line = xml_.line(node);
  static constexpr std::array<std::string_view, 10> known = {"s",   "type",  "srcbuf", "srcoff", "dstbuf",
                                                             "dstoff", "cnt", "depid",  "deps",   "hasdep"};
  unsigned seen = 0;
  for (const pugi::xml_attribute& attribute : node.attributes()) {
    const auto name = std::find(known.begin(), known.end(), attribute.name());
    if (name == known.end()) {
      unknown_attribute("step", attribute.name(), known, line);
      continue;
    }
    const auto index = static_cast<size_t>(name - known.begin());
    if (seen & 1U << index) fail("<step> has \"" + std::string(*name) + "\" twice", line);
    seen |= 1U << index;
    const auto integer = [&](int64_t lowest, int64_t highest) {
      return static_cast<int32_t>(number(attribute, "step", lowest, highest, line));
    };
    switch (index) {
      case 0: step.declared = integer(0, largest_index); break;
      case 1: step.op = static_cast<MscclOp>(one_of(attribute, "step", op_names, line)); break;
      case 2: step.src_buffer = static_cast<MscclBuffer>(one_of(attribute, "step", buffer_letters, line)); break;
      case 3: step.src_offset = integer(-1, largest_chunk); break;
      case 4: step.dst_buffer = static_cast<MscclBuffer>(one_of(attribute, "step", buffer_letters, line)); break;
      case 5: step.dst_offset = integer(-1, largest_chunk); break;
      case 6: step.count = integer(-largest_chunk, largest_chunk); break;
      case 7: step.dep_block = integer(-1, largest_index); break;
      case 8: step.dep_step = integer(-1, largest_index); break;
      case 9: step.posts = integer(0, 1) != 0; break;
    }
  }
  for (size_t i = 0; i < known.size(); ++i)
    if (!(seen & 1U << i)) missing("step", known[i].data(), line);
  for (const pugi::xml_node& child : node.children()) unknown_element(child, "<step>");
}

void Reader::read_block(const pugi::xml_node& node, MscclBlock& block) {
  const int32_t line = block.line = xml_.line(node);
  static constexpr std::array<std::string_view, 4> known = {"id", "send", "recv", "chan"};
  unsigned seen = 0;
  for (const pugi::xml_attribute& attribute : node.attributes()) {
    const auto name = std::find(known.begin(), known.end(), attribute.name());
    if (name == known.end()) {
      unknown_attribute("tb", attribute.name(), known, line);
      continue;
    }
    const auto index = static_cast<size_t>(name - known.begin());
    seen |= 1U << index;
    const auto integer = [&](int64_t lowest, int64_t highest) {
      return static_cast<int32_t>(number(attribute, "tb", lowest, highest, line));
    };
    switch (index) {
      case 0: block.id = integer(0, largest_index); break;
      case 1: block.send = integer(-1, largest_rank); break;
      case 2: block.receive = integer(-1, largest_rank); break;
      case 3: block.channel = integer(-1, largest_index); break;
    }
  }
  for (size_t i = 0; i < known.size(); ++i)
    if (!(seen & 1U << i)) missing("tb", known[i].data(), line);
  size_t steps = 0;
  for (auto child = node.first_child(); child; child = child.next_sibling()) ++steps;
  block.steps.reserve(steps);
  for (const pugi::xml_node& child : node.children()) {
    if (std::string_view(child.name()) == "step")
      read_step(child, block.steps.emplace_back());
    else
      unknown_element(child, "<tb>");
  }
}

void Reader::read_gpu(const pugi::xml_node& node, MscclGpu& gpu) {
  const int32_t line = gpu.line = xml_.line(node);
  static constexpr std::array<std::string_view, 4> known = {"id", "i_chunks", "o_chunks", "s_chunks"};
  unsigned seen = 0;
  for (const pugi::xml_attribute& attribute : node.attributes()) {
    const auto name = std::find(known.begin(), known.end(), attribute.name());
    if (name == known.end()) {
      unknown_attribute("gpu", attribute.name(), known, line);
      continue;
    }
    const auto index = static_cast<size_t>(name - known.begin());
    seen |= 1U << index;
    const auto integer = [&](int64_t highest) {
      return static_cast<int32_t>(number(attribute, "gpu", index == 0 ? 0 : -largest_chunk, highest, line));
    };
    switch (index) {
      case 0: gpu.id = integer(largest_rank); break;
      case 1: gpu.input_chunks = integer(largest_chunk); break;
      case 2: gpu.output_chunks = integer(largest_chunk); break;
      case 3: gpu.scratch_chunks = integer(largest_chunk); break;
    }
  }
  for (size_t i = 0; i < known.size(); ++i)
    if (!(seen & 1U << i)) missing("gpu", known[i].data(), line);
  for (const pugi::xml_node& child : node.children()) {
    const std::string_view name = child.name();
    if (name == "tb") {
      read_block(child, gpu.blocks.emplace_back());
    } else if (name == "copy" && taccl()) {
      MscclCopy copy;
      copy.line = xml_.line(child);
      for (const char* key : {"i_off", "o_off"}) {
        const pugi::xml_attribute attribute = child.attribute(key);
        if (!attribute) missing("copy", key, copy.line);
        (key[0] == 'i' ? copy.input_offset : copy.output_offset) =
            static_cast<int32_t>(number(attribute, "copy", 0, largest_chunk, copy.line));
      }
      gpu.copies.push_back(copy);
    } else {
      unknown_element(child, "<gpu>");
    }
  }
}

MscclProgram Reader::read() {
  const pugi::xml_document& document = xml_.document();
  MscclProgram program;
  program.file = xml_.file();
  const pugi::xml_node algo = document.child("algo");
  if (!algo) fail("has no <algo>, so it is no MSCCL algorithm", 1);
  for (const pugi::xml_node& child : document.children())
    if (child != algo) unknown_element(child, "the document");
  const int32_t line = program.line = xml_.line(algo);

  static constexpr std::array<std::string_view, 12> known = {
      "name", "proto", "nchannels", "nchunksperloop", "ngpus", "coll", "inplace", "outofplace", "minBytes", "maxBytes",
      "redop", "nthreads"};
  bool has_ranks = false, has_chunks = false, has_channels = false, has_protocol = false;
  for (const pugi::xml_attribute& attribute : algo.attributes()) {
    const std::string_view name = attribute.name();
    if (std::find(program.attributes.begin(), program.attributes.end(), name) != program.attributes.end())
      fail("<algo> has \"" + std::string(name) + "\" twice", line);
    const auto integer = [&](int64_t lowest, int64_t highest) { return number(attribute, "algo", lowest, highest, line); };
    if (name == "name") {
      program.name = attribute.value();
    } else if (name == "proto") {
      program.protocol = static_cast<MscclProtocol>(one_of(attribute, "algo", protocol_names, line));
      has_protocol = true;
    } else if (name == "nchannels") {
      program.channels = static_cast<int32_t>(integer(0, largest_index));
      has_channels = true;
    } else if (name == "nchunksperloop") {
      program.chunks = static_cast<int32_t>(integer(0, largest_chunk));
      has_chunks = true;
    } else if (name == "ngpus") {
      program.ranks = static_cast<int32_t>(integer(0, largest_rank));
      has_ranks = true;
    } else if (name == "coll") {
      program.collective = attribute.value();
    } else if (name == "inplace") {
      program.in_place = integer(0, INT32_MAX) != 0;
    } else if (name == "outofplace") {
      program.out_of_place = integer(0, INT32_MAX) != 0;
    } else if (name == "minBytes") {
      program.min_bytes = integer(INT64_MIN, INT64_MAX);
    } else if (name == "maxBytes") {
      program.max_bytes = integer(INT64_MIN, INT64_MAX);
    } else if (name != "redop" && name != "nthreads") {
      unknown_attribute("algo", attribute.name(), known, line);
      continue;
    }
    program.attributes.emplace_back(name);
  }
  if (!has_chunks) missing("algo", "nchunksperloop", line);
  if (!has_protocol && !taccl()) missing("algo", "proto", line);
  if (!has_channels && !taccl()) missing("algo", "nchannels", line);
  const auto demand = [&](const char* name) {
    if (std::find(program.attributes.begin(), program.attributes.end(), name) == program.attributes.end())
      missing("algo", name, line);
  };
  if (dialect_ == MscclDialect::executor || dialect_ == MscclDialect::msccl)
    for (const char* name : {"name", "ngpus", "coll", "inplace"}) demand(name);
  if (dialect_ == MscclDialect::executor)
    for (const char* name : {"outofplace", "minBytes", "maxBytes"}) demand(name);

  for (const pugi::xml_node& child : algo.children()) {
    if (std::string_view(child.name()) == "gpu")
      read_gpu(child, program.gpus.emplace_back());
    else
      unknown_element(child, "<algo>");
  }
  if (!has_ranks) program.ranks = static_cast<int32_t>(program.gpus.size());
  return program;
}

// The executors read XML with a few lines of C of their own (NCCL's src/graph/xml.cc): between elements they
// skip spaces and line ends only, and between attributes exactly one space. This looks for the first place
// where they would stop.
void check_spelling(std::string_view text, const std::string& file, std::vector<Finding>& findings) {
  size_t line = 1;
  const auto stop = [&](const std::string& message) {
    findings.push_back({.rule = "xml-spelling", .severity = Severity::warning,
                        .message = "the executors' XML reader stops here: " + message,
                        .where = file + ":" + std::to_string(line)});
  };
  size_t i = 0;
  while (i < text.size()) {
    const char c = text[i];
    if (c == '\n') ++line;
    if (c == ' ' || c == '\n' || c == '\r') {
      ++i;
      continue;
    }
    if (c == '\t') return stop("a tab between elements");
    if (c != '<') return stop("text between elements");
    if (text.substr(i, 4) == "<!--") {
      const size_t end = text.find("-->", i + 4);
      if (end == std::string_view::npos) return;  // pugixml has said so
      line += static_cast<size_t>(std::count(text.begin() + static_cast<ptrdiff_t>(i), text.begin() + static_cast<ptrdiff_t>(end), '\n'));
      i = end + 3;
      continue;
    }
    if (text.substr(i, 2) == "<?" || text.substr(i, 2) == "<!") return stop("a prolog or declaration");
    // Name, then attributes, each after one space.
    ++i;
    while (i < text.size() && text[i] != ' ' && text[i] != '>' && text[i] != '\n' && text[i] != '\t' && text[i] != '\r') ++i;
    while (i < text.size() && text[i] != '>') {
      if (text[i] == '/') {
        ++i;
        continue;
      }
      if (text[i] != ' ') return stop("a line end or tab inside an element");
      ++i;
      if (i < text.size() && (text[i] == '/' || text[i] == '>')) continue;
      if (i < text.size() && text[i] == ' ') return stop("two spaces between attributes");
      const size_t equals = text.find_first_of("= >\n", i);
      if (equals == std::string_view::npos || text[equals] != '=') return stop("an attribute without \"=\" right after its name");
      if (equals - i > 255) return stop("a name of more than 255 characters");
      i = equals + 1;
      if (i >= text.size() || text[i] != '"') return stop("an attribute value that does not start with a double quote");
      const size_t end = text.find('"', i + 1);
      if (end == std::string_view::npos) return;
      if (end - i > 256) return stop("a value of more than 255 characters");
      line += static_cast<size_t>(std::count(text.begin() + static_cast<ptrdiff_t>(i), text.begin() + static_cast<ptrdiff_t>(end), '\n'));
      i = end + 1;
    }
    ++i;
  }
}

}  // namespace

std::string_view to_string(MscclOp op) { return op_names[static_cast<size_t>(op)]; }
std::string_view to_string(MscclBuffer buffer) { return buffer_letters[static_cast<size_t>(buffer)]; }
std::string_view to_string(MscclProtocol protocol) { return protocol_names[static_cast<size_t>(protocol)]; }
std::span<const std::string_view> msccl_dialect_names() { return dialect_names; }

MscclDialect msccl_dialect(std::string_view name) {
  const auto found = std::find(dialect_names.begin(), dialect_names.end(), name);
  if (found == dialect_names.end()) throw std::out_of_range("no MSCCL dialect " + std::string(name));
  return static_cast<MscclDialect>(found - dialect_names.begin());
}

size_t MscclProgram::steps() const {
  size_t count = 0;
  for (const MscclGpu& gpu : gpus)
    for (const MscclBlock& block : gpu.blocks) count += block.steps.size();
  return count;
}

size_t MscclProgram::blocks() const {
  size_t count = 0;
  for (const MscclGpu& gpu : gpus) count += gpu.blocks.size();
  return count;
}

MscclProgram read_msccl_xml(std::string_view text, const std::string& file, MscclDialect dialect,
                            std::vector<Finding>& findings) {
  const XmlFile xml(text, file);
  MscclProgram program = Reader(xml, dialect, findings).read();
  check_spelling(text, file, findings);
  return program;
}

bool looks_like_msccl_xml(std::string_view text) { return xml_root_name(text) == "algo"; }

void write_msccl_xml(const MscclProgram& program, std::ostream& out) {
  // Names come from people; the executors know no escapes, so what would need one is left out.
  std::string name;
  for (const char c : program.name)
    if (c != '"' && c != '<' && c != '>' && c != '&' && static_cast<unsigned char>(c) >= 0x20 && name.size() < 250) name += c;
  out << "<algo name=\"" << name << "\" proto=\"" << to_string(program.protocol) << "\" nchannels=\"" << program.channels
      << "\" nchunksperloop=\"" << program.chunks << "\" ngpus=\"" << program.ranks << "\" coll=\"" << program.collective
      << "\" inplace=\"" << program.in_place.value_or(false) << "\" outofplace=\"" << program.out_of_place.value_or(false)
      << "\" minBytes=\"" << program.min_bytes.value_or(0) << "\" maxBytes=\"" << program.max_bytes.value_or(0) << "\">\n";
  for (const MscclGpu& gpu : program.gpus) {
    out << "  <gpu id=\"" << gpu.id << "\" i_chunks=\"" << gpu.input_chunks << "\" o_chunks=\"" << gpu.output_chunks
        << "\" s_chunks=\"" << gpu.scratch_chunks << "\">\n";
    for (const MscclBlock& block : gpu.blocks) {
      out << "    <tb id=\"" << block.id << "\" send=\"" << block.send << "\" recv=\"" << block.receive << "\" chan=\""
          << block.channel << "\">\n";
      for (size_t s = 0; s < block.steps.size(); ++s) {
        const MscclStep& step = block.steps[s];
        out << "      <step s=\"" << s << "\" type=\"" << to_string(step.op) << "\" srcbuf=\"" << to_string(step.src_buffer)
            << "\" srcoff=\"" << step.src_offset << "\" dstbuf=\"" << to_string(step.dst_buffer) << "\" dstoff=\""
            << step.dst_offset << "\" cnt=\"" << step.count << "\" depid=\"" << step.dep_block << "\" deps=\""
            << step.dep_step << "\" hasdep=\"" << (step.posts ? 1 : 0) << "\"/>\n";
      }
      out << "    </tb>\n";
    }
    out << "  </gpu>\n";
  }
  out << "</algo>\n";
}

}  // namespace slackline
