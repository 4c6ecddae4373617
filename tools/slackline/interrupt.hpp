// Ends long simulations cleanly: on ctrl-C and after a limit of real time.
#pragma once

#include <functional>

namespace slackline {

/// True from the first SIGINT or SIGTERM on (a second one kills the process as usual), and after `seconds` of real time
/// from now; 0: without limit. Installs the signal handlers.
std::function<bool()> interruption(double seconds);

}  // namespace slackline
