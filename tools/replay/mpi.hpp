// The processes that mpirun started, by way of whatever MPI library is there when the program asks for it: the program is
// neither compiled nor linked against one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace slackline {

/// Throws Error{device} with one line where no MPI library can be loaded. Starts nothing.
void require_mpi();

/// Joins the processes on construction (MPI_Init); once in a program. Leaves them on destruction, when all others do (MPI_Finalize);
/// but not where an exception is under way, as the others would be waiting for this process elsewhere: a program that
/// exits without MPI_Finalize has mpirun end the others.
/// All functions but rank() and size() are called by all processes alike.
class MpiProcesses {
 public:
  /// Throws Error{device}.
  MpiProcesses();
  ~MpiProcesses();
  MpiProcesses(const MpiProcesses&) = delete;
  MpiProcesses& operator=(const MpiProcesses&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// What each process brings, by rank. All bring equally many bytes.
  std::string gather(const std::string& bytes) const;
  /// Returns when all have called it.
  void barrier() const { gather("."); }
  double maximum(double value) const;
  int64_t sum(int64_t value) const;
  /// The first process's.
  std::string broadcast(const std::string& bytes) const { return gather(bytes).substr(0, bytes.size()); }
  /// How many processes on this one's machine have lower ranks.
  int local_rank() const;

 private:
  int rank_ = 0, size_ = 1;
  int exceptions_;  // under way when this was made
};

}  // namespace slackline
