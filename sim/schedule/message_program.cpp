#include "schedule/message_program.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>

#include "base/error.hpp"
#include "base/files.hpp"
#include "schedule/findings.hpp"

namespace slackline {

namespace {

constexpr int64_t most_ranks = 1 << 20;

// ---------------------------------------------------------------- GOAL

struct Token {
  std::string_view text;
  int64_t line = 0;
};

// Words, and { } : ; on their own; comments and blanks are left out.
class GoalReader {
 public:
  GoalReader(std::string_view text, const std::string& file) : text_(text), file_(file) {
    program_.file = file;
    program_.format = "GOAL";
  }
  MessageProgram read();

 private:
  [[noreturn]] void fail(const std::string& message, int64_t line) const { throw Error(ErrorKind::input, message, file_ + ":" + std::to_string(line)); }
  std::optional<Token> next();
  Token need(std::string_view what) {
    const std::optional<Token> token = next();
    if (!token) fail("ends where " + std::string(what) + " must be", line_);
    return *token;
  }
  void expect(std::string_view word) {
    const Token token = need("\"" + std::string(word) + "\"");
    if (token.text != word) fail("must be \"" + std::string(word) + "\", and is \"" + std::string(token.text.substr(0, 40)) + "\"", token.line);
  }
  int64_t number(const Token& token, std::string_view what, int64_t lowest, int64_t highest) const;
  void read_rank();

  std::string_view text_;
  std::string file_;
  size_t at_ = 0;
  int64_t line_ = 1;
  std::optional<Token> back_;  // read once more
  MessageProgram program_;
  std::vector<bool> seen_;
};

std::optional<Token> GoalReader::next() {
  if (back_) return std::exchange(back_, std::nullopt);
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '\n') ++line_;
    if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ';') {
      ++at_;
    } else if (text_.substr(at_, 2) == "//") {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (text_.substr(at_, 2) == "/*") {
      const size_t end = text_.find("*/", at_ + 2);
      if (end == std::string_view::npos) fail("has a comment that does not end", line_);
      line_ += std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_), text_.begin() + static_cast<std::ptrdiff_t>(end), '\n');
      at_ = end + 2;
    } else {
      break;
    }
  }
  if (at_ >= text_.size()) return std::nullopt;
  size_t end = at_ + 1;
  if (constexpr std::string_view alone = "{}:"; alone.find(text_[at_]) == std::string_view::npos)
    while (end < text_.size() && std::string_view(" \t\r\n;{}:").find(text_[end]) == std::string_view::npos && text_.substr(end, 2) != "//" && text_.substr(end, 2) != "/*") ++end;
  const Token token{text_.substr(at_, end - at_), line_};
  at_ = end;
  return token;
}

int64_t GoalReader::number(const Token& token, std::string_view what, int64_t lowest, int64_t highest) const {
  const bool negative = token.text.starts_with("-");
  const std::string_view digits = token.text.substr(negative ? 1 : 0);
  int64_t value = 0;
  bool ok = !digits.empty() && digits.size() <= 18;
  for (const char c : digits) {
    ok = ok && c >= '0' && c <= '9';
    value = ok ? value * 10 + (c - '0') : 0;
  }
  if (negative) value = -value;
  if (!ok || value < lowest || value > highest)
    fail(std::string(what) + " must be a number from " + std::to_string(lowest) + " to " + std::to_string(highest) + ", and is \"" + std::string(token.text.substr(0, 40)) + "\"", token.line);
  return value;
}

void GoalReader::read_rank() {
  const Token which = need("a rank");
  const int64_t ranks = static_cast<int64_t>(program_.ranks.size());
  const auto rank = static_cast<size_t>(number(which, "the rank", 0, ranks - 1));
  if (seen_[rank]) fail("rank " + std::to_string(rank) + " is there twice", which.line);
  seen_[rank] = true;
  std::vector<MessageOp>& ops = program_.ranks[rank];
  std::map<std::string, uint32_t, std::less<>> labels;
  struct Link {
    Token from, to;
    bool begin;
  };
  std::vector<Link> links;
  expect("{");
  while (true) {
    Token word = need("an operation or \"}\"");
    if (word.text == "}") break;
    MessageOp op;
    const std::optional<Token> after = next();
    if (after && after->text == ":") {
      op.name = std::string(word.text);
      word = need("an operation");
    } else if (after && (after->text == "requires" || after->text == "irequires")) {
      links.push_back({word, need("a label"), after->text == "irequires"});
      continue;
    } else {
      back_ = after;
    }
    op.where = file_ + ":" + std::to_string(word.line);
    if (word.text == "send" || word.text == "recv") {
      const bool sends = word.text == "send";
      op.kind = sends ? MessageOp::Kind::send : MessageOp::Kind::receive;
      Token size = need("a size");
      if (size.text.ends_with("b")) size.text.remove_suffix(1);
      op.bytes = number(size, "the size", 0, int64_t{1} << 60);
      expect(sends ? "to" : "from");
      op.peer = number(need("a rank"), sends ? "the destination" : "the source", sends ? 0 : -1, ranks - 1);
      if (op.peer == static_cast<int64_t>(rank)) fail("is a message of a rank to itself", word.line);
    } else if (word.text == "calc") {
      number(need("a time"), "the time", 0, int64_t{1} << 60);
    } else {
      fail("\"" + std::string(word.text.substr(0, 40)) + "\" is none of send, recv and calc", word.line);
    }
    for (std::optional<Token> option = next(); option; option = next()) {
      if (option->text != "tag" && option->text != "cpu" && option->text != "nic") {
        back_ = option;
        break;
      }
      const int64_t value = number(need("a number"), option->text, option->text == "tag" ? -1 : 0, int64_t{1} << 60);
      if (option->text == "tag") op.tag = value;
    }
    if (op.kind == MessageOp::Kind::send && op.tag < 0) fail("a send must have a tag of its own, not any", word.line);
    if (!op.name.empty() && !labels.emplace(op.name, static_cast<uint32_t>(ops.size())).second) fail("label \"" + op.name + "\" is there twice", word.line);
    ops.push_back(std::move(op));
  }
  for (const Link& link : links) {
    const auto from = labels.find(link.from.text), to = labels.find(link.to.text);
    for (const auto& [found, token] : {std::pair{from, link.from}, std::pair{to, link.to}})
      if (found == labels.end()) fail("there is no label \"" + std::string(token.text.substr(0, 40)) + "\"", token.line);
    MessageOp& op = ops[from->second];
    (link.begin ? op.after_begin_of : op.after).push_back(to->second);
  }
}

MessageProgram GoalReader::read() {
  expect("num_ranks");
  const int64_t ranks = number(need("a number"), "num_ranks", 1, most_ranks);
  if (static_cast<size_t>(ranks) > text_.size()) fail("num_ranks is " + std::to_string(ranks) + ", far more than the file describes", line_);
  program_.ranks.resize(static_cast<size_t>(ranks));
  seen_.resize(static_cast<size_t>(ranks));
  while (const std::optional<Token> token = next()) {
    if (token->text != "rank") fail("must be \"rank\", and is \"" + std::string(token->text.substr(0, 40)) + "\"", token->line);
    read_rank();
  }
  return std::move(program_);
}

// ---------------------------------------------------------------- Chakra

// Protocol Buffers' wire format (protobuf.dev/programming-guides/encoding): fields with a number and one of four shapes.
class Wire {
 public:
  struct Field {
    uint64_t number = 0;
    uint64_t value = 0;       // of numbers
    std::string_view bytes;   // of strings and messages
    bool is_number = false;
  };
  Wire(std::string_view bytes, const std::string& file, size_t offset) : bytes_(bytes), file_(file), offset_(offset) {}
  bool done() const { return at_ >= bytes_.size(); }
  size_t position() const { return offset_ + at_; }
  uint64_t number() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (done()) fail("ends inside a number");
      const auto byte = static_cast<uint8_t>(bytes_[at_++]);
      value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
    fail("has a number of more than 64 bits");
  }
  std::string_view text(uint64_t length) {
    if (length > bytes_.size() - at_) fail("has a part that goes beyond its end");
    const std::string_view part = bytes_.substr(at_, length);
    at_ += length;
    return part;
  }
  Field field() {
    const uint64_t key = number();
    Field field;
    field.number = key >> 3;
    switch (key & 7) {
      case 0:
        field.value = number();
        field.is_number = true;
        break;
      case 1: text(8); break;
      case 2: field.bytes = text(number()); break;
      case 5: text(4); break;
      default: fail("has a field of a kind that there is not");
    }
    return field;
  }
  [[noreturn]] void fail(const std::string& message) const { throw Error(ErrorKind::input, message + " at byte " + std::to_string(position()), file_); }

 private:
  std::string_view bytes_;
  const std::string& file_;
  size_t offset_, at_ = 0;
};

// "custom.3.et": what stands before the rank, and the rank.
std::optional<std::pair<std::string, uint32_t>> split_name(const std::string& name) {
  if (!name.ends_with(".et")) return std::nullopt;
  const std::string stem = name.substr(0, name.size() - 3);
  const size_t dot = stem.rfind('.');
  if (dot == std::string::npos || dot + 1 == stem.size() || stem.size() - dot > 8) return std::nullopt;
  uint32_t rank = 0;
  for (const char c : stem.substr(dot + 1)) {
    if (c < '0' || c > '9') return std::nullopt;
    rank = rank * 10 + static_cast<uint32_t>(c - '0');
  }
  return std::pair{stem.substr(0, dot + 1), rank};
}

}  // namespace

size_t MessageProgram::ops() const {
  size_t count = 0;
  for (const std::vector<MessageOp>& rank : ranks) count += rank.size();
  return count;
}

bool looks_like_goal(std::string_view text) {
  return !text.empty() && text[0] != '{' && text[0] != '<' && text.substr(0, 1 << 12).find("num_ranks") != std::string_view::npos;
}

MessageProgram read_goal(std::string_view text, const std::string& file) { return GoalReader(text, file).read(); }

bool looks_like_chakra(std::string_view text) { return text.size() > 8 && text.substr(0, 64).find("schema") != std::string_view::npos && text[0] != '<' && text[0] != '{'; }

void read_chakra_rank(std::string_view bytes, const std::string& file, MessageProgram& program) {
  // Node types and fields of Chakra's et_def.proto (MLCommons).
  constexpr uint64_t type_send = 5, type_receive = 6;
  std::vector<MessageOp>& ops = program.ranks.emplace_back();
  const auto rank = static_cast<int64_t>(program.ranks.size()) - 1;
  std::map<uint64_t, uint32_t> number_of;
  std::vector<std::vector<uint64_t>> dependencies;
  Wire messages(bytes, file, 0);
  bool first = true;
  while (!messages.done()) {
    const size_t begin = messages.position();
    const std::string_view body = messages.text(messages.number());
    if (std::exchange(first, false)) continue;  // GlobalMetadata
    Wire node(body, file, messages.position() - body.size());
    MessageOp op;
    op.where = file + ": byte " + std::to_string(begin);
    uint64_t id = 0, type = 0;
    std::map<std::string, int64_t, std::less<>> attributes;
    std::vector<uint64_t> after;
    while (!node.done()) {
      const Wire::Field field = node.field();
      if (field.number == 1 && field.is_number) id = field.value;
      if (field.number == 2) op.name = std::string(field.bytes.substr(0, 200));
      if (field.number == 3 && field.is_number) type = field.value;
      if (field.number == 4 || field.number == 5) {  // control and data dependencies, packed or one by one
        if (field.is_number) after.push_back(field.value);
        Wire list(field.bytes, file, node.position() - field.bytes.size());
        while (!list.done()) after.push_back(list.number());
      }
      if (field.number == 10) {
        Wire attribute(field.bytes, file, node.position() - field.bytes.size());
        std::string name;
        int64_t value = 0;
        while (!attribute.done()) {
          const Wire::Field part = attribute.field();
          if (part.number == 1) name = std::string(part.bytes.substr(0, 200));
          if (part.is_number) value = static_cast<int64_t>(part.value);
        }
        attributes[name] = value;
      }
    }
    if (!number_of.emplace(id, static_cast<uint32_t>(ops.size())).second) node.fail("has node " + std::to_string(id) + " twice, again");
    if (type == type_send || type == type_receive) {
      const bool sends = type == type_send;
      op.kind = sends ? MessageOp::Kind::send : MessageOp::Kind::receive;
      const auto peer = attributes.find(sends ? "comm_dst" : "comm_src");
      if (peer == attributes.end() || peer->second < 0 || peer->second > most_ranks) node.fail("has node " + std::to_string(id) + " without the rank at the other end");
      op.peer = peer->second;
      if (op.peer == rank) node.fail("has node " + std::to_string(id) + ", a message of a rank to itself,");
      if (const auto tag = attributes.find("comm_tag"); tag != attributes.end()) op.tag = std::max<int64_t>(tag->second, 0);
      if (const auto size = attributes.find("comm_size"); size != attributes.end()) op.bytes = std::max<int64_t>(size->second, 0);
    }
    ops.push_back(std::move(op));
    dependencies.push_back(std::move(after));
  }
  for (size_t i = 0; i < ops.size(); ++i)
    for (const uint64_t id : dependencies[i]) {
      const auto known = number_of.find(id);
      if (known == number_of.end()) throw Error(ErrorKind::input, "waits for node " + std::to_string(id) + ", which there is not", ops[i].where);
      ops[i].after.push_back(known->second);
    }
}

MessageProgram read_chakra(const std::filesystem::path& path, const std::string& shown_as) {
  const auto own = split_name(path.filename().string());
  if (!own) throw Error(ErrorKind::input, "is a Chakra trace of one rank; such files must be called PREFIX.0.et, PREFIX.1.et and so on, so that those of the other ranks are found", shown_as);
  std::map<uint32_t, std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(path.has_parent_path() ? path.parent_path() : "."))
    if (const auto other = split_name(entry.path().filename().string()); other && other->first == own->first) files.emplace(other->second, entry.path());
  MessageProgram program;
  program.file = shown_as;
  program.format = "Chakra";
  for (const auto& [rank, file] : files) {
    if (rank != program.ranks.size()) throw Error(ErrorKind::input, "there is no trace of rank " + std::to_string(program.ranks.size()) + ", " + own->first + std::to_string(program.ranks.size()) + ".et", shown_as);
    read_chakra_rank(read_file(file), file.filename().string(), program);
  }
  return program;
}

namespace {

// Runs a program, if `unbuffered` with sends that end only when they are received.
class MessageRun {
 public:
  MessageRun(const MessageProgram& program, bool unbuffered) : program_(program), unbuffered_(unbuffered) {
    for (const std::vector<MessageOp>& rank : program.ranks) {
      first_.push_back(static_cast<uint32_t>(total_));
      total_ += rank.size();
    }
  }
  void run();
  bool completed() const { return ended_ == total_; }
  int64_t longest() const { return longest_; }
  std::vector<std::pair<std::string, std::string>> mismatched;  // where, what
  /// A circle of operations that wait for each other, or the one that waits for what never comes.
  std::vector<std::string> waits() const;

 private:
  using Key = std::tuple<int64_t, int64_t, int64_t>;  // from, to, tag
  const MessageOp& op(uint32_t n) const { return program_.ranks[rank_[n]][n - first_[rank_[n]]]; }
  void begin(uint32_t n);
  void meet(uint32_t send, uint32_t receive);
  void end(uint32_t n);
  void release(uint32_t n) {
    if (--open_[n] == 0) ready_.push_back(n);
  }
  std::string name(uint32_t n) const {
    const MessageOp& what = op(n);
    return what.where + " rank " + std::to_string(rank_[n]) + " " + (what.name.empty() ? "operation " + std::to_string(n - first_[rank_[n]]) : what.name);
  }

  const MessageProgram& program_;
  bool unbuffered_;
  size_t total_ = 0, ended_ = 0;
  std::vector<uint32_t> first_, rank_, open_;
  std::vector<std::vector<uint32_t>> on_end_, on_begin_;
  std::vector<int64_t> chain_;
  std::vector<char> begun_, done_;
  std::vector<uint32_t> ready_;
  std::map<Key, std::deque<uint32_t>> sent_, posted_;  // that have not met, in the order in which they began
  std::map<int64_t, std::deque<uint32_t>> wild_;       // receives of a rank from anyone or with any tag
  int64_t longest_ = 0;
};

void MessageRun::run() {
  open_.assign(total_, 0);
  on_end_.resize(total_);
  on_begin_.resize(total_);
  chain_.assign(total_, 0);
  begun_.assign(total_, 0);
  done_.assign(total_, 0);
  for (uint32_t r = 0; r < program_.ranks.size(); ++r)
    for (uint32_t i = 0; i < program_.ranks[r].size(); ++i) {
      rank_.push_back(r);
      const uint32_t n = first_[r] + i;
      for (const uint32_t before : program_.ranks[r][i].after) on_end_[first_[r] + before].push_back(n);
      for (const uint32_t before : program_.ranks[r][i].after_begin_of) on_begin_[first_[r] + before].push_back(n);
      open_[n] = static_cast<uint32_t>(program_.ranks[r][i].after.size() + program_.ranks[r][i].after_begin_of.size());
    }
  for (uint32_t n = 0; n < total_; ++n)
    if (open_[n] == 0) ready_.push_back(n);
  for (size_t i = 0; i < ready_.size(); ++i) begin(ready_[i]);
}

void MessageRun::begin(uint32_t n) {
  begun_[n] = 1;
  for (const uint32_t next : on_begin_[n]) {
    chain_[next] = std::max(chain_[next], chain_[n]);
    release(next);
  }
  const MessageOp& what = op(n);
  const auto self = static_cast<int64_t>(rank_[n]);
  switch (what.kind) {
    case MessageOp::Kind::work: end(n); return;
    case MessageOp::Kind::send: {
      const Key key{self, what.peer, what.tag};
      uint32_t receive = UINT32_MAX;
      if (const auto waiting = posted_.find(key); waiting != posted_.end() && !waiting->second.empty()) {
        receive = waiting->second.front();
        waiting->second.pop_front();
      } else if (const auto list = wild_.find(what.peer); list != wild_.end()) {
        for (auto at = list->second.begin(); at != list->second.end(); ++at) {
          const MessageOp& candidate = op(*at);
          if ((candidate.peer >= 0 && candidate.peer != self) || (candidate.tag >= 0 && candidate.tag != what.tag)) continue;
          receive = *at;
          list->second.erase(at);
          break;
        }
      }
      if (receive == UINT32_MAX)
        sent_[key].push_back(n);
      else
        meet(n, receive);
      if (!unbuffered_ && !done_[n]) end(n);
      return;
    }
    case MessageOp::Kind::receive: {
      const bool exact = what.peer >= 0 && what.tag >= 0;
      if (exact) {
        const Key key{what.peer, self, what.tag};
        if (const auto waiting = sent_.find(key); waiting != sent_.end() && !waiting->second.empty()) {
          const uint32_t send = waiting->second.front();
          waiting->second.pop_front();
          meet(send, n);
        } else {
          posted_[key].push_back(n);
        }
        return;
      }
      for (auto& [key, waiting] : sent_) {
        const auto& [from, to, tag] = key;
        if (to != self || waiting.empty() || (what.peer >= 0 && from != what.peer) || (what.tag >= 0 && tag != what.tag)) continue;
        const uint32_t send = waiting.front();
        waiting.pop_front();
        meet(send, n);
        return;
      }
      wild_[self].push_back(n);
      return;
    }
  }
}

void MessageRun::meet(uint32_t send, uint32_t receive) {
  if (op(send).bytes != op(receive).bytes)
    mismatched.emplace_back(op(receive).where, name(receive) + " expects " + std::to_string(op(receive).bytes) + " bytes, and " + name(send) + " sends " + std::to_string(op(send).bytes));
  chain_[receive] = std::max(chain_[receive], chain_[send] + 1);
  longest_ = std::max(longest_, chain_[receive]);
  if (!done_[send]) end(send);
  end(receive);
}

void MessageRun::end(uint32_t n) {
  done_[n] = 1;
  ++ended_;
  for (const uint32_t next : on_end_[n]) {
    chain_[next] = std::max(chain_[next], chain_[n]);
    release(next);
  }
}

std::vector<std::string> MessageRun::waits() const {
  // What keeps an operation: one before it, or the other end of its message.
  const auto keeps = [&](uint32_t n) -> std::pair<uint32_t, std::string> {
    const uint32_t r = rank_[n];
    const MessageOp& what = op(n);
    if (!begun_[n]) {
      for (const uint32_t before : what.after)
        if (!done_[first_[r] + before]) return {first_[r] + before, " waits for the end of "};
      for (const uint32_t before : what.after_begin_of)
        if (!begun_[first_[r] + before]) return {first_[r] + before, " waits for the begin of "};
    }
    const bool sends = what.kind == MessageOp::Kind::send;
    if (what.peer >= 0 && static_cast<size_t>(what.peer) < program_.ranks.size()) {
      const std::vector<MessageOp>& others = program_.ranks[static_cast<size_t>(what.peer)];
      for (uint32_t i = 0; i < others.size(); ++i) {
        const uint32_t m = first_[static_cast<size_t>(what.peer)] + i;
        if (begun_[m] || others[i].kind == what.kind || others[i].kind == MessageOp::Kind::work) continue;
        if (others[i].peer >= 0 && others[i].peer != static_cast<int64_t>(r)) continue;
        if (what.tag >= 0 && others[i].tag >= 0 && others[i].tag != what.tag) continue;
        return {m, sends ? " waits to be received by " : " waits for a message from "};
      }
    }
    return {UINT32_MAX, sends ? " waits to be received, and nobody does" : " waits for a message, and nobody sends it"};
  };
  std::vector<uint32_t> walk(total_, UINT32_MAX), best;
  for (uint32_t start = 0; start < total_; ++start) {
    if (done_[start]) continue;
    uint32_t n = start;
    while (n != UINT32_MAX && walk[n] == UINT32_MAX) {
      walk[n] = start;
      n = keeps(n).first;
    }
    if (n == UINT32_MAX || walk[n] != start) continue;
    std::vector<uint32_t> cycle{n};
    for (uint32_t m = keeps(n).first; m != n; m = keeps(m).first) cycle.push_back(m);
    if (best.empty() || cycle.size() < best.size()) best = std::move(cycle);
  }
  for (uint32_t n = 0; best.empty() && n < total_; ++n)
    if (!done_[n] && keeps(n).first == UINT32_MAX) best = {n};
  std::vector<std::string> lines;
  for (const uint32_t n : best) {
    const auto [next, how] = keeps(n);
    lines.push_back(name(n) + how + (next == UINT32_MAX ? "" : name(next)));
  }
  return lines;
}

}  // namespace

MessageReport check_messages(const MessageProgram& program) {
  MessageReport report;
  FindingList findings(5);
  // What meets what can be counted where nothing is left to the run.
  struct Ends {
    int64_t sends = 0, receives = 0;
    const MessageOp* any = nullptr;
  };
  std::map<std::tuple<int64_t, int64_t, int64_t>, Ends> pairs;
  bool wild = false;
  for (size_t r = 0; r < program.ranks.size(); ++r)
    for (const MessageOp& op : program.ranks[r]) {
      const auto self = static_cast<int64_t>(r);
      if (op.kind == MessageOp::Kind::work) continue;
      if (op.peer >= static_cast<int64_t>(program.ranks.size())) {
        findings.add("peer", Severity::error, "names rank " + std::to_string(op.peer) + ", and there are " + std::to_string(program.ranks.size()), op.where);
        continue;
      }
      if (op.kind == MessageOp::Kind::send) {
        ++report.messages;
        report.bytes += op.bytes;
      }
      wild |= op.peer < 0 || op.tag < 0;
      if (op.peer < 0 || op.tag < 0) continue;
      Ends& ends = op.kind == MessageOp::Kind::send ? pairs[{self, op.peer, op.tag}] : pairs[{op.peer, self, op.tag}];
      ++(op.kind == MessageOp::Kind::send ? ends.sends : ends.receives);
      ends.any = &op;
    }
  for (const auto& [key, ends] : pairs) {
    const auto& [from, to, tag] = key;
    if (wild || ends.sends == ends.receives) continue;
    findings.add(ends.sends > ends.receives ? "message-unreceived" : "message-missing", Severity::error,
                 "rank " + std::to_string(from) + " sends " + std::to_string(ends.sends) + " messages with tag " + std::to_string(tag) + " to rank " + std::to_string(to) + ", which receives " + std::to_string(ends.receives), ends.any->where);
  }
  MessageRun run(program, false), unbuffered(program, true);
  run.run();
  report.ends = run.completed();
  report.longest_chain = run.longest();
  for (const auto& [where, what] : run.mismatched) findings.add("message-size", Severity::error, what, where);
  if (!report.ends) {
    const std::vector<std::string> waits = run.waits();
    if (Finding* finding = findings.add("deadlock", Severity::error, waits.size() > 1 ? "never ends: " + std::to_string(waits.size()) + " operations wait for each other in a circle" : "never ends: an operation waits for what never comes", program.file))
      finding->witness = waits;
  } else {
    unbuffered.run();
    report.ends_unbuffered = unbuffered.completed();
    if (!report.ends_unbuffered)
      if (Finding* finding = findings.add("deadlock-capacity", Severity::warning, "ends only if sends are buffered: where a send ends when it is received, operations wait for each other", program.file))
        finding->witness = unbuffered.waits();
  }
  findings.add("no-contents", Severity::info, program.format + " tells sizes and order, and not what data a message carries: that messages meet and end was checked, and the result cannot be", program.file);
  report.findings = findings.take();
  return report;
}

}  // namespace slackline
