// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/throwing.hpp>
#include <penstock/detail/turns/ahead.hpp>
#include <penstock/error.hpp>

#include <cstdint>
#include <numeric>
#include <utility>

namespace penstock::detail {

/// How many units of the source a chain must be allowed to have read for its last stage to get a
/// batch: each stage that fills batches may hold all but the last piece of one, and wait for that.
///
///   batches of 64, and then slots of 100: 64 lie in a slot, and 36 in a batch, which wants 28 more
class AheadNeeds {
 public:
  /// The Reader deals out whole slots of `each`.
  void whole(std::uint64_t each) noexcept { units_ = grain_ = each; }
  /// A stage gathers what comes in batches of `each`.
  void gather(std::uint64_t each) noexcept {
    // Batches that were gathered before share their credits, rounded down, and what is kept of
    // several such shares may have more than its part.
    if (out_ != 1 && std::exchange(shared_, true)) {
      round_up();
    }
    const std::uint64_t waiting = each - std::gcd(grain_, each);
    units_ += waiting / out_ * in_ + (waiting % out_ * in_ + out_ - 1) / out_;
    grain_ = each;
  }
  /// A stage makes `out` units of each `in`.
  void recount(std::uint64_t in, std::uint64_t out) noexcept {
    const std::uint64_t same = std::gcd(in, out);
    const std::uint64_t before = std::gcd(in_, out / same);
    const std::uint64_t after = std::gcd(in / same, out_);
    in_ = in_ / before * (in / same / after);
    out_ = out_ / after * (out / same / before);
    grain_ = out;
  }
  /// A stage may leave units out: those that it keeps share the credits of a batch, rounded up.
  void leave_out() noexcept {
    grain_ = 1;
    round_up();
  }

  /// Tells `ahead`, when all stages are known. Throws OptionError if that is too small for them.
  [[gnu::cold]] void check(Ahead<>& ahead) const {
    ahead.needs(units_);
    if (units_ > ahead.most()) {
      throw_error<OptionError>(
          {"penstock: Reader: ahead is ", ahead.records(ahead.most()),
           ", but the batches of this chain, while they fill, may hold ", ahead.records(units_),
           " records, and would never be full: give it at least that, or smaller batches, or "
           ".flush, and they are handed on as they are."});
    }
  }

 private:
  void round_up() noexcept {
    in_ = (in_ + out_ - 1) / out_;
    out_ = 1;
  }

  std::uint64_t units_{1};
  std::uint64_t grain_{1}; // units come in whole ones of so many, but for an epoch's last
  // in_ units of the source are out_ units here.
  std::uint64_t in_{1};
  std::uint64_t out_{1};
  bool shared_{}; // whether batches were gathered where out_ was not 1
};

} // namespace penstock::detail
