#include "element.hpp"

#include <array>
#include <stdexcept>
#include <string>

namespace slackline {

namespace {
constexpr std::array<std::string_view, 4> names = {"float32", "float16", "bfloat16", "int32"};
}

std::string_view to_string(ElementType type) { return names[static_cast<size_t>(type)]; }
std::span<const std::string_view> element_type_names() { return names; }

ElementType element_type(std::string_view name) {
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return static_cast<ElementType>(i);
  throw std::out_of_range(std::string(name));
}

}  // namespace slackline
