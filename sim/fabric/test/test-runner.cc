// Runs ns-3 test suites that are linked in; ns-3's own runner is part of its tree, not of its packages.
#include <ns3/nstime.h>
#include <ns3/test.h>

int
main(int argc, char* argv[])
{
    ns3::Time::SetResolution(ns3::Time::PS);
    return ns3::TestRunner::Run(argc, argv);
}
