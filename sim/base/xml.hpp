// Reading XML so that every complaint names the file and the line.
#pragma once

#include <cstdint>
#include <pugixml.hpp>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace slackline {

/// A parsed document. Entities are not expanded and declarations are skipped, so the memory is a small multiple of the
/// text, which must outlive this object.
class XmlFile {
 public:
  /// Throws Error{input} with file and line for what is no XML.
  XmlFile(std::string_view text, std::string file);

  const pugi::xml_document& document() const { return document_; }
  const std::string& file() const { return file_; }
  /// The line that a node stands in, from 1. Asking in document order takes one pass over the text in all.
  int32_t line(const pugi::xml_node& node) const;
  std::string where(int32_t line) const { return file_ + ":" + std::to_string(line); }
  std::string where(const pugi::xml_node& node) const { return where(line(node)); }
  [[noreturn]] void fail(const pugi::xml_node& node, const std::string& message) const {
    throw Error(ErrorKind::input, message, where(node));
  }

 private:
  int32_t line_at(ptrdiff_t offset) const;

  std::string_view text_;
  std::string file_;
  pugi::xml_document document_;
  mutable size_t position_ = 0;  // of the last answer
  mutable int32_t line_ = 1;
};

/// The name of the first element, after any prolog and comments; empty where `text` does not start like XML. Looks at the
/// beginning only.
std::string_view xml_root_name(std::string_view text);

/// The whole of `text` as a decimal number of 64 bits; throws Error{input} that calls it `what`.
int64_t xml_integer(std::string_view text, const std::string& what, const std::string& where, int64_t lowest, int64_t highest);

}  // namespace slackline
