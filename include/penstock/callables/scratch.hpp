// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/atomics.hpp>
#include <penstock/callables/workspace.hpp>
#include <penstock/config.hpp>
#include <penstock/data/memory.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/device/detail/allocation.hpp>
#include <penstock/device/device.hpp>
#include <penstock/error.hpp>
#include <penstock/lease.hpp>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

namespace penstock {

/// Options of a Scratch.
struct ScratchOptions {
  /// How many streams use it, each an equal part: a Consumer has one, a Kernel its
  /// KernelOptions::streams, a replayed callable its ReplayOptions::lanes.
  unsigned streams = 1;
};

/// How a Scratch has been used.
struct ScratchCounts {
  std::uint64_t frames = 0; ///< Made by on().
  /// The most bytes of one part taken at once, each piece rounded up to 256. Times the streams,
  /// this is the smallest budget that would have done.
  std::size_t most_bytes = 0;
  std::uint64_t refusals = 0; ///< Errors thrown, by on() and by frames.
};

/// Scratch memory on a device for callables: a fixed budget, allocated once, that is handed out and
/// used again in the order of a stream.
///
///     ps::Scratch scratch{gpu, 64 << 20};
///     … ps::Consumer{[&](ps::Batch<const T, ps::Device> in, cudaStream_t stream) {
///         auto frame = scratch.on(stream);
///         float* const tmp = frame.take<float>(in.size());
///
/// Work on one stream runs in order. So memory that a frame took is free for the next work on the
/// stream as soon as the frame dies, even if its own work has not run: there are no events or
/// waits. If a callable puts work on another stream, this one must wait for it before that.
///
/// A stream gets its part when it is first seen and keeps it. A frame made while no other of its
/// stream lives starts where the part does, so equal calls take equal addresses. That is why
/// replayed() callables may use it: captured work keeps the addresses of its lane's stream, which
/// no other stream gets; work of one lane is captured in order, and all graphs run on one stream.
///
/// It must outlive the work that uses it, and the device must outlive it; the streams must stay
/// where they are and live until that work is done. Any thread may call, one thread a stream at a
/// time; cudaStreamPerThread is another stream on each thread: use it on one thread alone. Nothing
/// blocks, allocates or calls the device after the constructor.
template <AnyDevice D> class Scratch {
  struct Part;

 public:
  /// Allocates `bytes`, rounded up so that each part is a multiple of 256. May block, as the
  /// device's allocate() may. Throws OptionError for no streams and for more bytes than memory can
  /// be, DeviceError if the device has fewer.
  explicit Scratch(D& device, std::size_t bytes, ScratchOptions options = {})
      : streams_{checked(options.streams)},
        part_bytes_{padded((detail::checked_bytes(bytes, 1, "Scratch") + streams_ - 1) / streams_)},
        allocation_{detail::Allocation::in<Device>(
            &device, detail::checked_bytes(streams_, part_bytes_, "Scratch"))},
        parts_{std::make_unique<Part[]>(streams_)} {
    for (std::size_t i = 0; i < streams_; ++i) {
      parts_[i].data = allocation_.data() + i * part_bytes_;
    }
  }
  Scratch(const Scratch&) = delete;
  ~Scratch() { assert(is_idle() && "penstock: a Scratch must outlive its frames"); }

  /// Memory that one call, or a part of one, takes on a stream; the frame gives it back when it
  /// dies. Frames of one stream nest: a function called with the stream may make one of its own. A
  /// frame stays on the stack, where it was made: frames die in reverse order.
  class Frame {
   public:
    Frame(const Frame&) = delete;
    static void* operator new(std::size_t) = delete;
    ~Frame() {
      assert(depth_ == part_.depth &&
             "penstock: a Scratch's frame died before a later one of its stream");
      part_.taken = begin_;
      part_.depth = depth_ - 1;
    }

    /// Returns device memory for `n` elements, aligned to 256 bytes, with undefined contents, until
    /// the frame dies. Never blocks. Throws Error if less is left of the stream's part, and while a
    /// later frame of the stream lives.
    template <class T> T* take(std::size_t n) & {
      static_assert(std::is_trivially_copyable_v<T> && !std::is_const_v<T> && alignof(T) <= align,
                    "penstock: scratch memory is raw bytes aligned to 256, so T must be trivially "
                    "copyable, not const, and aligned to 256 at most.");
      return static_cast<T*>(scratch_.take(part_, depth_, n, sizeof(T)));
    }
    /// Takes a Workspace, for reduce() and other algorithms: `workspace(left())` is all that is
    /// left.
    Workspace<D> workspace(std::size_t bytes = Workspace<D>::usual_bytes) & {
      return {take<std::byte>(bytes), bytes};
    }
    /// Refused for a temporary frame: its memory would be free at once.
    /// @{
    template <class T> T* take(std::size_t) && {
      constexpr bool kept = !sizeof(T);
      static_assert(kept, "penstock: what a frame took is free when it dies, and this one dies at "
                          "once, so keep it: auto frame = scratch.on(stream);");
      return nullptr;
    }
    template <class Lent = D> Workspace<Lent> workspace(std::size_t = 0) && {
      static_assert(!sizeof(Lent), "penstock: what a frame took is free when it dies, and this one "
                                   "dies at once, so keep it: auto frame = scratch.on(stream);");
      return {nullptr, 0};
    }
    /// @}

    /// Returns the bytes of the stream's part that may still be taken, in one piece.
    std::size_t left() const noexcept { return scratch_.part_bytes_ - part_.taken; }

   private:
    friend class Scratch;
    Frame(Scratch& scratch, Part& part) noexcept
        : scratch_{scratch}, part_{part}, begin_{part.taken}, depth_{++part.depth} {
      // One writer: the thread that uses the stream.
      part.frames.store(part.frames.load(StdAtomics::relaxed) + 1, StdAtomics::relaxed);
    }

    Scratch& scratch_;
    Part& part_;
    const std::size_t begin_;
    const std::size_t depth_;
  };

  /// Makes a frame of `stream`, which gets its part if it has none. Throws Error if all parts
  /// belong to other streams.
  [[nodiscard]] Frame on(Stream<D> stream) {
    return Frame{*this, part_of(detail::StreamHandle::of(stream).stream)};
  }

  /// Takes the parts from their streams, for later ones, such as another pipeline's. No frame may
  /// live, all work that uses the memory must be done, and a pipeline whose replayed() callable
  /// used it must not run again. No other thread may call meanwhile.
  void unbind() noexcept {
    assert(is_idle() && "penstock: a Scratch's frame lives while its stream is unbound");
    for (Part& part : parts()) {
      part.stream.store(&nobody, StdAtomics::relaxed);
    }
  }

  /// Returns the counts, from any thread. Each is exact; together they are of one moment only when
  /// all is quiet.
  ScratchCounts counts() const noexcept {
    ScratchCounts counts{.refusals = refusals_.load(StdAtomics::relaxed)};
    for (const Part& part : parts()) {
      counts.frames += part.frames.load(StdAtomics::relaxed);
      counts.most_bytes = std::max(counts.most_bytes, part.most.load(StdAtomics::relaxed));
    }
    return counts;
  }

 private:
  static constexpr std::size_t align = 256;
  // Null is a stream: CUDA's default one.
  static constexpr char nobody{};

  struct alignas(detail::cache_lines) Part {
    StdAtomics::Atomic<const void*> stream{&nobody};
    // The rest is for the thread that uses the stream; all may read the counts.
    std::byte* data{};
    std::size_t taken{}; // by the frames that live, a multiple of align
    std::size_t depth{}; // how many frames live
    StdAtomics::Atomic<std::uint64_t> frames{0};
    StdAtomics::Atomic<std::size_t> most{0};
  };

  static unsigned checked(unsigned streams) {
    if (streams == 0) {
      throw OptionError{"penstock: Scratch: streams is 0, and somebody is to use it: give it at "
                        "least 1."};
    }
    return streams;
  }
  static std::size_t padded(std::size_t bytes) noexcept {
    return (bytes + align - 1) / align * align;
  }
  std::span<Part> parts() const noexcept { return {parts_.get(), streams_}; }
  bool is_idle() const noexcept {
    return std::ranges::all_of(parts(), [](const Part& part) { return part.depth == 0; });
  }

  Part& part_of(const void* stream) {
    // Parts are given away in turn, and one thread uses the stream: behind the first free part,
    // none is this stream's. Handing a stream on also hands on its part's contents, so all is
    // relaxed.
    for (Part& part : parts()) {
      const void* owner = part.stream.load(StdAtomics::relaxed);
      if (owner == stream ||
          (owner == &nobody && part.stream.compare_exchange_strong(
                                   owner, stream, StdAtomics::relaxed, StdAtomics::relaxed))) {
        return part;
      }
    }
    refuse(detail::joined({"it has parts for ", streams_,
                           " streams, and here is one more: unbind() it between pipelines, or "}),
           part_bytes_, std::size_t{streams_} + 1);
  }

  void* take(Part& part, std::size_t depth, std::size_t n, std::size_t each) {
    if (depth != part.depth) {
      refusals_.fetch_add(1, StdAtomics::relaxed);
      throw Error{"penstock: Scratch: a frame was asked for memory while a later one of its stream "
                  "lives: ask that one, or ask before it is made."};
    }
    const std::size_t left = part_bytes_ - part.taken; // a multiple of align: padding fits
    if (n > left / each) {
      refuse(detail::joined({n, " times ", each, " bytes were asked for, and of the stream's ",
                             part_bytes_, " bytes ", left, " are left: "}),
             n > most_bytes / each ? ~std::size_t{0} : part.taken + padded(n * each), streams_);
    }
    void* const at = part.data + part.taken;
    part.taken += padded(n * each);
    if (part.taken > part.most.load(StdAtomics::relaxed)) {
      part.most.store(part.taken, StdAtomics::relaxed);
    }
    return at;
  }

  // `streams` parts of `bytes` would have done.
  [[noreturn]] void refuse(const std::string& why, std::size_t bytes, std::size_t streams) {
    refusals_.fetch_add(1, StdAtomics::relaxed);
    if (bytes > most_bytes / streams) {
      detail::throw_error<Error>(
          {"penstock: Scratch: ", why, "no device has so much, so look at the count."});
    }
    const std::string each = detail::joined({", {.streams = ", streams, "}}."});
    detail::throw_error<Error>({"penstock: Scratch: ", why, "make it Scratch{device, ",
                                bytes * streams, streams == 1 ? "}." : each});
  }

  static constexpr std::size_t most_bytes = std::numeric_limits<std::ptrdiff_t>::max() / 2;

  const unsigned streams_;
  const std::size_t part_bytes_;
  const detail::Allocation allocation_;
  const std::unique_ptr<Part[]> parts_;
  StdAtomics::Atomic<std::uint64_t> refusals_{0};
};

} // namespace penstock
