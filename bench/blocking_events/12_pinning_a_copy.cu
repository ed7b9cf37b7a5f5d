// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What does page-locked memory cost if the data is copied into it?
//
// In each way one thread makes 512 MiB of words, sends them to the device through page-locked
// memory, and has them summed there; the sum is checked. The question is how much host memory a way
// takes: it therefore takes all of it in run(), and has given it back at the end.
//
//   pin_a_copy              made in a std::vector, then copied into page-locked memory and sent
//   pinned_in_place         made in a std::vector that is page-locked where it lies; on a GPU only
//   pinned_from_the_start   made in page-locked memory
//   pipeline                made in the slots of a Reader's ring, the only page-locked memory
//
// The counter `peak` is the most host memory that a run had beyond that of the process before, as a
// multiple of the data. With --device=host the memory that stands for the device's counts too: none
// for the ways by hand, which have it before, and some 40 MiB for the pipeline.

#include "add.hpp"
#include "event.hpp"
#include "pinned_array.hpp"

#include <penstock/device/device_array.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

namespace ps = penstock;
using namespace penstock_bench;

constexpr std::size_t MiB = std::size_t{1} << 20;
constexpr std::size_t batch_words = 4 * MiB / sizeof(std::uint64_t);

/// Returns word number i: the bits of i, mixed.
std::uint64_t word(std::uint64_t i) {
  const std::uint64_t mixed = (i ^ (i >> 30)) * 0xbf58476d1ce4e5b9;
  return (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
}
void make_words(std::span<std::uint64_t> out, std::uint64_t first) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = word(first + i);
  }
}
std::uint64_t sum_of(std::size_t words) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < words; ++i) {
    sum += word(i);
  }
  return sum;
}

/// The most host memory that this process has from its construction on, beyond what it had then.
class PeakMemory {
 public:
  PeakMemory() {
    std::ofstream reset{"/proc/self/clear_refs"}; // 5: forget the peak so far
    if (!(reset << 5 << std::flush)) {
      throw std::runtime_error{"/proc/self/clear_refs cannot be written, so that this "
                               "process's peak of memory cannot be told run by run"};
    }
    before_ = bytes("VmRSS:");
  }
  double bytes() const { return bytes("VmHWM:") - before_; }

 private:
  static double bytes(const std::string& name) {
    std::ifstream status{"/proc/self/status"};
    for (std::string field; status >> field;) {
      if (double kib = 0; field == name && status >> kib) {
        return kib * 1024;
      }
    }
    throw std::runtime_error{"/proc/self/status has no " + name};
  }

  double before_{};
};

/// The device's side: takes words and sums them.
template <class D> class Target {
 public:
  Target(D& on, std::size_t count)
      : device{on}, words{count}, stream_{on.stream()}, on_device_{on, count},
        sums_{on, count / batch_words + 1}, workspace_{on} {}

  /// Enqueues the sum of words that the device has.
  void add(const std::uint64_t* on_device, std::size_t count, ps::Stream<D> stream) {
    ps::reduce(stream, on_device, count, sums_.data() + added_++, std::uint64_t{0}, Add{},
               workspace_);
  }
  /// Returns the sum of all words added. Blocks until it is there.
  std::uint64_t total() {
    const std::vector<std::uint64_t> sums = sums_.read(stream_);
    return std::accumulate(sums.begin(), sums.begin() + std::exchange(added_, 0), std::uint64_t{0});
  }
  /// Copies words to the device, and returns their sum. Blocks until it is there.
  std::uint64_t send(std::span<const std::uint64_t> pinned) {
    device.copy_to_device(on_device_.data(), pinned.data(), pinned.size_bytes(), stream_);
    add(on_device_.data(), pinned.size(), stream_);
    return total();
  }

  D& device;
  const std::size_t words;

 private:
  typename D::stream_type stream_;
  ps::DeviceArray<std::uint64_t, D> on_device_, sums_;
  ps::Workspace<D> workspace_;
  std::ptrdiff_t added_{};
};

template <class D> std::uint64_t pin_a_copy(Target<D>& target) {
  std::vector<std::uint64_t> words(target.words);
  make_words(words, 0);
  const PinnedArray<std::uint64_t, D> pinned{target.device, words.size()}; // as much memory again
  std::copy(words.begin(), words.end(), pinned.span().begin());
  return target.send(pinned.span());
  // page: end
}

#if defined(__CUDACC__)
/// Page-locks memory where it lies, for as long as this lives.
class PinnedInPlace {
 public:
  explicit PinnedInPlace(std::span<std::uint64_t> words) : at_{words.data()} {
    ps::detail::cuda_check(cudaHostRegister(at_, words.size_bytes(), cudaHostRegisterDefault),
                           "cudaHostRegister");
  }
  PinnedInPlace(const PinnedInPlace&) = delete;
  PinnedInPlace& operator=(const PinnedInPlace&) = delete;
  ~PinnedInPlace() { ps::detail::cuda_ignore(cudaHostUnregister(at_)); }

 private:
  void* at_;
};

std::uint64_t pinned_in_place(Target<ps::CudaDevice>& target) {
  std::vector<std::uint64_t> words(target.words);
  make_words(words, 0);
  const PinnedInPlace pinned{words}; // cudaHostRegister
  return target.send(words);
}
#endif

template <class D> std::uint64_t pinned_from_the_start(Target<D>& target) {
  const PinnedArray<std::uint64_t, D> pinned{target.device, target.words};
  make_words(pinned.span(), 0);
  return target.send(pinned.span());
  // page: end
}

template <class D> std::uint64_t in_the_ring(Target<D>& target) {
  // page: pipeline
  const auto source = ps::generate<std::uint64_t>(target.words, make_words);
  auto pipeline =
      ps::Reader{source, ps::to_pinned, {.workers = 1}} |
      ps::AsyncCopier{target.device, {.batch = batch_words}} |
      ps::Consumer{[&](ps::Batch<const std::uint64_t, ps::Device> batch, ps::Stream<D> stream) {
        target.add(batch.data(), batch.size(), stream);
      }};
  pipeline.run();
  return target.total();
  // page: end
}

template <class D> class Making : public Way {
 public:
  using How = std::uint64_t (*)(Target<D>&);

  Making(D& device, std::size_t words, How how) : target_{device, words}, how_{how} {}

  std::uint64_t run() override {
    const PeakMemory peak;
    const std::uint64_t sum = how_(target_);
    peak_ = peak.bytes() / static_cast<double>(target_.words * sizeof(std::uint64_t));
    return sum;
  }
  void count(benchmark::UserCounters& counters) const override { counters["peak"] = peak_; }

 private:
  Target<D> target_;
  How how_;
  double peak_{};
};

} // namespace

int main(int argc, char** argv) {
  return event_on_any_device(argc, argv, []<class D>(D& device, const EventOptions& options) {
    // Neither size is so small that malloc would keep it for later.
    const std::size_t bytes = options.pick(512 * MiB, 64 * MiB);
    const std::size_t words = bytes / sizeof(std::uint64_t);
    const Event event{"12_pinning_a_copy",
                      options,
                      {bytes, static_cast<double>(bytes) / napkin::link},
                      [sum = sum_of(words)] { return sum; }};
    const auto way = [&](typename Making<D>::How how) {
      return [=, &device] { return std::make_unique<Making<D>>(device, words, how); };
    };
    event.add("pin_a_copy", way(pin_a_copy<D>));
#if defined(__CUDACC__)
    if constexpr (std::is_same_v<D, ps::CudaDevice>) {
      event.add("pinned_in_place", way(pinned_in_place));
    }
#endif
    event.add("pinned_from_the_start", way(pinned_from_the_start<D>));
    event.add("pipeline", way(in_the_ring<D>));
    return run_all();
  });
}
