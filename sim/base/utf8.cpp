#include "base/utf8.hpp"

#include <cstdint>

namespace slackline {

bool is_utf8(std::string_view text) {
  size_t i = 0;
  const auto byte = [&](size_t at) { return at < text.size() ? static_cast<uint8_t>(text[at]) : uint8_t{0}; };
  while (i < text.size()) {
    const uint8_t lead = byte(i);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    if (lead < 0xc2 || lead > 0xf4) return false;
    // The range of the second byte excludes overlong forms, surrogates and what lies above U+10FFFF.
    const uint8_t lowest = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    const uint8_t highest = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (byte(i + 1) < lowest || byte(i + 1) > highest) return false;
    const size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    for (size_t next = 2; next < length; ++next)
      if (byte(i + next) >> 6 != 2) return false;
    i += length;
  }
  return true;
}

}  // namespace slackline
