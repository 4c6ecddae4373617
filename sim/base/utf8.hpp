// Whether text is UTF-8. Names from binary files end up in JSON, which must be.
#pragma once

#include <string_view>

namespace slackline {

/// True for well-formed UTF-8 (Unicode 15, table 3-7): no overlong forms, no surrogates, nothing above U+10FFFF.
bool is_utf8(std::string_view text);

}  // namespace slackline
