#include "replay/nccl_backend.hpp"

#include <dlfcn.h>
#include <nccl.h>

#include <optional>
#include <string>
#include <thread>

#include "replay/cuda_backend.hpp"
#include "replay/cuda_kernels.hpp"
#include "replay/mpi.hpp"
#include "replay/rounds.hpp"

namespace slackline {

namespace {

// NCCL, loaded when it is asked for.
struct Library {
  decltype(&ncclGetVersion) get_version = nullptr;
  decltype(&ncclGetErrorString) error_string = nullptr;
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclCommInitRank) init_rank = nullptr;
  decltype(&ncclCommDestroy) destroy = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclCommGetAsyncError) async_error = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) receive = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
};

const Library& library() {
  static const Library loaded = [] {
    void* file = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (file == nullptr)
      throw Error(ErrorKind::device, std::string("the nccl backend needs NCCL: ") + dlerror());
    const auto find = [&](const char* symbol, auto& function) {
      void* address = dlsym(file, symbol);
      if (address == nullptr) throw Error(ErrorKind::device, std::string("libnccl.so.2 is too old: it has no ") + symbol);
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
    };
    Library nccl;
    find("ncclGetVersion", nccl.get_version);
    find("ncclGetErrorString", nccl.error_string);
    find("ncclGetUniqueId", nccl.get_unique_id);
    find("ncclCommInitRank", nccl.init_rank);
    find("ncclCommDestroy", nccl.destroy);
    find("ncclCommAbort", nccl.abort);
    find("ncclCommGetAsyncError", nccl.async_error);
    find("ncclGroupStart", nccl.group_start);
    find("ncclGroupEnd", nccl.group_end);
    find("ncclSend", nccl.send);
    find("ncclRecv", nccl.receive);
    find("ncclAllReduce", nccl.all_reduce);
    return nccl;
  }();
  return loaded;
}

void check_nccl(ncclResult_t result, const char* what) {
  if (result != ncclSuccess) throw Error(ErrorKind::device, std::string(what) + ": " + library().error_string(result));
}

ncclDataType_t data_type(ElementType type) {
  switch (type) {
    case ElementType::float16: return ncclFloat16;
    case ElementType::bfloat16: return ncclBfloat16;
    case ElementType::int32: return ncclInt32;
    default: return ncclFloat32;
  }
}

ncclRedOp_t operation(Reduction reduction) {
  switch (reduction) {
    case Reduction::prod: return ncclProd;
    case Reduction::min: return ncclMin;
    case Reduction::max: return ncclMax;
    default: return ncclSum;
  }
}

class Communicator {
 public:
  explicit Communicator(const MpiProcesses& processes) {
    ncclUniqueId id = {};
    if (processes.rank() == 0) check_nccl(library().get_unique_id(&id), "making a communicator's id");
    const std::string bytes = processes.broadcast(std::string(id.internal, sizeof id.internal));
    bytes.copy(id.internal, sizeof id.internal);
    check_nccl(library().init_rank(&comm_, processes.size(), id, processes.rank()), "making a communicator");
  }
  ~Communicator() {
    if (comm_ != nullptr) library().destroy(comm_);
  }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ncclComm_t get() const { return comm_; }
  /// Ends kernels that wait for other ranks.
  void abort() {
    library().abort(comm_);
    comm_ = nullptr;
  }

 private:
  ncclComm_t comm_ = nullptr;
};

class NcclBackend : public ReplayBackend {
 public:
  NcclBackend(const ReplayJob& job, const NcclOptions& options);

  bool reports() const override { return processes_.rank() == 0; }
  std::vector<std::string> notes() const override;
  double run(uint32_t seed) override {
    return timed(seed, [this] { issue_rounds(); });
  }
  int64_t wrong() override;
  std::vector<StepTimes> times() const override { return {}; }
  std::string_view reference() const override {
    return plan_->layout().collective().type == CollectiveType::allreduce ? "ncclAllReduce" : "";
  }
  double run_reference(uint32_t seed) override {
    return timed(seed, [this] { issue_all_reduce(); });
  }

 private:
  std::byte* memory(Buffer buffer) const { return buffers_[static_cast<size_t>(buffer)].get(); }
  template <class Issue>
  double timed(uint32_t seed, const Issue& issue);
  void prepare(uint32_t seed);
  void issue_rounds();
  void issue_all_reduce();
  void wait();

  // Destroyed from the last to the first: the communicator before the memory that it uses, MPI at the end.
  const std::shared_ptr<const Plan> plan_;
  const ElementType element_;
  const NcclOptions options_;
  const MpiProcesses processes_;
  Pattern pattern_;
  RankRounds rounds_;
  int device_ = 0;
  std::vector<DeviceMemory> buffers_;
  std::optional<DeviceMemory> staging_, counter_;
  std::optional<CudaStream> stream_;
  std::optional<Event> start_, stop_;
  std::optional<Communicator> communicator_;
};

NcclBackend::NcclBackend(const ReplayJob& job, const NcclOptions& options)
    : plan_(job.plan), element_(job.element), options_(options), pattern_(job.element, Reduction::sum, true, 1, 0) {
  const int ranks = plan_->ranks(), size = processes_.size();
  if (size != ranks)
    throw Error(ErrorKind::usage, "the schedule has " + std::to_string(ranks) + " ranks, and there " +
                                      (size == 1 ? "is 1 process" : "are " + std::to_string(size) + " processes") + "; start it with: mpirun -n " +
                                      std::to_string(ranks) + " slackline-replay ... --backend nccl");
  device_ = processes_.local_rank();
  int devices = 0;
  check(cudaGetDeviceCount(&devices), "counting GPUs");
  if (device_ >= devices)
    throw Error(ErrorKind::device, "process " + std::to_string(processes_.rank()) + " is number " + std::to_string(device_ + 1) +
                                       " on its machine, which has " + std::to_string(devices) + " GPUs; NCCL needs one for each rank");
  check(cudaSetDevice(device_), "choosing a GPU");
  rounds_ = rounds_of(*plan_, processes_.rank());
  for (int b = 0; b < 4; ++b) buffers_.emplace_back(plan_->buffer_bytes(processes_.rank(), static_cast<Buffer>(b)));
  staging_.emplace(rounds_.staging_bytes);
  counter_.emplace(static_cast<int64_t>(sizeof(unsigned long long)));
  stream_.emplace();
  start_.emplace(cudaEventDefault);
  stop_.emplace(cudaEventDefault);
  communicator_.emplace(processes_);
}

std::vector<std::string> NcclBackend::notes() const {
  int version = 0;
  library().get_version(&version);
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, device_), "asking for the GPU's properties");
  return {std::to_string(processes_.size()) + " processes with a GPU each (the first has " + properties.name + "), NCCL " +
          std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." + std::to_string(version % 100) + "; rank 0 takes part in " +
          std::to_string(rounds_.rounds.size()) + " groups"};
}

void NcclBackend::prepare(uint32_t seed) {
  const Collective& collective = plan_->layout().collective();
  pattern_ = Pattern(element_, collective.reduction, reduces(collective.type), collective.ranks, seed);
  for (int b = 0; b < 4; ++b) {
    const int64_t bytes = plan_->buffer_bytes(processes_.rank(), static_cast<Buffer>(b));
    // The poison: NaN as a float, -1 as an integer.
    if (bytes > 0)
      check(cudaMemsetAsync(memory(static_cast<Buffer>(b)), 0xff, static_cast<size_t>(bytes), stream_->get()), "poisoning");
  }
  for (const Content& content : contents_before(plan_->layout(), processes_.rank()))
    if (content.bytes > 0)
      launch_fill(memory(content.buffer) + content.offset, pattern_, content.from, content.message_offset / element_bytes(element_),
                  content.bytes, stream_->get());
  check(cudaStreamSynchronize(stream_->get()), "filling the buffers");
}

template <class Issue>
double NcclBackend::timed(uint32_t seed, const Issue& issue) {
  prepare(seed);
  processes_.barrier();
  check(cudaEventRecord(start_->get(), stream_->get()), "timing");
  issue();
  check(cudaEventRecord(stop_->get(), stream_->get()), "timing");
  wait();
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, start_->get(), stop_->get()), "timing");
  return processes_.maximum(static_cast<double>(milliseconds) * 1e-3);
}

// Elements are sent as bytes: what they are matters to the reductions only, which are ours.
void NcclBackend::issue_rounds() {
  const cudaStream_t stream = stream_->get();
  for (const Round& round : rounds_.rounds) {
    if (!round.messages.empty()) {
      check_nccl(library().group_start(), "beginning a group");
      for (const Message& message : round.messages) {
        std::byte* where = (message.staged ? staging_->get() : memory(message.buffer)) + message.offset;
        const auto bytes = static_cast<size_t>(message.bytes);
        const int peer = static_cast<int>(message.peer);
        if (message.send)
          check_nccl(library().send(where, bytes, ncclUint8, peer, communicator_->get(), stream), "sending");
        else
          check_nccl(library().receive(where, bytes, ncclUint8, peer, communicator_->get(), stream), "receiving");
      }
      check_nccl(library().group_end(), "ending a group");
    }
    for (const LocalWork& work : round.work) {
      std::byte* to = memory(work.destination) + work.piece.destination;
      const std::byte* from = (work.staged ? staging_->get() : memory(work.source)) + work.piece.source;
      if (work.reduce)
        launch_reduction(to, from, work.piece.bytes, element_, plan_->layout().collective().reduction, stream);
      else
        check(cudaMemcpyAsync(to, from, static_cast<size_t>(work.piece.bytes), cudaMemcpyDeviceToDevice, stream), "copying");
    }
  }
}

void NcclBackend::issue_all_reduce() {
  const Collective& collective = plan_->layout().collective();
  const auto count = static_cast<size_t>(plan_->layout().message().size() / element_bytes(element_));
  check_nccl(library().all_reduce(memory(source_buffer(collective)), memory(result_buffer(collective)), count, data_type(element_),
                             operation(collective.reduction), communicator_->get(), stream_->get()), "ncclAllReduce");
}

// Until the stream is idle, unless a rank fails or time is up.
void NcclBackend::wait() {
  const auto deadline = std::chrono::steady_clock::now() + options_.timeout;
  for (;;) {
    const cudaError_t state = cudaStreamQuery(stream_->get());
    if (state == cudaSuccess) return;
    std::string reason;
    ncclResult_t failure = ncclSuccess;
    if (state != cudaErrorNotReady)
      reason = cudaGetErrorString(state);
    else if (library().async_error(communicator_->get(), &failure) == ncclSuccess && failure != ncclSuccess)
      reason = library().error_string(failure);
    else if (std::chrono::steady_clock::now() > deadline)
      reason = "the run is not over after " + std::to_string(options_.timeout.count()) + " ms";
    if (!reason.empty()) {
      communicator_->abort();  // or freeing memory would wait for kernels that wait for other ranks
      throw Error(ErrorKind::device, "rank " + std::to_string(processes_.rank()) + " failed: " + reason);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));  // times come from the GPU's events
  }
}

int64_t NcclBackend::wrong() {
  auto* counter = reinterpret_cast<unsigned long long*>(counter_->get());
  check(cudaMemsetAsync(counter, 0, sizeof *counter, stream_->get()), "clearing the counter");
  for (const Content& content : contents_after(plan_->layout(), processes_.rank()))
    if (content.bytes > 0)
      launch_check(memory(content.buffer) + content.offset, pattern_, content.from, content.message_offset / element_bytes(element_),
                   content.bytes, counter, stream_->get());
  unsigned long long count = 0;
  check(cudaMemcpyAsync(&count, counter, sizeof count, cudaMemcpyDeviceToHost, stream_->get()), "reading the counter");
  check(cudaStreamSynchronize(stream_->get()), "checking");
  return processes_.sum(static_cast<int64_t>(count));
}

}  // namespace

void require_nccl() {
  require_cuda_device();
  library();
  require_mpi();
}

std::unique_ptr<ReplayBackend> make_nccl_backend(const ReplayJob& job, const NcclOptions& options) {
  require_nccl();
  return std::make_unique<NcclBackend>(job, options);
}

}  // namespace slackline
