// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/run/report.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <numbers>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

// A run that nobody runs: a discrete-event simulation of a pipeline, from what each stage takes for
// a slot or a batch, and its Report. Rings, their order, shares of a slot, copies of several slots,
// queues of a device and processors that threads share are as penstock has them.
namespace penstock::tests {

/// What a stage takes. Times are those of one slot, or of one call for a batch.
struct SimulatedStage {
  StageKind kind{};
  unsigned workers{1};
  std::size_t depth{48}; ///< Slots of the ring that it fills; batches, behind a copier or Kernel.
  unsigned parts{1};     ///< How many workers may share a slot.
  double cpu_s{};        ///< Seconds of a processor.
  double sleep_s{};      ///< Seconds in which it waits for something of its own.
  double store_rate{};   ///< Bytes a second that all its workers get from, or into, a disk; 0: any.
  double variation{};    ///< Standard deviation of the logarithm of its times.
  double later{1};       ///< By what its times are multiplied in the second half of the run.
  std::size_t batch{};   ///< Bytes of a batch, or slot, that a copier makes.
  double bus_factor{1};  ///< How much faster than the bus a copier is.
  double device_s{};     ///< Seconds of the device for a MiB.
  unsigned launches{1};  ///< A call's launches, each of
  double launch_s{3e-6}; ///< so many seconds.
  unsigned waits{};      ///< A call's waits for the device,
  double wait_s{10e-6};  ///< each of which costs so much by itself.
  double allocation_s{}; ///< Seconds of a call in allocations.
  double pageable_s{};   ///< Seconds of a call in copies of pageable memory.
  double around_s{2e-6}; ///< Seconds of penstock's own calls around a call.
};

/// A pipeline and its machine.
struct SimulatedPipeline {
  std::vector<SimulatedStage> stages;
  std::uint64_t slots{1000};
  std::size_t slot_bytes{1 << 20};
  std::size_t record_bytes{1024};
  unsigned processors{16};
  double bus_rate{50e9};
  double copy_s{10e-6}; ///< What a copy costs beside its bytes.
  bool observed{};
  std::uint64_t epochs{1};
  std::uint64_t device_memory{};
  std::uint64_t seed{1};
  double until{std::numeric_limits<double>::infinity()}; ///< When the Report is asked for.
};

class SimulatedRun {
  static constexpr double never = std::numeric_limits<double>::infinity();
  static constexpr double mib = 1 << 20;
  static constexpr std::uint64_t copy_bytes = 12 << 20;

  // A ring: items in order, by ticket.
  struct Ring {
    std::size_t depth{};
    std::size_t item{};
    std::uint64_t bytes{};
    std::uint64_t items{};
    std::vector<char> published;
    std::vector<char> released;
    std::vector<char> claimed;
    std::uint64_t ready{};   // all before are published
    std::uint64_t free_to{}; // all before are released
    std::uint64_t claims{};
    std::uint64_t takes{};
    double in_use{};
    std::uint64_t additions{};

    void open(std::size_t of, std::size_t each, std::uint64_t all) {
      depth = of;
      item = each;
      bytes = all;
      items = (all + each - 1) / each;
      published.assign(items, 0);
      released.assign(items, 0);
      claimed.assign(items, 0);
    }
    std::uint64_t size_of(std::uint64_t ticket) const {
      return std::min<std::uint64_t>(item, bytes - ticket * item);
    }
    bool has_room(std::uint64_t ticket) const { return ticket < depth || released[ticket - depth]; }
    void claim(std::uint64_t ticket) {
      claims += claimed[ticket] ? 0 : 1;
      claimed[ticket] = 1;
    }
    void publish(std::uint64_t ticket) {
      claim(ticket);
      in_use += static_cast<double>(std::max<std::uint64_t>(claims - std::min(takes, claims), 1));
      ++additions;
      published[ticket] = 1;
      while (ready != items && published[ready]) {
        ++ready;
      }
    }
    void release(std::uint64_t ticket) {
      released[ticket] = 1;
      while (free_to != items && released[free_to]) {
        ++free_to;
      }
    }
    std::uint64_t ready_bytes() const { return std::min<std::uint64_t>(ready * item, bytes); }
    std::uint64_t room_bytes() const { // from the beginning
      return std::min<std::uint64_t>((free_to + depth) * item, bytes);
    }
  };
  enum class State { starved, blocked, busy, resting };
  enum class Use { sleep, store, cpu, bus, device, launch, wait, allocation, pageable, around };
  struct Phase {
    Use use;
    double left;
  };
  struct Worker {
    std::size_t stage{};
    State state{State::starved};
    bool assigned{};
    bool enqueued{}; // the call's work
    bool around{};   // the call is over
    std::uint64_t ticket{};
    std::uint64_t amount{}; // bytes of a copy
    std::deque<Phase> phases;
    bool waits_for_device{};
    double began{};
    double times[3]{};
    double in_waits[3]{};
    std::uint64_t units{};
  };
  struct Op {
    std::size_t stage;
    std::uint64_t ticket;
    double left;
  };

 public:
  explicit SimulatedRun(const SimulatedPipeline& pipeline) : pipeline_{pipeline} {
    std::uint64_t bytes = pipeline_.slots * pipeline_.slot_bytes;
    std::size_t item = pipeline_.slot_bytes;
    const auto& stages = pipeline_.stages;
    rings_.resize(stages.size());
    next_.resize(stages.size());
    parts_left_.resize(stages.size());
    copied_.resize(stages.size());
    open_.resize(stages.size());
    unit_times_.resize(stages.size());
    cpu_.resize(stages.size());
    calling_.resize(stages.size());
    calls_.resize(stages.size());
    for (std::size_t i = 0; i != stages.size(); ++i) {
      const SimulatedStage& stage = stages[i];
      if (copies(i)) {
        item = stage.batch;
      }
      std::size_t depth = stage.depth;
      if (stage.kind == StageKind::copy_to_device) {
        depth = std::max(depth, std::min<std::size_t>((3 * copy_bytes + item - 1) / item, 4096));
      }
      if (i + 1 != stages.size()) {
        rings_[i].open(depth, item, bytes);
      }
      parts_left_[i].assign((bytes + item - 1) / item, stage.parts);
      for (unsigned w = 0; w != (copies(i) || enqueues(i) ? 1 : stage.workers); ++w) {
        workers_.push_back({});
        workers_.back().stage = i;
      }
    }
    run();
  }

  Report report() const {
    Report report;
    const auto& stages = pipeline_.stages;
    report.seconds = now_;
    report.processors = pipeline_.processors;
    report.device = pipeline_.observed ? "a GPU" : "host";
    report.observed = pipeline_.observed;
    report.epochs = pipeline_.epochs;
    report.device_memory = pipeline_.device_memory;
    report.waited_s = waited_;
    unsigned named[10]{};
    for (std::size_t i = 0; i != stages.size(); ++i) {
      StageReport stage;
      stage.kind = stages[i].kind;
      stage.name = name(stage.kind);
      if (const unsigned before = named[static_cast<std::size_t>(
              stage.kind == StageKind::copy_to_host ? StageKind::copy_to_device : stage.kind)]++) {
        stage.name += ' ' + std::to_string(before + 1);
      }
      for (const Worker& worker : workers_) {
        if (worker.stage != i) {
          continue;
        }
        ++stage.workers;
        stage.busy_s += worker.times[2];
        stage.starved_s += worker.times[0];
        stage.blocked_s += worker.times[1];
        stage.busy_in_waits_s += worker.in_waits[2];
        stage.starved_in_waits_s += worker.in_waits[0];
        stage.blocked_in_waits_s += worker.in_waits[1];
        stage.units += copies(i) ? 0 : worker.units;
        stage.workers_used += worker.units != 0 ? 1 : 0;
      }
      for (double* time :
           {&stage.busy_s, &stage.starved_s, &stage.blocked_s, &stage.busy_in_waits_s,
            &stage.starved_in_waits_s, &stage.blocked_in_waits_s}) {
        *time /= stage.workers;
      }
      if (i + 1 != stages.size()) {
        stage.bytes = rings_[i].ready_bytes();
        stage.depth = rings_[i].depth;
        stage.slot_bytes = rings_[i].item;
        stage.ring_bytes = stage.depth * stage.slot_bytes;
        stage.depth_in_use = rings_[i].additions != 0
                                 ? rings_[i].in_use / static_cast<double>(rings_[i].additions)
                                 : 0;
      } else {
        stage.bytes = std::min<std::uint64_t>(rings_[i - 1].free_to * rings_[i - 1].item,
                                              rings_[i - 1].bytes);
        stage.slot_bytes = rings_[i - 1].item;
      }
      stage.records = stage.bytes / pipeline_.record_bytes;
      stage.calling_s = calling_[i];
      stage.calls = calls_[i];
      stage.cpu_share = now_ > 0 ? cpu_[i] / now_ : 0;
      report.cpu_s += cpu_[i];
      std::vector<double> times = unit_times_[i];
      if (!times.empty() && !on_gpu(i)) {
        std::sort(times.begin(), times.end());
        stage.unit_p50_s = times[times.size() / 2];
        stage.unit_p99_s = times[times.size() * 99 / 100];
      }
      report.stages.push_back(stage);
    }
    report.records = report.stages.back().records;
    report.bytes = report.stages.back().bytes;
    report.records_in_all = pipeline_.slots * pipeline_.slot_bytes / pipeline_.record_bytes;
    report.storage_bytes = stages.front().store_rate > 0 ? report.stages.front().bytes : 0;
    if (pipeline_.observed) {
      GpuActivitySummary gpu;
      gpu.seconds = now_;
      gpu.kernel_s = device_busy_;
      gpu.busy_s = device_busy_;
      report.gpu = gpu;
    }
    return report;
  }
  /// Records a second.
  double rate() const {
    return static_cast<double>(pipeline_.slots * pipeline_.slot_bytes) /
           static_cast<double>(pipeline_.record_bytes) / now_;
  }

 private:
  bool copies(std::size_t i) const {
    return pipeline_.stages[i].kind == StageKind::copy_to_device ||
           pipeline_.stages[i].kind == StageKind::copy_to_host;
  }
  bool on_gpu(std::size_t i) const { return copies(i) || enqueues(i); }
  bool enqueues(std::size_t i) const {
    if (pipeline_.stages[i].kind == StageKind::kernel) {
      return true;
    }
    bool device = false;
    for (std::size_t before = 0; before != i; ++before) {
      device = pipeline_.stages[before].kind == StageKind::copy_to_device ||
               (device && pipeline_.stages[before].kind != StageKind::copy_to_host);
    }
    return device && i + 1 == pipeline_.stages.size();
  }
  static const char* name(StageKind kind) {
    switch (kind) {
    case StageKind::reader:
      return "Reader";
    case StageKind::decoder:
      return "Decoder";
    case StageKind::stager:
      return "PinnedStager";
    case StageKind::copy_to_device:
    case StageKind::copy_to_host:
      return "AsyncCopier";
    case StageKind::kernel:
      return "Kernel";
    case StageKind::consumer:
      return "Consumer";
    case StageKind::writer:
      return "Writer";
    case StageKind::loop:
      return "loop";
    case StageKind::fan_out:
      return "FanOut";
    case StageKind::tee:
      return "tee";
    case StageKind::other:
      break;
    }
    return "Stage";
  }
  /// The same for a ticket, however many workers there are.
  double factor(std::size_t stage, std::uint64_t ticket) const {
    const double variation = pipeline_.stages[stage].variation;
    const double later = 2 * ticket < parts_left_[stage].size() ? 1 : pipeline_.stages[stage].later;
    if (variation == 0) {
      return later;
    }
    std::uint64_t x = pipeline_.seed * 0x9e3779b97f4a7c15U + stage * 0xbf58476d1ce4e5b9U + ticket;
    const auto uniform = [&] {
      x += 0x9e3779b97f4a7c15U;
      std::uint64_t z = x;
      z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
      z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
      z ^= z >> 31U;
      return (static_cast<double>(z >> 11U) + 0.5) / 9007199254740992.0;
    };
    const double normal =
        std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform());
    return later * std::exp(variation * normal - variation * variation / 2);
  }

  void run() {
    for (;;) {
      for (bool any = true; any;) {
        any = false;
        for (std::size_t i = workers_.size(); i-- != 0;) {
          any = step(workers_[i]) || any;
        }
      }
      if (!advance()) {
        break;
      }
    }
    for (const Worker& worker : workers_) {
      if (worker.state != State::resting && pipeline_.until == never) {
        throw std::logic_error{"the simulation came to a halt"};
      }
    }
  }
  // Does what takes no time; returns whether there was anything.
  bool step(Worker& worker) {
    if (worker.state == State::resting || !worker.phases.empty() || worker.waits_for_device) {
      return false;
    }
    return copies(worker.stage)     ? step_copier(worker)
           : enqueues(worker.stage) ? step_enqueuer(worker)
                                    : step_host(worker);
  }
  void begin(Worker& worker) {
    worker.state = State::busy;
    worker.began = now_;
  }
  static void add(Worker& worker, Use use, double time) {
    if (time > 0) {
      worker.phases.push_back({use, time});
    }
  }

  bool step_host(Worker& worker) {
    const std::size_t i = worker.stage;
    const SimulatedStage& stage = pipeline_.stages[i];
    if (worker.state == State::busy) { // it is done
      unit_times_[i].push_back(now_ - worker.began);
      ++worker.units;
      worker.assigned = false;
      worker.state = State::starved;
      if (--parts_left_[i][worker.ticket] == 0) {
        if (i + 1 != pipeline_.stages.size()) {
          rings_[i].publish(worker.ticket);
        }
        if (i != 0) {
          rings_[i - 1].release(worker.ticket);
        }
      }
      return true;
    }
    if (!worker.assigned) {
      const std::uint64_t drawn = next_[i]++;
      worker.ticket = drawn / stage.parts;
      worker.assigned = true;
      if (worker.ticket >= parts_left_[i].size()) {
        worker.state = State::resting;
        return true;
      }
    }
    if (i != 0 && !rings_[i - 1].published[worker.ticket]) {
      worker.state = State::starved;
      return false;
    }
    if (i + 1 != pipeline_.stages.size()) {
      if (!rings_[i].has_room(worker.ticket)) {
        worker.state = State::blocked;
        return false;
      }
      rings_[i].claim(worker.ticket);
    }
    if (i != 0) {
      rings_[i - 1].takes = std::max(rings_[i - 1].takes, worker.ticket + 1);
    }
    const double times = factor(i, worker.ticket) / stage.parts;
    add(worker, Use::sleep, stage.sleep_s * times);
    if (stage.store_rate > 0) {
      const Ring& ring = rings_[i == 0 ? 0 : i - 1];
      add(worker, Use::store,
          static_cast<double>(ring.size_of(worker.ticket)) / stage.store_rate * times);
    }
    add(worker, Use::cpu, std::max(stage.cpu_s * times, 1e-9));
    begin(worker);
    return true;
  }

  bool step_copier(Worker& worker) {
    const std::size_t i = worker.stage;
    Ring& in = rings_[i - 1];
    Ring& out = rings_[i];
    if (worker.state == State::busy) {
      copied_[i] += worker.amount;
      ++worker.units;
      while (in.free_to != in.items && (in.free_to + 1) * in.item <= copied_[i]) {
        in.release(in.free_to);
      }
      if (copied_[i] == in.bytes && in.free_to != in.items) {
        in.release(in.free_to);
      }
      while (out.ready != out.items &&
             std::min<std::uint64_t>((out.ready + 1) * out.item, out.bytes) <= copied_[i]) {
        out.publish(out.ready);
      }
      worker.state = State::starved;
      return true;
    }
    if (copied_[i] == in.bytes) {
      worker.state = State::resting;
      return true;
    }
    if (in.ready_bytes() <= copied_[i]) {
      worker.state = State::starved;
      return false;
    }
    if (out.room_bytes() <= copied_[i] || thread_taken_) {
      worker.state = State::blocked;
      return false;
    }
    worker.amount = std::min({in.ready_bytes() - copied_[i], out.room_bytes() - copied_[i],
                              std::max<std::uint64_t>(copy_bytes / in.item, 1) * in.item});
    in.takes = (copied_[i] + worker.amount) / in.item;
    const double time = pipeline_.copy_s + static_cast<double>(worker.amount) / pipeline_.bus_rate;
    add(worker, Use::bus, time / pipeline_.stages[i].bus_factor);
    begin(worker);
    return true;
  }

  bool step_enqueuer(Worker& worker) {
    const std::size_t i = worker.stage;
    const SimulatedStage& stage = pipeline_.stages[i];
    Ring& in = rings_[i - 1];
    const bool kernel = stage.kind == StageKind::kernel;
    if (worker.assigned) { // the callable has returned, or is about to wait
      if (!worker.enqueued) {
        worker.enqueued = true;
        const double work = stage.device_s * static_cast<double>(in.size_of(worker.ticket)) / mib *
                            factor(i, worker.ticket);
        queue_.push_back({i, worker.ticket, std::max(work, 1e-9)});
        ++open_[i];
        if (stage.waits != 0) {
          worker.waits_for_device = true;
          add(worker, Use::wait, stage.wait_s * stage.waits);
          calls_[i].waits += stage.waits;
        }
        if (!worker.phases.empty() || worker.waits_for_device) {
          return true;
        }
      }
      if (worker.phases.empty() && !worker.around) {
        worker.around = true;
        add(worker, Use::around, stage.around_s);
        if (!worker.phases.empty()) {
          return true;
        }
      }
      ++worker.units;
      worker.assigned = worker.enqueued = worker.around = false;
      thread_taken_ = kernel ? false : thread_taken_;
      return true;
    }
    if (next_[i] == in.items) {
      worker.state = open_[i] != 0 ? worker.state : State::resting;
      return worker.state == State::resting;
    }
    const std::uint64_t ticket = next_[i];
    if (!in.published[ticket] || (kernel && (thread_taken_ || !rings_[i].has_room(ticket)))) {
      return false;
    }
    ++next_[i];
    in.takes = next_[i];
    worker.ticket = ticket;
    worker.assigned = true;
    thread_taken_ = kernel ? true : thread_taken_;
    if (kernel) {
      rings_[i].claim(ticket);
    }
    add(worker, Use::sleep, stage.sleep_s);
    add(worker, Use::cpu, stage.cpu_s);
    add(worker, Use::allocation, stage.allocation_s);
    add(worker, Use::pageable, stage.pageable_s);
    add(worker, Use::launch, stage.launches * stage.launch_s);
    calls_[i].launches += stage.launches;
    calls_[i].allocations += stage.allocation_s > 0 ? 1 : 0;
    calls_[i].copies += stage.pageable_s > 0 ? 1 : 0;
    calls_[i].pageable_copies += stage.pageable_s > 0 ? 1 : 0;
    return true;
  }

  static bool takes_processor(Use use) {
    return use == Use::cpu || use == Use::launch || use == Use::allocation ||
           use == Use::pageable || use == Use::around;
  }
  double rate_of(const Worker& worker) const {
    const Use use = worker.phases.front().use;
    return takes_processor(use) ? processor_rate_
           : use == Use::store  ? 1 / static_cast<double>(storing_[worker.stage])
                                : 1;
  }
  // Until the next thing ends. Returns false if nothing goes on.
  bool advance() {
    std::size_t computing = 0;
    storing_.assign(pipeline_.stages.size(), 0);
    for (const Worker& worker : workers_) {
      if (!worker.phases.empty()) {
        computing += takes_processor(worker.phases.front().use) ? 1 : 0;
        storing_[worker.stage] += worker.phases.front().use == Use::store ? 1 : 0;
      }
    }
    processor_rate_ = computing > pipeline_.processors ? static_cast<double>(pipeline_.processors) /
                                                             static_cast<double>(computing)
                                                       : 1;
    double time = queue_.empty() ? never : queue_.front().left;
    for (const Worker& worker : workers_) {
      if (!worker.phases.empty() && !worker.waits_for_device) {
        time = std::min(time, worker.phases.front().left / rate_of(worker));
      }
    }
    time = std::min(time, pipeline_.until - now_);
    if (time == never || time <= 0) {
      return false;
    }
    const bool waits = state_of(last_first()) == State::starved;
    waited_ += waits ? time : 0;
    for (Worker& worker : workers_) {
      const State state = state_of(worker);
      if (state != State::resting) {
        worker.times[static_cast<std::size_t>(state)] += time;
        worker.in_waits[static_cast<std::size_t>(state)] += waits ? time : 0;
      }
      if (enqueues(worker.stage) && worker.assigned && !worker.around) {
        calling_[worker.stage] += time;
      }
      if (worker.waits_for_device) {
        calls_[worker.stage].wait_s += time;
      } else if (!worker.phases.empty()) {
        Phase& phase = worker.phases.front();
        const double done = time * rate_of(worker);
        DeviceCalls& calls = calls_[worker.stage];
        cpu_[worker.stage] += takes_processor(phase.use) ? done : 0;
        calls.launch_s += phase.use == Use::launch ? time : 0;
        calls.wait_s += phase.use == Use::wait ? time : 0;
        calls.allocation_s += phase.use == Use::allocation ? time : 0;
        calls.copy_s += phase.use == Use::pageable ? time : 0;
        phase.left -= done;
        if (phase.left <= 1e-15) {
          worker.phases.pop_front();
        }
      }
    }
    now_ += time;
    if (!queue_.empty()) {
      device_busy_ += time;
      queue_.front().left -= time;
      if (queue_.front().left <= 1e-15) {
        finish(queue_.front());
        queue_.pop_front();
      }
    }
    return true;
  }
  void finish(const Op& op) {
    --open_[op.stage];
    rings_[op.stage - 1].release(op.ticket);
    if (op.stage + 1 != pipeline_.stages.size()) {
      rings_[op.stage].publish(op.ticket);
    }
    for (Worker& worker : workers_) {
      if (worker.stage == op.stage && worker.waits_for_device && worker.ticket == op.ticket) {
        worker.waits_for_device = false;
      }
    }
  }
  const Worker& last_first() const {
    const Worker* first = &workers_.back();
    while (first != workers_.data() && (first - 1)->stage == first->stage) {
      --first;
    }
    return *first;
  }
  // What a fence tells of a device's work.
  State state_of(const Worker& worker) const {
    if (!enqueues(worker.stage) || worker.state == State::resting) {
      return worker.state;
    }
    const bool calls =
        worker.assigned && !worker.around && worker.stage + 1 == pipeline_.stages.size();
    return calls || open_[worker.stage] != 0 ? State::busy : State::starved;
  }

  SimulatedPipeline pipeline_;
  std::vector<Ring> rings_;
  std::vector<Worker> workers_;
  std::vector<std::uint64_t> next_;
  std::vector<std::vector<unsigned>> parts_left_;
  std::vector<std::uint64_t> copied_;
  std::vector<std::uint64_t> open_; // work on the device
  std::vector<std::vector<double>> unit_times_;
  std::vector<double> cpu_;
  std::vector<double> calling_;
  std::vector<DeviceCalls> calls_;
  std::vector<std::size_t> storing_;
  std::deque<Op> queue_;
  bool thread_taken_{}; // the device thread, by a Kernel's callable
  double processor_rate_{1};
  double device_busy_{};
  double waited_{};
  double now_{};
};

} // namespace penstock::tests
