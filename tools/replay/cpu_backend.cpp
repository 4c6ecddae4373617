#include "cpu_backend.hpp"

#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <map>
#include <mutex>
#include <queue>
#include <thread>
#include <tuple>

#include "base/error.hpp"
#include "pattern.hpp"
#include "reduce.hpp"

namespace slackline {

namespace {

using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC, which futexes take too

static_assert(sizeof(std::atomic<uint32_t>) == 4 && std::atomic<uint32_t>::is_always_lock_free);

// Sleeps while `word` is `expected`, at most until `deadline`. May return early.
void futex_wait(std::atomic<uint32_t>& word, uint32_t expected, Clock::time_point deadline) {
  const int64_t ns = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline.time_since_epoch()).count();
  const timespec when{ns / 1'000'000'000, ns % 1'000'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, expected, &when, nullptr, FUTEX_BITSET_MATCH_ANY);
}
void futex_wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
}

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<std::byte, Free>;

Memory allocate(int64_t bytes) {
  if (bytes == 0) return {};
  constexpr size_t alignment = 4096;
  const size_t rounded = (static_cast<size_t>(bytes) + alignment - 1) / alignment * alignment;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(alignment, rounded));
  if (memory == nullptr) throw std::bad_alloc();
  return Memory(memory);
}

template <class Value>
void write_inputs(void* to, Pattern pattern, uint32_t rank, int64_t first, int64_t count) {
  auto* values = static_cast<Value*>(to);
  for (int64_t i = 0; i < count; ++i) values[i] = static_cast<Value>(pattern.input(rank, first + i));
}
template <class Value>
void write_expected(void* to, Pattern pattern, int from, int64_t first, int64_t count) {
  auto* values = static_cast<Value*>(to);
  if (from != Content::all_ranks) return write_inputs<Value>(to, pattern, static_cast<uint32_t>(from), first, count);
  for (int64_t i = 0; i < count; ++i) values[i] = static_cast<Value>(pattern.reduced(first + i));
}

constexpr auto poison = std::byte{0xff};  // NaN as a float, -1 as an integer

// The steps that wait for each step.
struct Successors {
  std::vector<uint64_t> begin;
  std::vector<uint32_t> steps;
  std::span<const uint32_t> of(uint32_t step) const { return {steps.data() + begin[step], steps.data() + begin[step + 1]}; }
};

// Turns "step waits for" into "waited for by".
template <class ForEachWait>
Successors invert(size_t steps, const ForEachWait& for_each_wait) {
  Successors result;
  result.begin.assign(steps + 1, 0);
  for_each_wait([&](uint32_t, uint32_t earlier) { ++result.begin[earlier + 1]; });
  for (size_t s = 0; s < steps; ++s) result.begin[s + 1] += result.begin[s];
  result.steps.resize(result.begin[steps]);
  std::vector<uint64_t> next(result.begin.begin(), result.begin.end() - 1);
  for_each_wait([&](uint32_t step, uint32_t earlier) { result.steps[next[earlier]++] = step; });
  return result;
}

struct Cancelled {};  // thrown in a rank's thread when the run has been called off

// Everything that rank threads touch. Shared with them, since a thread that hangs outlives the backend.
class CpuEngine : public std::enable_shared_from_this<CpuEngine> {
 public:
  CpuEngine(const ReplayJob& job, const CpuOptions& options);

  double run(uint32_t seed);
  int64_t wrong();
  std::vector<StepTimes> times() const;
  std::vector<std::string> notes() const;

 private:
  class Worker;
  // Ready steps that other ranks deliver: a list headed by a step, or one of these.
  static constexpr uint32_t empty = UINT32_MAX, asleep = UINT32_MAX - 1;
  static constexpr uint32_t done = UINT32_MAX;  // of Engine::missing_

  struct alignas(64) Rank {
    std::atomic<uint32_t> inbox{empty};
    std::atomic<uint64_t> progress{0};  // grows with everything that the rank gets done
    Memory buffers[4];
    std::vector<uint32_t> initially_ready;
    size_t steps = 0;
    int64_t end_ns = 0;
    int64_t latest_wake_ps = 0;  // how late a timer was seen, at worst
    int64_t credit_exhausted = 0;
    bool finished = false;

    void made_progress() {  // called by the rank's thread only
      progress.store(progress.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
  };

  std::byte* memory(uint32_t rank, Buffer buffer) { return ranks_[rank].buffers[static_cast<size_t>(buffer)].get(); }
  int64_t now_ps() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_).count() * 1000;
  }
  void fill(uint32_t rank);
  void wait_for_start();
  void rank_main(uint32_t rank);
  void fail(const std::string& message);
  void stop();
  std::string who_is_waited_for() const;

  const std::shared_ptr<const Plan> plan_;
  const ElementType element_;
  const CpuOptions options_;
  const bool shaped_;
  std::optional<Pacer> pacer_;
  Pattern pattern_;
  std::vector<Rank> ranks_;
  Successors order_successors_, data_successors_;
  std::vector<uint32_t> waits_;  // by step: how many steps it waits for
  std::unique_ptr<std::atomic<uint32_t>[]> missing_;   // by step: how many of those have not ended, or `done`
  std::unique_ptr<std::atomic<int64_t>[]> ready_at_;   // by step, when shaped: when the last of those was due
  std::vector<uint32_t> next_;                         // by step: the one behind it in an inbox
  std::vector<StepTimes> times_;                       // by step

  std::atomic<uint32_t> arrived_{0};  // ranks at the start line
  std::atomic<uint32_t> running_{0};  // ranks whose threads have not ended
  std::atomic<bool> stop_{false};
  Clock::time_point start_;
  bool abandoned_ = false;  // a thread hangs and may still write to the buffers
  std::mutex failure_mutex_;
  std::string failure_;  // the first
};

CpuEngine::CpuEngine(const ReplayJob& job, const CpuOptions& options)
    : plan_(job.plan),
      element_(job.element),
      options_(options),
      shaped_(options.shape.has_value()),
      pattern_(job.element, Reduction::sum, true, 1, 0),
      ranks_(static_cast<size_t>(job.plan->ranks())) {
  if (shaped_) pacer_.emplace(*options.shape, *plan_);
  const std::vector<Step>& steps = plan_->steps();
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank)
    for (size_t b = 0; b < 4; ++b)
      ranks_[rank].buffers[b] = allocate(plan_->buffer_bytes(static_cast<int>(rank), static_cast<Buffer>(b)));

  order_successors_ = invert(steps.size(), [&](const auto& visit) {
    for (uint32_t s = 0; s < steps.size(); ++s)
      for (const uint32_t earlier : steps[s].order)
        if (earlier != Step::none) visit(s, earlier);
  });
  data_successors_ = invert(steps.size(), [&](const auto& visit) {
    for (uint32_t s = 0; s < steps.size(); ++s)
      for (const uint32_t earlier : plan_->after(s)) visit(s, earlier);
  });
  waits_.assign(steps.size(), 0);
  for (const uint32_t step : order_successors_.steps) ++waits_[step];
  for (const uint32_t step : data_successors_.steps) ++waits_[step];
  for (uint32_t s = 0; s < steps.size(); ++s) {
    Rank& rank = ranks_[steps[s].rank];
    ++rank.steps;
    if (waits_[s] == 0) rank.initially_ready.push_back(s);
  }
  missing_ = std::make_unique<std::atomic<uint32_t>[]>(steps.size());
  if (shaped_) ready_at_ = std::make_unique<std::atomic<int64_t>[]>(steps.size());
  next_.resize(steps.size());
  if (options_.record_times) times_.resize(steps.size());
}

// Executes one rank's steps.
class CpuEngine::Worker {
 public:
  Worker(CpuEngine& engine, uint32_t number) : engine_(engine), number_(number), rank_(engine.ranks_[number]) {}

  void loop() {
    for (const uint32_t step : rank_.initially_ready) ready_.push(step);
    while (ended_ < rank_.steps) {
      if (engine_.stop_.load()) throw Cancelled();
      take_deliveries();
      run_timers();
      if (!ready_.empty()) {
        const uint32_t step = ready_.top();
        ready_.pop();
        execute(step);
      } else if (ended_ < rank_.steps) {
        sleep();
      }
    }
  }

 private:
  // A transfer that is under way on shaped ports.
  struct Flow {
    uint32_t step = 0;
    const Pacer::Path* path = nullptr;
    int64_t time = 0;      // when its next stage is due
    size_t link = 0;       // the next to take; links.size(): the quantum has passed all
    int64_t quantum = 0;   // bytes
    int64_t left = 0;      // bytes not yet moved, the quantum included
    int64_t overhead = 0;  // o, until it is paid
    size_t piece = 0;      // where the next byte is
    int64_t offset = 0;
  };
  // At `time`: continue flow `index`, or say that the data of step `index` have arrived.
  struct Timer {
    int64_t time;
    uint64_t sequence;
    bool arrival;
    uint32_t index;
    bool operator>(const Timer& other) const {
      return std::tie(time, sequence) > std::tie(other.time, other.sequence);
    }
  };

  const Step& step_of(uint32_t step) const { return engine_.plan_->steps()[step]; }

  void take_deliveries() {
    if (rank_.inbox.load(std::memory_order_relaxed) == empty) return;
    uint32_t step = rank_.inbox.exchange(empty, std::memory_order_acquire);
    for (; step != empty && step != asleep; step = engine_.next_[step]) ready_.push(step);
  }

  void sleep() {
    uint32_t expected = empty;
    if (!rank_.inbox.compare_exchange_strong(expected, asleep)) return;
    // stop() sets stop_ before it looks for sleepers.
    if (!engine_.stop_.load()) {
      Clock::time_point wake = Clock::now() + std::chrono::seconds(1);
      if (!timers_.empty()) {
        wake = std::min(wake, engine_.start_ + std::chrono::nanoseconds((timers_.top().time + 999) / 1000));
        made_progress();  // waiting for a slow port is no standstill
      }
      futex_wait(rank_.inbox, asleep, wake);
    }
    expected = asleep;
    rank_.inbox.compare_exchange_strong(expected, empty);
  }

  void deliver(uint32_t step) {
    const uint32_t owner = step_of(step).rank;
    if (owner == number_) return ready_.push(step);
    std::atomic<uint32_t>& inbox = engine_.ranks_[owner].inbox;
    uint32_t head = inbox.load(std::memory_order_relaxed);
    do {
      engine_.next_[step] = head == asleep ? empty : head;
    } while (!inbox.compare_exchange_weak(head, step, std::memory_order_acq_rel, std::memory_order_relaxed));
    if (head == asleep) futex_wake_all(inbox);
  }

  // Tells the steps that wait that one of those they wait for was due at `time`.
  void signal(std::span<const uint32_t> waiting, int64_t time) {
    for (const uint32_t step : waiting) {
      if (engine_.shaped_) {
        std::atomic<int64_t>& ready_at = engine_.ready_at_[step];
        int64_t known = ready_at.load(std::memory_order_relaxed);
        while (known < time && !ready_at.compare_exchange_weak(known, time, std::memory_order_relaxed)) {
        }
      }
      if (engine_.missing_[step].fetch_sub(1, std::memory_order_acq_rel) == 1) deliver(step);
    }
  }

  void end(uint32_t step) {
    engine_.missing_[step].store(done, std::memory_order_relaxed);
    ++ended_;
    made_progress();
  }
  void made_progress() { rank_.made_progress(); }

  void execute(uint32_t step) {
    if (engine_.options_.before_step) engine_.options_.before_step(number_, step);
    const int64_t ready = engine_.shaped_ ? engine_.ready_at_[step].load(std::memory_order_relaxed) : 0;
    if (step_of(step).kind == StepKind::send) {
      signal(engine_.order_successors_.of(step), ready);
      return end(step);
    }
    if (engine_.options_.record_times) engine_.times_[step] = {step, engine_.now_ps() / 1000, 0, 0};
    const bool paced = engine_.shaped_ && step_of(step).rank != step_of(step).peer && engine_.plan_->bytes(step) > 0;
    if (paced) return start_flow(step, ready);
    size_t piece = 0;
    int64_t offset = 0;
    move(step, piece, offset, INT64_MAX);
    moved(step, ready, 0);
  }

  // Moves the next `bytes` bytes of a step, fewer if fewer are left.
  void move(uint32_t step, size_t& piece, int64_t& offset, int64_t bytes) {
    const Step& what = step_of(step);
    const std::byte* source = engine_.memory(what.source_rank(), what.source);
    std::byte* destination = engine_.memory(what.rank, what.destination);
    for (const std::span<const Piece> pieces = engine_.plan_->pieces(step); piece < pieces.size() && bytes > 0;) {
      const Piece& part = pieces[piece];
      const int64_t now = std::min(bytes, part.bytes - offset);
      const std::byte* from = source + part.source + offset;
      std::byte* to = destination + part.destination + offset;
      if (what.reduces())
        reduce_into(to, from, static_cast<size_t>(now), engine_.element_, engine_.pattern_.reduction());
      else
        std::memcpy(to, from, static_cast<size_t>(now));
      bytes -= now;
      offset += now;
      if (offset == part.bytes) {
        ++piece;
        offset = 0;
      }
    }
  }

  // All bytes are there; the ports were free at `time`, and the data are taken to arrive `latency` later.
  void moved(uint32_t step, int64_t time, int64_t latency) {
    if (engine_.options_.record_times) engine_.times_[step].end_ns = engine_.now_ps() / 1000;
    signal(engine_.order_successors_.of(step), time);
    // What a rank receives on a channel arrives in order, whatever way it comes.
    const uint16_t channel = step_of(step).channel;
    if (channel >= arrived_.size()) arrived_.resize(size_t{channel} + 1, 0);
    const int64_t arrival = arrived_[channel] = std::max(arrived_[channel], time + latency);
    if (engine_.options_.record_times) engine_.times_[step].due_ns = arrival / 1000;
    if (!engine_.shaped_ || arrival <= engine_.now_ps()) return arrived(step, arrival);
    timers_.push({arrival, sequence_++, true, step});
  }
  void arrived(uint32_t step, int64_t time) {
    signal(engine_.data_successors_.of(step), time);
    end(step);
  }

  // No earlier than the bucket's depth ago.
  int64_t within_credit(int64_t time) {
    const int64_t oldest = engine_.now_ps() - engine_.options_.shape->burst.count();
    if (time >= oldest) return time;
    ++rank_.credit_exhausted;
    return oldest;
  }

  void start_flow(uint32_t step, int64_t ready) {
    uint32_t index = 0;
    if (unused_flows_.empty()) {
      index = static_cast<uint32_t>(flows_.size());
      flows_.emplace_back();
    } else {
      index = unused_flows_.back();
      unused_flows_.pop_back();
    }
    Flow& flow = flows_[index] = Flow();
    flow.step = step;
    flow.path = &engine_.pacer_->path(step_of(step).peer, number_);
    flow.left = engine_.plan_->bytes(step);
    flow.quantum = engine_.pacer_->sharing() == Sharing::fair ? std::min(flow.left, flow.path->quantum) : flow.left;
    flow.overhead = flow.path->overhead_ps;
    flow.time = ready;
    advance(index);
  }

  // Continues a flow as far as it can get by now.
  void advance(uint32_t index) {
    Flow& flow = flows_[index];
    const Pacer::Path& path = *flow.path;
    while (flow.time <= engine_.now_ps()) {
      if (flow.link < path.links.size()) {
        const int64_t earliest = within_credit(flow.time);
        if (engine_.pacer_->sharing() == Sharing::fair) {
          flow.time = engine_.pacer_->take(path.links[flow.link], earliest, flow.quantum, flow.overhead);
          ++flow.link;
        } else {
          flow.time = engine_.pacer_->take_all(path, earliest, flow.quantum);
          flow.link = path.links.size();
        }
        if (flow.link == path.links.size()) {
          flow.time += flow.overhead + std::llround(path.byte_ps * static_cast<double>(flow.quantum));
          flow.overhead = 0;
        }
        continue;
      }
      move(flow.step, flow.piece, flow.offset, flow.quantum);
      made_progress();
      flow.left -= flow.quantum;
      if (flow.left == 0) {
        unused_flows_.push_back(index);
        return moved(flow.step, flow.time, path.latency_ps);
      }
      flow.quantum = std::min(flow.left, path.quantum);
      flow.link = 0;
    }
    timers_.push({flow.time, sequence_++, false, index});
  }

  void run_timers() {
    while (!timers_.empty()) {
      const Timer timer = timers_.top();
      const int64_t now = engine_.now_ps();
      if (timer.time > now) return;
      rank_.latest_wake_ps = std::max(rank_.latest_wake_ps, now - timer.time);
      timers_.pop();
      if (timer.arrival)
        arrived(timer.index, timer.time);
      else
        advance(timer.index);
    }
  }

  CpuEngine& engine_;
  const uint32_t number_;
  Rank& rank_;
  size_t ended_ = 0;
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready_;
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  uint64_t sequence_ = 0;
  std::vector<Flow> flows_;
  std::vector<uint32_t> unused_flows_;
  std::vector<int64_t> arrived_;  // by channel
};

void CpuEngine::fill(uint32_t rank) {
  // In blocks, since all of it may take longer than the time-out.
  const auto in_blocks = [&](int64_t bytes, const auto& write) {
    constexpr int64_t block = 1 << 20;
    for (int64_t begin = 0; begin < bytes; begin += block) {
      if (stop_.load()) throw Cancelled();
      write(begin, std::min(block, bytes - begin));
      ranks_[rank].made_progress();
    }
  };
  for (size_t b = 0; b < 4; ++b) {
    std::byte* buffer = memory(rank, static_cast<Buffer>(b));
    in_blocks(plan_->buffer_bytes(static_cast<int>(rank), static_cast<Buffer>(b)),
              [&](int64_t begin, int64_t bytes) { std::fill_n(buffer + begin, bytes, poison); });
  }
  const int64_t width = element_bytes(element_);
  const auto write = width == 2 ? write_inputs<uint16_t> : write_inputs<uint32_t>;
  for (const Content& content : contents_before(plan_->layout(), static_cast<int>(rank))) {
    std::byte* to = memory(rank, content.buffer) + content.offset;
    in_blocks(content.bytes, [&](int64_t begin, int64_t bytes) {
      write(to + begin, pattern_, static_cast<uint32_t>(content.from), (content.message_offset + begin) / width,
            bytes / width);
    });
  }
}

// Returns in all ranks once the last has come; that one starts the clock.
void CpuEngine::wait_for_start() {
  const auto count = static_cast<uint32_t>(ranks_.size());
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == count) {
    start_ = Clock::now();
    arrived_.store(count + 1, std::memory_order_release);
    futex_wake_all(arrived_);
    return;
  }
  for (uint32_t seen = arrived_.load(std::memory_order_acquire); seen != count + 1;
       seen = arrived_.load(std::memory_order_acquire)) {
    if (stop_.load()) throw Cancelled();
    futex_wait(arrived_, seen, Clock::now() + std::chrono::milliseconds(100));
  }
}

void CpuEngine::rank_main(uint32_t rank) {
  // Also runs when the thread is made to exit in other ways than by returning.
  struct AtEnd {
    CpuEngine& engine;
    uint32_t rank;
    ~AtEnd() {
      if (!engine.ranks_[rank].finished) engine.fail("rank " + std::to_string(rank) + " stopped before its program ended");
      engine.running_.fetch_sub(1, std::memory_order_acq_rel);
      futex_wake_all(engine.running_);
    }
  } at_end{*this, rank};
  try {
    if (shaped_) prctl(PR_SET_TIMERSLACK, 1UL);  // the default lets the kernel wake us 50 us late
    fill(rank);
    wait_for_start();
    Worker(*this, rank).loop();
    ranks_[rank].end_ns = now_ps() / 1000;
    ranks_[rank].finished = true;
  } catch (const Cancelled&) {
    ranks_[rank].finished = true;  // somebody else failed
  } catch (const std::exception& error) {
    fail("rank " + std::to_string(rank) + " failed: " + error.what());
  }
}

void CpuEngine::fail(const std::string& message) {
  {
    const std::lock_guard lock(failure_mutex_);
    if (failure_.empty()) failure_ = message;
  }
  stop();
}

void CpuEngine::stop() {
  stop_.store(true);
  for (Rank& rank : ranks_) {
    uint32_t expected = asleep;
    if (rank.inbox.compare_exchange_strong(expected, empty)) futex_wake_all(rank.inbox);
  }
}

// The list is a valid order of execution, so that nothing holds up the first step that has not ended but its rank.
std::string CpuEngine::who_is_waited_for() const {
  const std::vector<Step>& steps = plan_->steps();
  for (uint32_t s = 0; s < steps.size(); ++s) {
    if (missing_[s].load(std::memory_order_relaxed) == done) continue;
    const Step& step = steps[s];
    const std::string transfer = "transfer " + std::to_string(step.transfer) + " on channel " + std::to_string(step.channel);
    if (step.kind == StepKind::send)
      return "rank " + std::to_string(step.rank) + " does not send " + transfer + " to rank " + std::to_string(step.peer);
    return "rank " + std::to_string(step.rank) + " does not complete " + transfer + " from rank " + std::to_string(step.peer);
  }
  return "all transfers are complete";
}

double CpuEngine::run(uint32_t seed) {
  if (abandoned_) throw Error(ErrorKind::device, "a rank of an earlier run still hangs");
  const Collective& collective = plan_->layout().collective();
  pattern_ = Pattern(element_, collective.reduction, reduces(collective.type), collective.ranks, seed);
  for (size_t s = 0; s < waits_.size(); ++s) {
    missing_[s].store(waits_[s], std::memory_order_relaxed);
    if (shaped_) ready_at_[s].store(0, std::memory_order_relaxed);
  }
  if (shaped_) pacer_->reset();
  arrived_.store(0);
  running_.store(static_cast<uint32_t>(ranks_.size()));
  for (Rank& rank : ranks_) {
    rank.inbox.store(empty);
    rank.finished = false;
    rank.end_ns = rank.latest_wake_ps = rank.credit_exhausted = 0;
  }

  std::vector<std::thread> threads;
  try {
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank)
      threads.emplace_back([self = shared_from_this(), rank] { self->rank_main(rank); });
  } catch (const std::system_error& error) {
    running_.fetch_sub(static_cast<uint32_t>(ranks_.size() - threads.size()));
    fail("no thread for rank " + std::to_string(threads.size()) + ": " + error.what());
  }

  uint64_t last_progress = 0;
  Clock::time_point last_change = Clock::now(), grace_ends = Clock::time_point::max();
  for (uint32_t running = running_.load(std::memory_order_acquire); running > 0;
       running = running_.load(std::memory_order_acquire)) {
    futex_wait(running_, running, Clock::now() + std::chrono::milliseconds(50));
    const Clock::time_point now = Clock::now();
    uint64_t progress = arrived_.load(std::memory_order_relaxed);
    for (const Rank& rank : ranks_) progress += rank.progress.load(std::memory_order_relaxed);
    if (progress != last_progress) last_change = now;
    last_progress = progress;
    if (!stop_.load() && now - last_change > options_.timeout)
      fail("no progress for " + std::to_string(options_.timeout.count()) + " ms: " + who_is_waited_for());
    if (stop_.load() && grace_ends == Clock::time_point::max()) grace_ends = now + std::chrono::seconds(2);
    if (now > grace_ends) {
      abandoned_ = true;
      break;
    }
  }
  for (std::thread& thread : threads) {
    if (abandoned_)
      thread.detach();
    else
      thread.join();
  }
  if (stop_.load()) {
    const std::lock_guard lock(failure_mutex_);
    const std::string message = failure_;
    failure_.clear();
    stop_.store(false);
    throw Error(ErrorKind::device, message);
  }
  int64_t end = 0;
  for (const Rank& rank : ranks_) end = std::max(end, rank.end_ns);
  return static_cast<double>(end) / 1e9;
}

int64_t CpuEngine::wrong() {
  if (abandoned_) throw Error(ErrorKind::device, "a rank of an earlier run still hangs");
  // What several ranks must have alike is computed once.
  struct Copy {
    uint32_t rank;
    Buffer buffer;
    int64_t offset;
  };
  std::map<std::tuple<int, int64_t, int64_t>, std::vector<Copy>> groups;  // by origin, place in the message, bytes
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank)
    for (const Content& content : contents_after(plan_->layout(), static_cast<int>(rank)))
      if (content.bytes > 0)
        groups[{content.from, content.message_offset, content.bytes}].push_back({rank, content.buffer, content.offset});

  constexpr int64_t block = 1 << 16;  // bytes
  struct Task {
    int from;
    int64_t message_offset, begin, bytes;
    const std::vector<Copy>* copies;
  };
  std::vector<Task> tasks;
  for (const auto& [key, copies] : groups) {
    const auto& [from, message_offset, bytes] = key;
    for (int64_t begin = 0; begin < bytes; begin += block)
      tasks.push_back({from, message_offset + begin, begin, std::min(block, bytes - begin), &copies});
  }

  const int64_t width = element_bytes(element_);
  std::atomic<size_t> next{0};
  std::atomic<int64_t> wrong{0};
  const auto work = [&] {
    const Memory expected = allocate(block);
    const auto write = width == 2 ? write_expected<uint16_t> : write_expected<uint32_t>;
    for (size_t t = next.fetch_add(1); t < tasks.size(); t = next.fetch_add(1)) {
      const Task& task = tasks[t];
      write(expected.get(), pattern_, task.from, task.message_offset / width, task.bytes / width);
      for (const Copy& copy : *task.copies) {
        const std::byte* found = memory(copy.rank, copy.buffer) + copy.offset + task.begin;
        if (std::memcmp(found, expected.get(), static_cast<size_t>(task.bytes)) == 0) continue;
        int64_t differing = 0;
        for (int64_t i = 0; i < task.bytes; i += width)
          differing += std::memcmp(found + i, expected.get() + i, static_cast<size_t>(width)) != 0;
        wrong.fetch_add(differing);
      }
    }
  };
  const size_t helpers = std::min<size_t>(std::max(1u, std::thread::hardware_concurrency()), tasks.size());
  std::vector<std::jthread> threads;
  for (size_t i = 1; i < helpers; ++i) threads.emplace_back(work);
  work();
  threads.clear();
  return wrong.load();
}

std::vector<StepTimes> CpuEngine::times() const {
  std::vector<StepTimes> result;
  for (uint32_t s = 0; s < times_.size(); ++s)
    if (plan_->steps()[s].moves()) result.push_back(times_[s]);
  return result;
}

std::vector<std::string> CpuEngine::notes() const {
  std::vector<std::string> lines;
  lines.push_back(std::to_string(ranks_.size()) + " ranks, a thread each, on " +
                  std::to_string(std::max(1u, std::thread::hardware_concurrency())) + " cores");
  if (shaped_) {
    int64_t late = 0, exhausted = 0;
    for (const Rank& rank : ranks_) {
      late = std::max(late, rank.latest_wake_ps);
      exhausted += rank.credit_exhausted;
    }
    lines.push_back("last run: ranks woke up to " + std::to_string(late / 1'000'000) + " us late; " +
                    std::to_string(exhausted) + " times a port lost time to that");
  }
  return lines;
}

class CpuBackend : public ReplayBackend {
 public:
  CpuBackend(const ReplayJob& job, const CpuOptions& options) : engine_(std::make_shared<CpuEngine>(job, options)) {}
  std::vector<std::string> notes() const override { return engine_->notes(); }
  double run(uint32_t seed) override { return engine_->run(seed); }
  int64_t wrong() override { return engine_->wrong(); }
  std::vector<StepTimes> times() const override { return engine_->times(); }

 private:
  std::shared_ptr<CpuEngine> engine_;
};

}  // namespace

std::unique_ptr<ReplayBackend> make_cpu_backend(const ReplayJob& job, const CpuOptions& options) {
  return std::make_unique<CpuBackend>(job, options);
}

double measure_memcpy(unsigned threads, size_t bytes) {
  std::vector<Memory> sources, destinations;
  for (unsigned t = 0; t < threads; ++t) {
    sources.push_back(allocate(static_cast<int64_t>(bytes)));
    destinations.push_back(allocate(static_cast<int64_t>(bytes)));
    std::memset(sources.back().get(), 1, bytes);
    std::memset(destinations.back().get(), 2, bytes);
  }
  double best = 0;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const Clock::time_point begin = Clock::now();
    {
      std::vector<std::jthread> copiers;
      for (unsigned t = 0; t < threads; ++t)
        copiers.emplace_back([&, t] { std::memcpy(destinations[t].get(), sources[t].get(), bytes); });
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    best = std::max(best, static_cast<double>(bytes) * threads / seconds);
  }
  return best;
}

}  // namespace slackline
