#include "base/xml.hpp"

#include <algorithm>
#include <charconv>

namespace slackline {

XmlFile::XmlFile(std::string_view text, std::string file) : text_(text), file_(std::move(file)) {
  const pugi::xml_parse_result result =
      document_.load_buffer(text.data(), text.size(), pugi::parse_minimal | pugi::parse_trim_pcdata, pugi::encoding_utf8);
  if (!result)
    throw Error(ErrorKind::input, std::string("is no valid XML: ") + result.description(), where(line_at(result.offset)));
}

int32_t XmlFile::line(const pugi::xml_node& node) const { return line_at(node.offset_debug()); }

int32_t XmlFile::line_at(ptrdiff_t offset) const {
  const size_t position = std::min(static_cast<size_t>(std::max<ptrdiff_t>(offset, 0)), text_.size());
  if (position < position_) {
    position_ = 0;
    line_ = 1;
  }
  line_ += static_cast<int32_t>(std::count(text_.begin() + static_cast<ptrdiff_t>(position_),
                                           text_.begin() + static_cast<ptrdiff_t>(position), '\n'));
  position_ = position;
  return line_;
}

std::string_view xml_root_name(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  while (true) {
    const size_t open = text.find_first_not_of(" \t\r\n");
    if (open == std::string_view::npos || text[open] != '<') return {};
    text.remove_prefix(open);
    std::string_view end;
    if (text.starts_with("<!--"))
      end = "-->";
    else if (text.starts_with("<?") || text.starts_with("<!"))
      end = ">";
    else
      break;
    const size_t close = text.find(end);
    if (close == std::string_view::npos) return {};
    text.remove_prefix(close + end.size());
  }
  const size_t end = text.find_first_of(" \t\r\n/>", 1);
  return end == std::string_view::npos ? std::string_view() : text.substr(1, end - 1);
}

int64_t xml_integer(std::string_view text, const std::string& what, const std::string& where, int64_t lowest, int64_t highest) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty())
    throw Error(ErrorKind::input, what + "=\"" + std::string(text.substr(0, 40)) + "\" is no whole number of 64 bits", where);
  if (value < lowest || value > highest)
    throw Error(ErrorKind::input,
                what + "=\"" + std::string(text) + "\" must be " + std::to_string(lowest) + " to " + std::to_string(highest), where);
  return value;
}

}  // namespace slackline
