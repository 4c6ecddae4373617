// Whether the tests run under the address sanitizer, where what takes seconds takes minutes.
#pragma once

namespace slackline {

#ifdef __SANITIZE_ADDRESS__
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

}  // namespace slackline
