// What tests say about errors: their exact text, which is part of slackline's contract.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/error.hpp"

namespace slackline {

/// The whole text of the Error that `action` throws, or what happened instead.
template <class Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another exception: ") + error.what();
  }
  return "no error";
}

/// The kind of the Error that `action` throws; fails where it throws none.
template <class Action>
ErrorKind error_kind_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.kind();
  }
  ADD_FAILURE() << "no error";
  return ErrorKind::internal;
}

}  // namespace slackline
