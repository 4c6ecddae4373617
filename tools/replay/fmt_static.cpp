// {fmt}, compiled into the program, so that it can be copied to a machine without libfmt.so (Debian has no libfmt.a).
// What is here is what libfmt.so exports and slackline uses.
#undef FMT_SHARED
#include <fmt/format-inl.h>
