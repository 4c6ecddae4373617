// A run as a picture: which rank sends and receives what when, coloured by stage, and how busy the ports are. After
// figures 5 and 6 of Chen et al., arXiv 2606.01680.
#pragma once

#include <string>

#include "scenario/run.hpp"

namespace slackline {

/// An SVG of at most a few megabytes, however many transfers there are: bars too small to see are merged, and beyond 64
/// ranks a row stands for several. Needs the recording's times; utilisation is only shown where loads were recorded.
std::string run_svg(const PlayedRun& run, const std::string& title);

}  // namespace slackline
