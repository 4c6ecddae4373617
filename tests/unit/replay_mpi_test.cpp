// The MPI processes of the nccl backend: this test starts itself under mpirun, where there is one.
#include "replay/mpi.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/error.hpp"

namespace slackline {
namespace {

bool under_mpirun() { return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr || std::getenv("PMI_SIZE") != nullptr; }

// Runs one test of this program in `processes` processes; its exit code, or -1 where that cannot be.
int mpirun(const std::string& test, int processes) {
  if (std::system("command -v mpirun > /dev/null 2>&1") != 0) return -1;
  // Open MPI refuses root and more processes than cores, unless told otherwise.
  const std::string command = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 timeout 60 mpirun -n " +
                              std::to_string(processes) + " '" + std::filesystem::read_symlink("/proc/self/exe").string() +
                              "' --gtest_also_run_disabled_tests --gtest_filter=" + test + " > /dev/null 2>&1";
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string why_not() {
  try {
    require_mpi();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 3);
    return error.what();
  }
  return std::system("command -v mpirun > /dev/null 2>&1") == 0 ? "" : "there is no mpirun";
}

TEST(ReplayMpi, ProcessesTellEachOtherWhatTheyHave) {
  if (const std::string reason = why_not(); !reason.empty()) GTEST_SKIP() << reason;
  EXPECT_EQ(mpirun("ReplayMpi.DISABLED_Exchange", 3), 0);
  EXPECT_NE(mpirun("ReplayMpi.DISABLED_Exchange", 2), 0) << "it wants three";
}

TEST(ReplayMpi, AProcessThatFailsEndsTheOthers) {
  if (const std::string reason = why_not(); !reason.empty()) GTEST_SKIP() << reason;
  EXPECT_EQ(mpirun("ReplayMpi.DISABLED_Failure", 3), 3);  // not 124, the time-out's
}

// Under mpirun only.
TEST(ReplayMpi, DISABLED_Exchange) {
  ASSERT_TRUE(under_mpirun());
  const MpiProcesses processes;
  ASSERT_EQ(processes.size(), 3);
  EXPECT_EQ(processes.maximum(1.5 * processes.rank()), 3.0);
  EXPECT_EQ(processes.sum(processes.rank() - 7), -18);
  EXPECT_EQ(processes.broadcast(processes.rank() == 0 ? "abc" : "xyz"), "abc");
  EXPECT_EQ(processes.gather(std::to_string(processes.rank())), "012");
  EXPECT_EQ(processes.local_rank(), processes.rank());
  processes.barrier();
}

// As in the program's main: what an exception leaves behind is ended by mpirun.
TEST(ReplayMpi, DISABLED_Failure) {
  ASSERT_TRUE(under_mpirun());
  try {
    const MpiProcesses processes;
    if (processes.rank() == 1) throw Error(ErrorKind::device, "on purpose");
    for (;;) processes.barrier();
  } catch (const Error& error) {
    std::_Exit(error.exit_code());
  }
}

}  // namespace
}  // namespace slackline
