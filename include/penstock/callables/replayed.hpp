// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/data/batch.hpp>
#include <penstock/data/memory.hpp>
#include <penstock/detail/base/callable.hpp>
#include <penstock/stage.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace penstock {

/// What a replayed callable takes instead of a Batch: the same records, without their numbers. The
/// work that the callable enqueues is captured once for each place of the device's ring, and then
/// stands for every batch that comes to lie there. Trivially copyable.
template <class Schema, class Where = Device> class FrozenBatch {
  using Viewed = Batch<Schema, Where>;

 public:
  using schema = typename Viewed::schema; ///< What it is a batch of.
  using space = Where;                    ///< Where it lies.
  /// Whether it may only be read.
  static constexpr bool read_only = Viewed::read_only;

  FrozenBatch() = default;
  /// For the Consumer, and for tests of a callable.
  PENSTOCK_HD explicit FrozenBatch(const Viewed& batch, unsigned lane = 0)
      : batch_{batch}, lane_{lane} {}

  /// Return what the Batch returns; capacity() and count() are for Counted batches.
  /// @{
  PENSTOCK_HD std::size_t size() const { return batch_.size(); }
  PENSTOCK_HD auto data() const { return batch_.data(); }
  PENSTOCK_HD std::size_t capacity() const { return batch_.capacity(); }
  PENSTOCK_HD auto count() const { return batch_.count(); }
  PENSTOCK_HD std::size_t record_bytes() const { return batch_.record_bytes(); }
  PENSTOCK_HD std::size_t size_bytes() const { return batch_.size_bytes(); }
  PENSTOCK_HD std::size_t alignment() const { return batch_.alignment(); }
  template <Name Wanted> PENSTOCK_HD auto get() const { return batch_.template get<Wanted>(); }
  /// @}
  /// Returns which of ReplayOptions::lanes it is in: batches of one lane are worked on one after
  /// the other, those of two lanes perhaps at once. So give each lane its own part of what you
  /// write to.
  PENSTOCK_HD unsigned lane() const { return lane_; }
  /// Refused by the compiler: see replayed().
  /// @{
  template <class Number = std::uint64_t> PENSTOCK_HD Number index() const {
    constexpr bool known = !sizeof(Number);
    static_assert(known,
                  "penstock: a frozen batch has no index() and no source_index(): its work is "
                  "captured once, for every batch that comes to lie there. Take the number "
                  "from the records, or a ps::Batch, without ps::replayed.");
    return {};
  }
  template <class Number = std::uint64_t> PENSTOCK_HD Number source_index() const {
    return index<Number>();
  }
  /// @}

 private:
  Viewed batch_;
  unsigned lane_{};
};

/// Returns the column of a name, as of a Batch.
template <Name Wanted, class Schema, class Where>
PENSTOCK_HD auto get(const FrozenBatch<Schema, Where>& batch) {
  return batch.template get<Wanted>();
}

/// Options of replayed().
struct ReplayOptions {
  /// How many batches may be worked on side by side, at most 64: for batches that do not depend on
  /// each other.
  unsigned lanes = 1;
};

namespace detail {

template <class T> struct frozen_of {
  using batch = Anything;
  static constexpr bool good = false;
};
template <class S, class W> struct frozen_of<FrozenBatch<S, W>> {
  using batch = Batch<S, W>;
  static constexpr bool good = std::is_same_v<W, Device>;
};

} // namespace detail

/// A Consumer's or Kernel's callable whose work is replayed: see replayed().
template <class F> struct Replayed {
  F call;                ///< What is captured.
  ReplayOptions options; ///< As given to replayed().
};

/// Makes small batches cheap to enqueue. In prepare(), `Consumer{replayed(f)}` or
/// `Kernel{replayed(f)}` calls `f` for every place of the device's ring, and captures what it
/// enqueues; a run then launches whole groups of batches, up to 64, by one call each.
///
/// `f` is `void(FrozenBatch<const T, Device>, stream)`, for a Kernel also
/// `void(FrozenBatch<const In>, FrozenBatch<Out>, stream)` or in place
/// `void(FrozenBatch<T>, stream)`. It must enqueue the same work each time: what it does on the
/// host, and the values that it hands to kernels, are those of prepare(). A run calls `f` anew for
/// an epoch's last batch, if that is short, and may call it for any other batch outside a captured
/// group. If the work cannot be captured (`f` waits for the device, or the device captures
/// nothing), the run calls `f` for each batch, and the Report's note says why. If the device is
/// lost meanwhile, prepare() throws DeviceError.
template <class F, class Takes = detail::parameters_of<F>>
Replayed<F> replayed(F f, ReplayOptions options = {}) {
  constexpr bool frozen_batch_and_stream =
      (Takes::count == 2 ||
       (Takes::count == 3 && detail::frozen_of<detail::batch_parameter<1, Takes>>::good)) &&
      detail::frozen_of<detail::batch_parameter<0, Takes>>::good;
  static_assert(frozen_batch_and_stream,
                "penstock: a replayed callable takes a frozen device batch, which has no index(), "
                "and the stream: [](ps::FrozenBatch<const In> in, cudaStream_t stream) {...}.");
  return {std::move(f), options};
}

namespace detail {

template <class P> struct thawed {
  using type = RefusedBefore;
};
template <class B, class S>
  requires(frozen_of<std::remove_cvref_t<B>>::good)
struct thawed<Parameters<B, S>> {
  using type = Parameters<typename frozen_of<std::remove_cvref_t<B>>::batch, S>;
};
template <class A, class B, class S>
  requires(frozen_of<std::remove_cvref_t<A>>::good && frozen_of<std::remove_cvref_t<B>>::good)
struct thawed<Parameters<A, B, S>> {
  using type = Parameters<typename frozen_of<std::remove_cvref_t<A>>::batch,
                          typename frozen_of<std::remove_cvref_t<B>>::batch, S>;
};
/// To the stages before it, a replayed callable takes what the callable itself would.
template <class F> struct call_signature<Replayed<F>> : thawed<parameters_of<F>> {};

template <class F> inline constexpr bool is_replayed = false;
template <class F> inline constexpr bool is_replayed<Replayed<F>> = true;

} // namespace detail
} // namespace penstock
