// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// 18_load_weights: the weights of a model, from safetensors files into the memory of a device, or
// of several that share the reading. Each tensor is found there by its name. Shards are one model;
// a directory stands for its .safetensors files.
//
//   18_load_weights [--json] [--check] [--device auto|cuda|host] [--gpus N] [--piece BYTES]
//                   [FILE...]
//
// With --gpus N this process has N devices. Each reads every N-th piece of the bytes over its own
// link, and copies it to the others while it reads the next one: all have all tensors at the end.
// The ranks that torchrun, mpirun or examples/run_ranks start have a GPU each, and NCCL gathers
// what they have read; without GPUs or NCCL each rank reads everything. A piece has 32 MiB.
//
// A model that 21_pack has packed is unpacked on the device; each of several devices then reads all
// of it over its own link.
//
// Without FILE it makes a small one. It prints how long that took from the first look at the files
// to the last byte on the last device: headers, device memory and page-locked memory included.
// NCCL, and what lets GPUs reach each other, is there before. If a rank fails, the launcher ends
// the others. Where it does not, a wait for NCCL ends after a minute. --check then compares the
// CRC-32C of every tensor on every device with that of the bytes in its file, and lists them. nvcc
// compiles this source for both kinds of devices, any other compiler for host devices alone.

#include "support/devices.hpp"
#include "support/in_threads.hpp"
#include "support/link.hpp"
#include "support/meeting.hpp"
#include "support/require_same.hpp"
#include "support/temporary_file.hpp"
#include "support/weights/check.hpp"
#include "support/weights/layout.hpp"
#include "support/weights/options.hpp"
#include "support/weights/outcome.hpp"
#include "support/weights/packed_weights.hpp"
#include "support/weights/peer_team.hpp"
#include "support/weights/share.hpp"
#include "support/weights/some_weights.hpp"
#if defined(EXAMPLES_HAVE_NCCL)
#include "support/weights/nccl_team.hpp"
#endif

#include <penstock/formats/safetensors.hpp>
#include <penstock/machine/usable.hpp>
#include <penstock/order/ranks.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <iostream>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <type_traits>
#include <vector>

namespace ps = penstock;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void copy_on_device(ps::HostStream& stream, std::byte* to, const std::byte* from, std::size_t n) {
  stream.enqueue([=] { std::memcpy(to, from, n); });
}
#if defined(__CUDACC__)
void copy_on_device(cudaStream_t stream, std::byte* to, const std::byte* from, std::size_t n) {
  weights::check_cuda(cudaMemcpyAsync(to, from, n, cudaMemcpyDeviceToDevice, stream),
                      "a copy on the device");
}
#endif

/// The tensors of a model in one piece of a device's memory, of which it reads a share itself.
template <ps::AnyDevice D> class Weights {
 public:
  Weights(D& device, const ps::Safetensors<>& model, const weights::Layout& layout,
          std::size_t share)
      : device_{device}, layout_{layout}, number_{share}, share_{model, layout, share},
        memory_{device, layout.bytes(), false} {}

  std::byte* memory() const { return memory_.at; }
  /// Returns where the tensor of this number lies.
  std::byte* tensor(std::size_t number) const { return memory_.at + layout_.place(number); }

  /// Reads its share, and has `gather` bring all rows to all devices. Blocks until they are there.
  /// Returns the seconds since `begin`.
  template <class Gather>
  double load(Gather gather, const ps::ReaderOptions& options, Clock::time_point begin,
              const std::stop_token& stop) {
    auto pipeline =
        ps::Reader{share_, ps::to_pinned, options} | ps::AsyncCopier{device_} |
        ps::Consumer{[&](ps::Batch<const std::byte, ps::Device> bytes, ps::Stream<D> stream) {
          gather_until(take(bytes, stream), gather, stream);
        }};
    report = pipeline.run(stop);
    if (!report.stopped) {
      auto idle = device_.stream();
      ps::Stream<D> stream = idle;
      gather_until(layout_.before(layout_.bytes()), gather, stream);
      gather.finish();
    }
    return seconds_since(begin);
  }

  ps::Report report;

 private:
  // Puts each byte where it belongs: a batch has the end of a tensor, whole ones, the beginning of
  // another. Returns where in the model the share's bytes end that are there.
  std::uint64_t take(ps::Batch<const std::byte, ps::Device> batch, ps::Stream<D> stream) {
    const std::byte* from = batch.data();
    std::uint64_t end = 0;
    share_.each_run(batch.index(), batch.size(), [&](std::uint64_t at, std::uint64_t bytes) {
      layout_.each_part(at, bytes, [&](std::uint64_t place, std::uint64_t here) {
        copy_on_device(stream, memory_.at + place, from, here);
        from += here;
      });
      end = at + bytes;
    });
    return end;
  }
  template <class Gather>
  void gather_until(std::uint64_t end, Gather& gather, ps::Stream<D> stream) {
    for (; row_ != layout_.rows() && layout_.before_end(row_, number_) <= end; ++row_) {
      gather.row(stream, layout_.row(row_));
    }
  }

  D& device_;
  const weights::Layout& layout_;
  std::size_t number_;
  weights::Share share_;
  DeviceMemory<D> memory_;
  std::size_t row_ = 0; // the first whose piece is not there as a whole
};
template <ps::AnyDevice D> using Loaded = std::vector<std::unique_ptr<Weights<D>>>;

/// What a Reader needs to know where several devices of a host read at once: nothing else does.
ps::ReaderOptions reading(std::size_t devices) {
  if (devices == 1) {
    return {};
  }
  const std::size_t share = ps::usable_processors() * 3 / 4 / devices;
  return {.workers = static_cast<unsigned>(std::clamp<std::size_t>(share, 1, 12))};
}

/// What there is to say of a model that has been loaded.
struct Said {
  std::span<const ps::TensorInfo> tensors;
  std::uint64_t bytes;
  double open_s;
  double memory_s;
  std::vector<double> seconds;
  std::string way; // how shares were gathered; empty: each device read everything
};

/// Prints how long that took.
template <ps::AnyDevice D, class Team, class Loaded>
void say(const Said& said, std::deque<D>& devices, Team& team, const Loaded& loaded,
         const weights::Options& options, const Meeting& meeting) {
  const std::vector<double> none(1);
  std::optional<double> links = links_bytes_per_s(devices, [&] { team.all(none); });
  if (links) {
    const std::vector<double> each = team.all({*links});
    links = std::accumulate(each.begin(), each.end(), 0.0);
  }
  if (!team.speaks()) {
    return;
  }
  const weights::Outcome outcome{said.tensors.size(), said.bytes, said.open_s, said.memory_s,
                                 said.seconds,        links,      said.way,    meeting.ranks()};
  outcome.print(options.json);
  if (!options.json) {
    std::cout << (options.check ? "every tensor is as in its file\n" : "");
    for (const auto& one : loaded) {
      std::cout << one->report;
    }
  }
}

/// Unpacks the model on each of these devices, and says how long that took.
template <ps::AnyDevice D, class Team>
void load_packed(std::deque<D>& devices, Team& team, const std::vector<std::string>& files,
                 const weights::Options& options, Meeting& meeting, Clock::time_point begin) {
  const std::vector<ps::TensorInfo> tensors = ps::packed_tensors_of(files);
  const double open_s = seconds_since(begin);
  require_same(meeting, weights::text_of(tensors), "the tensors in the files");
  std::vector<std::unique_ptr<weights::PackedWeights<D>>> loaded(devices.size());
  std::vector<double> memory_s(devices.size());
  std::vector<double> seconds(devices.size());
  try {
    in_threads(devices.size(), [&](std::size_t i, const std::stop_token& stop) {
      const auto attached = devices[i].attach();
      loaded[i] =
          std::make_unique<weights::PackedWeights<D>>(devices[i], files, tensors, options.piece);
      memory_s[i] = seconds_since(begin);
      seconds[i] = loaded[i]->load([](ps::Stream<D> stream, std::byte* to, const std::byte* from,
                                      std::size_t n) { copy_on_device(stream, to, from, n); },
                                   begin, stop);
    });
    seconds = team.all(seconds);
  } catch (...) {
    team.give_up();
    throw;
  }
  meeting.end();
  if (options.check) {
    weights::check(std::span{tensors}, files, weights::crcs_unpacked(files, tensors), devices,
                   loaded, !options.json && team.speaks());
  }
  const auto add = [](std::uint64_t sum, const ps::TensorInfo& tensor) {
    return sum + tensor.bytes;
  };
  const Said said{tensors, std::accumulate(tensors.begin(), tensors.end(), std::uint64_t{0}, add),
                  open_s,  *std::max_element(memory_s.begin(), memory_s.end()),
                  seconds, {}};
  say(said, devices, team, loaded, options, meeting);
}

/// Brings the model to all devices of a team, of which these are this process's, and says how long
/// that took.
template <ps::AnyDevice D, class Team>
void load(std::deque<D>& devices, Team& team, const weights::Options& options, Meeting& meeting) {
  const std::vector<double> none(1);
  team.all(none); // all ranks begin at a time
  const auto begin = Clock::now();
  auto model = ps::safetensors(options.files);
  model.open();
  if (ps::is_packed(model.files().front())) {
    return load_packed(devices, team, model.files(), options, meeting, begin);
  }
  const double open_s = seconds_since(begin);
  require_same(meeting, weights::text_of(model.tensors()), "the tensors in the files");
  const weights::Layout layout{model.tensors(), team.shares(), options.piece};
  Loaded<D> loaded(devices.size());
  in_threads(devices.size(), [&](std::size_t i, const std::stop_token&) {
    const auto attached = devices[i].attach();
    loaded[i] = std::make_unique<Weights<D>>(devices[i], model, layout, team.first() + i);
  });
  const double memory_s = seconds_since(begin);
  std::vector<std::byte*> memories;
  for (const auto& one : loaded) {
    memories.push_back(one->memory());
  }
  const ps::ReaderOptions reads = reading(devices.size() * meeting.ranks().local_world);
  std::vector<double> seconds(devices.size());
  try {
    in_threads(devices.size(), [&](std::size_t i, const std::stop_token& stop) {
      const auto attached = devices[i].attach();
      seconds[i] = loaded[i]->load(team.gather(i, memories), reads, begin, stop);
    });
    seconds = team.all(seconds);
  } catch (...) {
    team.give_up(); // to give memory back would wait for the other ranks
    throw;
  }
  meeting.end();
  if (options.check) {
    weights::check(model.tensors(), model.files(), weights::crcs_in_files(model), devices, loaded,
                   !options.json && team.speaks());
  }
  const Said said{model.tensors(), model.size(), open_s, memory_s, seconds, team.way()};
  say(said, devices, team, loaded, options, meeting);
}

int main(int argc, char** argv) try {
  weights::Options options{argc, argv};
  const ps::Ranks ranks = ps::ranks();
  if (ranks.world != 1 && options.gpus != 0) {
    throw std::invalid_argument{"--gpus is for one process, and this is one of " +
                                std::to_string(ranks.world) +
                                " ranks, which have a GPU each: leave it out"};
  }
  Meeting meeting{ranks};
  std::optional<TemporaryFile> made;
  if (options.files.empty()) {
    options.files.push_back(made.emplace(weights::some_weights()).path());
  }
  const auto gpus = std::max<std::size_t>(options.gpus, 1);
  const auto first = static_cast<int>(ranks.local_rank);
  require_same(meeting, options.device + ' ' + std::to_string(options.piece),
               "the options --device and --piece");
  with_devices(options.device, gpus, first, [&](auto& devices) {
#if defined(EXAMPLES_HAVE_NCCL)
    if constexpr (std::is_same_v<decltype(devices), std::deque<ps::CudaDevice>&>) {
      if (ranks.world != 1) {
        weights::NcclTeam team{devices.front(), meeting, options.piece};
        return load(devices, team, options, meeting);
      }
    }
#endif
    weights::PeerTeam team{devices};
    load(devices, team, options, meeting);
  });
} catch (const std::exception& error) {
  std::cerr << std::string{"18_load_weights: "} + error.what() +
                   '\n'; // at once: other ranks write there, too
  return 1;
}

// prints with --check --device host:
//   "wte.weight" F32 [1000, 768] crc32c 2948110264
//   "ln_f.bias" BF16 [769] crc32c 2917863072
//   "wpe.weight" F32 [64, 768] crc32c 2632628241
//   3 tensors, 3270146 bytes, in … s: … GB/s
//   every tensor is as in its file
//   3270146 records, … on host
//   …
