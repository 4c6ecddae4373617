#include "base/json.hpp"

#include <algorithm>
#include <unordered_set>

#include "base/files.hpp"

namespace slackline {

namespace {

std::string type_name(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null: return "null";
    case Json::value_t::object: return "an object";
    case Json::value_t::array: return "an array";
    case Json::value_t::string: return "a string";
    case Json::value_t::boolean: return "true or false";
    default: return "a number";
  }
}

// Builds the document as nlohmann's own parser does, but refuses deep nesting and duplicate keys.
class StrictParser : public nlohmann::json_sax<Json> {
 public:
  explicit StrictParser(Json& root) : root_(root) {}

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t& value) override { return put(Json::binary(std::move(value))); }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (!keys_.back().insert(name).second) {
      problem_ = "the key \"" + name + "\" appears twice in one object";
      return false;
    }
    key_ = std::move(name);
    return true;
  }
  bool parse_error(size_t position, const std::string&, const Json::exception& error) override {
    position_ = position;
    problem_ = error.what();
    // nlohmann's text is "[json.exception.parse_error.101] parse error at line 1, column 2: ...", or
    // "[json.exception.out_of_range.406] number overflow parsing '1e999'".
    for (const std::string_view end : {"] ", ": "})
      if (const size_t found = problem_.find(end); found != std::string::npos) problem_ = problem_.substr(found + 2);
    return false;
  }

  const std::string& problem() const { return problem_; }
  std::optional<size_t> position() const { return position_; }

 private:
  template <class Value>
  Json* add(Value&& value) {
    if (open_.empty()) {
      root_ = std::forward<Value>(value);
      return &root_;
    }
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::forward<Value>(value));
      return &open_.back()->back();
    }
    // Appended as to a list: the keys have been compared, and looking for one takes as long as there are keys.
    Json::object_t& members = open_.back()->get_ref<Json::object_t&>();
    return &members.emplace_back(key_, std::forward<Value>(value)).second;
  }
  template <class Value>
  bool put(Value&& value) {
    add(std::forward<Value>(value));
    return true;
  }
  bool open(Json container) {
    if (open_.size() >= 100) {
      problem_ = "is nested more than 100 deep";
      return false;
    }
    open_.push_back(add(std::move(container)));
    keys_.emplace_back();
    return true;
  }
  bool close() {
    open_.pop_back();
    keys_.pop_back();
    return true;
  }

  Json& root_;
  std::vector<Json*> open_;
  std::vector<std::unordered_set<std::string>> keys_;  // of the objects in open_
  std::string key_;
  std::string problem_;
  std::optional<size_t> position_;
};

}  // namespace

Json parse_json(std::string_view text, const std::string& file) {
  // nlohmann takes a NUL byte for the end and would ignore what follows.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos)
    throw Error(ErrorKind::input, "not valid JSON: it has a NUL byte",
                file + ":" + std::to_string(1 + std::count(text.begin(), text.begin() + nul, '\n')));
  Json root;
  StrictParser parser(root);
  if (!Json::sax_parse(text, &parser)) {
    std::string where = file;
    if (parser.position()) {
      const std::string_view before = text.substr(0, std::min(*parser.position(), text.size()));
      where += ":" + std::to_string(1 + std::count(before.begin(), before.end(), '\n'));
    }
    throw Error(ErrorKind::input, "not valid JSON: " + parser.problem(), where);
  }
  return root;
}

Json read_json_file(const std::filesystem::path& path) {
  return parse_json(read_file(path, uint64_t{1} << 30), path.string());
}

void JsonCursor::fail(const std::string& message) const {
  throw Error(ErrorKind::input, message, where());
}

void JsonCursor::expect_object(std::initializer_list<std::string_view> known) const {
  expect_object(std::span(known.begin(), known.size()));
}

void JsonCursor::expect_object(std::span<const std::string_view> known) const {
  if (!value_->is_object()) fail("must be an object, not " + type_name(*value_));
  for (const auto& [key, value] : value_->items()) {
    if (std::find(known.begin(), known.end(), key) == known.end())
      JsonCursor(value, file_, pointer_ + "/" + escape_pointer(key))
          .fail("unknown key \"" + key + "\"" + suggest_name(key, known));
  }
}

JsonCursor JsonCursor::at(std::string_view key) const {
  if (auto member = find(key)) return *member;
  fail("needs the key \"" + std::string(key) + "\"");
}

std::optional<JsonCursor> JsonCursor::find(std::string_view key) const {
  if (!value_->is_object()) fail("must be an object, not " + type_name(*value_));
  const auto found = value_->find(key);
  if (found == value_->end()) return std::nullopt;
  return JsonCursor(*found, file_, pointer_ + "/" + escape_pointer(key));
}

std::vector<JsonCursor> JsonCursor::elements() const {
  if (!value_->is_array()) fail("must be an array, not " + type_name(*value_));
  std::vector<JsonCursor> result;
  result.reserve(value_->size());
  for (size_t i = 0; i < value_->size(); ++i)
    result.emplace_back((*value_)[i], file_, pointer_ + "/" + std::to_string(i));
  return result;
}

std::vector<std::pair<std::string, JsonCursor>> JsonCursor::members() const {
  if (!value_->is_object()) fail("must be an object, not " + type_name(*value_));
  std::vector<std::pair<std::string, JsonCursor>> result;
  for (const auto& [key, value] : value_->items())
    result.emplace_back(key, JsonCursor(value, file_, pointer_ + "/" + escape_pointer(key)));
  return result;
}

std::string JsonCursor::string() const {
  if (!value_->is_string()) fail("must be a string, not " + type_name(*value_));
  return value_->get<std::string>();
}

bool JsonCursor::boolean() const {
  if (!value_->is_boolean()) fail("must be true or false, not " + type_name(*value_));
  return value_->get<bool>();
}

int64_t JsonCursor::integer(int64_t lowest, int64_t highest) const {
  const std::string range = "must be a whole number from " + std::to_string(lowest) + " to " + std::to_string(highest);
  if (!value_->is_number_integer()) fail(range + ", not " + (value_->is_number() ? value_->dump() : type_name(*value_)));
  if (value_->is_number_unsigned() && value_->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
    fail(range + ", not " + value_->dump());
  const int64_t number = value_->get<int64_t>();
  if (number < lowest || number > highest) fail(range + ", not " + std::to_string(number));
  return number;
}

double JsonCursor::number(double lowest, double highest) const {
  if (!value_->is_number()) fail("must be a number, not " + type_name(*value_));
  const double number = value_->get<double>();
  if (!(number >= lowest && number <= highest))
    fail("must be a number from " + Json(lowest).dump() + " to " + Json(highest).dump() + ", not " + value_->dump());
  return number;
}

Bandwidth JsonCursor::bandwidth() const {
  const Bandwidth rate = parse_bandwidth(unit_text("\"400 Gb/s\""), where());
  if (rate.count() <= 0) fail("a rate must be above 0");
  return rate;
}

Fraction JsonCursor::fraction() const {
  if (value_->is_number_integer()) return Fraction(integer(INT64_MIN + 1, INT64_MAX));
  if (value_->is_string()) return Fraction::parse(value_->get<std::string>(), where());
  fail("must be an exact fraction: a whole number or a string such as \"3/2\"");
}

std::string JsonCursor::one_of(std::span<const std::string_view> known, std::string_view what) const {
  const std::string name = string();
  if (std::find(known.begin(), known.end(), name) == known.end())
    fail("unknown " + std::string(what) + " \"" + name + "\"" + suggest_name(name, known));
  return name;
}

std::string JsonCursor::unit_text(std::string_view example) const {
  if (!value_->is_string())
    fail("must be a string with a unit, such as " + std::string(example) + ", not " +
         (value_->is_number() ? "the bare number " + value_->dump() : type_name(*value_)));
  return value_->get<std::string>();
}

}  // namespace slackline
