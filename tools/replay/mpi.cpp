#include "mpi.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>

#include "base/error.hpp"

namespace slackline {

namespace {

// MPI fixes names and arguments, not the handles' type: Open MPI's are the addresses of objects that it exports, those of MPICH and
// its kin (MVAPICH, Intel MPI; their common ABI, https://www.mpich.org/abi/) numbers, as in their mpi.h. Both are passed like pointers.
struct Library {
  using Handle = void*;
  Handle world = nullptr, byte = nullptr;
  int (*init)(int*, char***) = nullptr;
  int (*finalize)() = nullptr;
  int (*rank)(Handle, int*) = nullptr;
  int (*size)(Handle, int*) = nullptr;
  int (*allgather)(const void*, int, Handle, void*, int, Handle, Handle) = nullptr;
};

constexpr std::array<const char*, 4> file_names = {"libmpi.so.40", "libmpi.so.12", "libmpich.so.12", "libmpi.so"};

const Library& library() {
  static const Library loaded = [] {
    void* file = nullptr;
    // Global: Open MPI's plugins look for its symbols.
    for (const char* name : file_names)
      if (file == nullptr) file = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    if (file == nullptr)
      throw Error(ErrorKind::device, "the nccl backend needs an MPI library (Open MPI, or MPICH or one of its kin), and " +
                                         std::string(file_names[0]) + " and its like cannot be loaded");
    const auto find = [&](const char* symbol, auto& function) {
      void* address = dlsym(file, symbol);
      if (address == nullptr) throw Error(ErrorKind::device, "the MPI library has no " + std::string(symbol));
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
    };
    Library mpi;
    find("MPI_Init", mpi.init);
    find("MPI_Finalize", mpi.finalize);
    find("MPI_Comm_rank", mpi.rank);
    find("MPI_Comm_size", mpi.size);
    find("MPI_Allgather", mpi.allgather);
    if (dlsym(file, "ompi_mpi_comm_world") != nullptr) {
      find("ompi_mpi_comm_world", mpi.world);
      find("ompi_mpi_byte", mpi.byte);
    } else {
      mpi.world = reinterpret_cast<void*>(uintptr_t{0x44000000});
      mpi.byte = reinterpret_cast<void*>(uintptr_t{0x4c00010d});
    }
    return mpi;
  }();
  return loaded;
}

void check(int result, const char* what) {
  if (result != 0) throw Error(ErrorKind::device, std::string(what) + " failed with code " + std::to_string(result));
}

template <class Value>
std::string bytes_of(const Value& value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}
template <class Value>
std::vector<Value> values_of(const std::string& bytes) {
  std::vector<Value> values(bytes.size() / sizeof(Value));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace

void require_mpi() { library(); }

MpiProcesses::MpiProcesses() : exceptions_(std::uncaught_exceptions()) {
  const Library& mpi = library();
  check(mpi.init(nullptr, nullptr), "MPI_Init");
  check(mpi.rank(mpi.world, &rank_), "MPI_Comm_rank");
  check(mpi.size(mpi.world, &size_), "MPI_Comm_size");
}

MpiProcesses::~MpiProcesses() {
  if (std::uncaught_exceptions() == exceptions_) library().finalize();
}

std::string MpiProcesses::gather(const std::string& bytes) const {
  const Library& mpi = library();
  const auto count = static_cast<int>(bytes.size());
  std::string all(bytes.size() * static_cast<size_t>(size_), '\0');
  check(mpi.allgather(bytes.data(), count, mpi.byte, all.data(), count, mpi.byte, mpi.world), "MPI_Allgather");
  return all;
}

double MpiProcesses::maximum(double value) const {
  const auto values = values_of<double>(gather(bytes_of(value)));
  return *std::max_element(values.begin(), values.end());
}

int64_t MpiProcesses::sum(int64_t value) const {
  int64_t sum = 0;
  for (const int64_t each : values_of<int64_t>(gather(bytes_of(value)))) sum += each;
  return sum;
}

int MpiProcesses::local_rank() const {
  std::string name(256, '\0');
  gethostname(name.data(), name.size() - 1);
  const std::string all = gather(name);
  int lower = 0;
  for (int rank = 0; rank < rank_; ++rank) lower += all.compare(static_cast<size_t>(rank) * name.size(), name.size(), name) == 0;
  return lower;
}

}  // namespace slackline
