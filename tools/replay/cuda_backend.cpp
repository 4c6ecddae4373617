#include "replay/cuda_backend.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>

#include "replay/cuda_kernels.hpp"

namespace slackline {

namespace {

class CudaBackend : public ReplayBackend {
 public:
  CudaBackend(const ReplayJob& job, const CudaOptions& options);
  ~CudaBackend() override;

  std::vector<std::string> notes() const override { return notes_; }
  double run(uint32_t seed) override;
  int64_t wrong() override;
  std::vector<StepTimes> times() const override { return {}; }

 private:
  void use(int device) const { check(cudaSetDevice(device), "choosing a GPU"); }
  int device_of(uint32_t rank) const { return static_cast<int>(rank) % devices_; }
  std::byte* memory(uint32_t rank, Buffer buffer) const { return buffers_[rank][static_cast<size_t>(buffer)].get(); }
  void choose_devices(int ranks_per_gpu);
  void enable_peers();
  void measure(int device);
  void capture();
  void issue(uint32_t step, size_t program);
  void synchronize() const;

  const std::shared_ptr<const Plan> plan_;
  const ElementType element_;
  const Reduction reduction_;
  Pattern pattern_;
  int devices_ = 0;                            // GPUs 0..devices_-1 are used
  std::vector<std::vector<bool>> peers_;       // by device: whose memory its kernels may read
  std::vector<std::vector<DeviceMemory>> buffers_;  // by rank and buffer
  std::vector<DeviceMemory> counters_;         // by device: wrong elements
  std::vector<CudaStream> origins_;                // by device, for filling and checking; the first starts the graph
  std::vector<CudaStream> streams_;                // by program
  std::vector<DeviceMemory> staging_;          // by program, where a reduction cannot read its source directly
  std::vector<Event> timers_;                  // start and stop
  cudaGraphExec_t graph_ = nullptr;
  std::vector<std::string> notes_;
};

CudaBackend::CudaBackend(const ReplayJob& job, const CudaOptions& options)
    : plan_(job.plan),
      element_(job.element),
      reduction_(job.plan->layout().collective().reduction),
      pattern_(job.element, Reduction::sum, true, 1, 0) {
  choose_devices(options.ranks_per_gpu);
  enable_peers();
  for (int device = 0; device < devices_; ++device) {
    use(device);
    counters_.emplace_back(static_cast<int64_t>(sizeof(unsigned long long)));
    origins_.emplace_back();
    measure(device);
  }
  for (uint32_t rank = 0; rank < static_cast<uint32_t>(plan_->ranks()); ++rank) {
    use(device_of(rank));
    auto& buffers = buffers_.emplace_back();
    for (int b = 0; b < 4; ++b) buffers.emplace_back(plan_->buffer_bytes(static_cast<int>(rank), static_cast<Buffer>(b)));
  }
  use(0);
  timers_.emplace_back(cudaEventDefault);
  timers_.emplace_back(cudaEventDefault);
  capture();
}

CudaBackend::~CudaBackend() {
  if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
}

void CudaBackend::choose_devices(int ranks_per_gpu) {
  int there = 0;
  check(cudaGetDeviceCount(&there), "counting GPUs");
  const int ranks = plan_->ranks();
  devices_ = std::min(there, ranks);
  if (ranks_per_gpu > 0) {
    devices_ = (ranks + ranks_per_gpu - 1) / ranks_per_gpu;
    if (devices_ > there)
      throw Error(ErrorKind::device, std::to_string(ranks) + " ranks, at most " + std::to_string(ranks_per_gpu) +
                                         " to a GPU, need " + std::to_string(devices_) + " GPUs, and there are " +
                                         std::to_string(there));
  }
}

void CudaBackend::enable_peers() {
  peers_.assign(static_cast<size_t>(devices_), std::vector<bool>(static_cast<size_t>(devices_), false));
  for (int device = 0; device < devices_; ++device) {
    use(device);
    for (int other = 0; other < devices_; ++other) {
      int can = other == device;
      if (other != device) {
        check(cudaDeviceCanAccessPeer(&can, device, other), "asking for peer access");
        if (can) {
          const cudaError_t result = cudaDeviceEnablePeerAccess(other, 0);
          if (result != cudaErrorPeerAccessAlreadyEnabled) check(result, "enabling peer access");
          cudaGetLastError();
        }
      }
      peers_[static_cast<size_t>(device)][static_cast<size_t>(other)] = can != 0;
    }
  }
}

// How fast the device copies, and how fast the reduction kernel is beside that.
void CudaBackend::measure(int device) {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, device), "asking for the GPU's properties");
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "asking for free memory");
  const int64_t bytes = std::min<int64_t>(int64_t{256} << 20, static_cast<int64_t>(free / 8) / 256 * 256);
  const DeviceMemory a(bytes), b(bytes);
  const cudaStream_t stream = origins_.back().get();
  const Event start(cudaEventDefault), stop(cudaEventDefault);
  check(cudaMemsetAsync(a.get(), 0, static_cast<size_t>(bytes), stream), "clearing memory");
  check(cudaMemsetAsync(b.get(), 0, static_cast<size_t>(bytes), stream), "clearing memory");
  // Bytes per second of `times` runs after one that is not timed.
  const auto rate = [&](const auto& work) {
    constexpr int times = 10;
    work();
    check(cudaEventRecord(start.get(), stream), "timing");
    for (int i = 0; i < times; ++i) work();
    check(cudaEventRecord(stop.get(), stream), "timing");
    check(cudaEventSynchronize(stop.get()), "timing");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, start.get(), stop.get()), "timing");
    return static_cast<double>(bytes) * times / (static_cast<double>(milliseconds) * 1e-3);
  };
  const double copy = rate([&] {
    check(cudaMemcpyAsync(a.get(), b.get(), static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, stream), "copying");
  });
  const double reduce = rate([&] { launch_reduction(a.get(), b.get(), bytes, element_, reduction_, stream); });
  // A copy reads and writes each byte; a reduction reads two and writes one.
  char line[400];
  std::snprintf(line, sizeof line,
                "GPU %d, %s, sm_%d%d: copies %.1f GB/s; %s %s kernel %.1f GB/s, %.0f %% of the copy's memory traffic", device,
                properties.name, properties.major, properties.minor, copy * 1e-9,
                std::string(to_string(element_)).c_str(), std::string(to_string(reduction_)).c_str(), reduce * 1e-9,
                100 * (3 * reduce) / (2 * copy));
  notes_.emplace_back(line);
}

// Puts a step's work on its program's stream.
void CudaBackend::issue(uint32_t number, size_t program) {
  const Step& step = plan_->steps()[number];
  const uint32_t from_rank = step.source_rank();
  const int to_device = device_of(step.rank), from_device = device_of(from_rank);
  const cudaStream_t stream = streams_[program].get();
  for (const Piece& piece : plan_->pieces(number)) {
    std::byte* to = memory(step.rank, step.destination) + piece.destination;
    const std::byte* from = memory(from_rank, step.source) + piece.source;
    const auto bytes = static_cast<size_t>(piece.bytes);
    const auto fetch = [&](void* where) {
      // Addresses are unified: the runtime sees which GPUs these are on, and goes through the host if it must.
      check(cudaMemcpyAsync(where, from, bytes, cudaMemcpyDefault, stream), "capturing a copy");
    };
    if (!step.reduces()) {
      fetch(to);
    } else if (peers_[static_cast<size_t>(to_device)][static_cast<size_t>(from_device)]) {
      launch_reduction(to, from, piece.bytes, element_, reduction_, stream);
    } else {
      // The stream keeps the next user of the staging buffer waiting.
      fetch(staging_[program].get());
      launch_reduction(to, staging_[program].get(), piece.bytes, element_, reduction_, stream);
    }
  }
}

void CudaBackend::capture() {
  const std::vector<Step>& steps = plan_->steps();
  const std::vector<Plan::Program>& programs = plan_->programs();
  std::vector<uint32_t> program_of(steps.size());
  for (size_t p = 0; p < programs.size(); ++p) {
    use(device_of(programs[p].rank));
    streams_.emplace_back();
    int64_t staging = 0;
    for (const uint32_t s : programs[p].steps) {
      program_of[s] = static_cast<uint32_t>(p);
      const Step& step = steps[s];
      if (step.reduces() && !peers_[static_cast<size_t>(device_of(step.rank))][static_cast<size_t>(device_of(step.source_rank()))])
        for (const Piece& piece : plan_->pieces(s)) staging = std::max(staging, piece.bytes);
    }
    staging_.emplace_back(staging);
  }
  // A send does nothing: whoever waits for it waits for what it waits for.
  const auto for_each_wait = [&](uint32_t s, const auto& visit) {
    const auto direct = [&](uint32_t step) {
      for (const uint32_t earlier : steps[step].order)
        if (earlier != Step::none && steps[earlier].moves()) visit(earlier);
      for (const uint32_t earlier : plan_->after(step)) visit(earlier);
    };
    direct(s);
    if (steps[s].order[0] != Step::none && !steps[steps[s].order[0]].moves()) direct(steps[s].order[0]);
  };
  std::vector<bool> is_waited_for(steps.size(), false);
  for (uint32_t s = 0; s < steps.size(); ++s)
    if (steps[s].moves())
      for_each_wait(s, [&](uint32_t earlier) {
        if (program_of[earlier] != program_of[s]) is_waited_for[earlier] = true;
      });

  std::vector<Event> events;
  const auto record = [&](int device, cudaStream_t stream) {
    use(device);
    events.emplace_back(cudaEventDisableTiming);
    check(cudaEventRecord(events.back().get(), stream), "capturing an event");
    return events.back().get();
  };
  std::vector<cudaEvent_t> event_of(steps.size(), nullptr);
  // By program, and other program: the latest step of the other that this one is known to come after.
  std::vector<std::map<uint32_t, uint32_t>> known(programs.size());

  const cudaStream_t origin = origins_.front().get();
  use(0);
  check(cudaStreamBeginCapture(origin, cudaStreamCaptureModeRelaxed), "beginning the capture");
  cudaGraph_t graph = nullptr;
  try {
    const cudaEvent_t begin = record(0, origin);
    for (const CudaStream& stream : streams_) check(cudaStreamWaitEvent(stream.get(), begin, 0), "capturing the start");
    for (uint32_t s = 0; s < steps.size(); ++s) {
      if (!steps[s].moves()) continue;
      const uint32_t program = program_of[s];
      use(device_of(steps[s].rank));
      for_each_wait(s, [&](uint32_t earlier) {
        const uint32_t other = program_of[earlier];
        if (other == program) return;  // the stream keeps list order
        const auto [latest, is_new] = known[program].try_emplace(other, earlier);
        if (!is_new && latest->second >= earlier) return;
        latest->second = earlier;
        check(cudaStreamWaitEvent(streams_[program].get(), event_of[earlier], 0), "capturing a wait");
      });
      issue(s, program);
      if (is_waited_for[s]) event_of[s] = record(device_of(steps[s].rank), streams_[program].get());
    }
    for (size_t p = 0; p < programs.size(); ++p)
      check(cudaStreamWaitEvent(origin, record(device_of(programs[p].rank), streams_[p].get()), 0), "capturing the end");
  } catch (...) {
    cudaStreamEndCapture(origin, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
    throw;
  }
  use(0);
  check(cudaStreamEndCapture(origin, &graph), "ending the capture");
  const cudaError_t result = cudaGraphInstantiateWithFlags(&graph_, graph, 0);
  size_t nodes = 0;
  cudaGraphGetNodes(graph, nullptr, &nodes);
  cudaGraphDestroy(graph);
  check(result, "instantiating the graph");
  notes_.push_back(std::to_string(plan_->ranks()) + " ranks on " + std::to_string(devices_) + " GPUs, " +
                   std::to_string(streams_.size()) + " streams, a graph of " + std::to_string(nodes) + " nodes");
}

void CudaBackend::synchronize() const {
  for (int device = 0; device < devices_; ++device) {
    use(device);
    check(cudaDeviceSynchronize(), "waiting for the GPU");
  }
}

double CudaBackend::run(uint32_t seed) {
  const Collective& collective = plan_->layout().collective();
  pattern_ = Pattern(element_, collective.reduction, reduces(collective.type), collective.ranks, seed);
  const int64_t width = element_bytes(element_);
  for (uint32_t rank = 0; rank < static_cast<uint32_t>(plan_->ranks()); ++rank) {
    const int device = device_of(rank);
    use(device);
    const cudaStream_t stream = origins_[static_cast<size_t>(device)].get();
    for (int b = 0; b < 4; ++b) {
      const int64_t bytes = plan_->buffer_bytes(static_cast<int>(rank), static_cast<Buffer>(b));
      // The poison: NaN as a float, -1 as an integer.
      if (bytes > 0) check(cudaMemsetAsync(memory(rank, static_cast<Buffer>(b)), 0xff, static_cast<size_t>(bytes), stream), "poisoning");
    }
    for (const Content& content : contents_before(plan_->layout(), static_cast<int>(rank)))
      if (content.bytes > 0)
        launch_fill(memory(rank, content.buffer) + content.offset, pattern_, content.from, content.message_offset / width,
                    content.bytes, stream);
  }
  synchronize();
  use(0);
  const cudaStream_t origin = origins_.front().get();
  check(cudaEventRecord(timers_[0].get(), origin), "timing");
  check(cudaGraphLaunch(graph_, origin), "launching the graph");
  check(cudaEventRecord(timers_[1].get(), origin), "timing");
  check(cudaEventSynchronize(timers_[1].get()), "running the graph");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, timers_[0].get(), timers_[1].get()), "timing");
  return static_cast<double>(milliseconds) * 1e-3;
}

int64_t CudaBackend::wrong() {
  const int64_t width = element_bytes(element_);
  for (int device = 0; device < devices_; ++device) {
    use(device);
    check(cudaMemsetAsync(counters_[static_cast<size_t>(device)].get(), 0, sizeof(unsigned long long),
                          origins_[static_cast<size_t>(device)].get()), "clearing the counter");
  }
  for (uint32_t rank = 0; rank < static_cast<uint32_t>(plan_->ranks()); ++rank) {
    const int device = device_of(rank);
    use(device);
    const cudaStream_t stream = origins_[static_cast<size_t>(device)].get();
    auto* counter = reinterpret_cast<unsigned long long*>(counters_[static_cast<size_t>(device)].get());
    for (const Content& content : contents_after(plan_->layout(), static_cast<int>(rank)))
      if (content.bytes > 0)
        launch_check(memory(rank, content.buffer) + content.offset, pattern_, content.from, content.message_offset / width,
                     content.bytes, counter, stream);
  }
  synchronize();
  int64_t wrong = 0;
  for (int device = 0; device < devices_; ++device) {
    use(device);
    unsigned long long count = 0;
    check(cudaMemcpy(&count, counters_[static_cast<size_t>(device)].get(), sizeof count, cudaMemcpyDeviceToHost), "reading the counter");
    wrong += static_cast<int64_t>(count);
  }
  return wrong;
}

}  // namespace

void require_cuda_device() {
  int driver = 0, runtime = 0, devices = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
    throw Error(ErrorKind::device, "there is no NVIDIA driver on this machine, which GPUs need");
  cudaRuntimeGetVersion(&runtime);
  const cudaError_t result = cudaGetDeviceCount(&devices);
  cudaGetLastError();
  const auto version = [](int number) { return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10); };
  if (result == cudaErrorInsufficientDriver)
    throw Error(ErrorKind::device, "the NVIDIA driver supports CUDA " + version(driver) + ", and this program needs " + version(runtime));
  if (result != cudaSuccess || devices == 0)
    throw Error(ErrorKind::device, std::string("there is no NVIDIA GPU to use: ") +
                                       cudaGetErrorString(result == cudaSuccess ? cudaErrorNoDevice : result));
}

std::unique_ptr<ReplayBackend> make_cuda_backend(const ReplayJob& job, const CudaOptions& options) {
  require_cuda_device();
  return std::make_unique<CudaBackend>(job, options);
}

}  // namespace slackline
