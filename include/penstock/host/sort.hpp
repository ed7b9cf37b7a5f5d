// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/error.hpp>
#include <penstock/host/device.hpp>
#include <penstock/workspace.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

// Work on a host stream, with the signatures that cuda/sort.cuh has for a cudaStream_t: what
// algorithm.hpp says of its algorithms holds for these.
//
// Keys are integers and floating-point numbers of up to 8 bytes, of which -0 and 0 are equal, and a
// NaN is beyond infinity: above it, or below -infinity if its sign bit is set.
namespace penstock {

/// Which way sort() goes.
enum class Order {
  ascending, ///< The smallest first.
  descending ///< The largest first.
};

/// The largest k that segmented_top_k() takes: it keeps so many keys in a GPU's shared memory.
inline constexpr std::size_t most_top_k = 1024;

namespace detail {

template <std::size_t bytes> struct UnsignedOf;
template <> struct UnsignedOf<1> {
  using type = std::uint8_t;
};
template <> struct UnsignedOf<2> {
  using type = std::uint16_t;
};
template <> struct UnsignedOf<4> {
  using type = std::uint32_t;
};
template <> struct UnsignedOf<8> {
  using type = std::uint64_t;
};
template <class K> using KeyBits = typename UnsignedOf<sizeof(K)>::type;

template <class K> constexpr void check_key() {
  static_assert(std::is_arithmetic_v<K> && !std::is_same_v<K, bool> && sizeof(K) <= 8,
                "penstock: keys are integers or floating-point numbers of up to 8 bytes.");
}

/// Numbers that are ordered as the keys are.
template <class K> PENSTOCK_HD KeyBits<K> ordered_bits(K key) {
  using Bits = KeyBits<K>;
  constexpr Bits sign = static_cast<Bits>(Bits{1} << (8 * sizeof(K) - 1));
  Bits bits;
  std::memcpy(&bits, &key, sizeof bits);
  if constexpr (std::is_floating_point_v<K>) {
    if (bits == sign) {
      bits = 0; // -0
    }
    return static_cast<Bits>((bits & sign) != 0 ? ~bits : bits | sign);
  } else {
    return static_cast<Bits>(std::is_signed_v<K> ? bits ^ sign : bits);
  }
}

inline constexpr unsigned digit_bits = 8;
inline constexpr std::size_t digits = std::size_t{1} << digit_bits;

/// The values of a sort that has none.
struct NoValue {};

/// Where a sort's elements are; `values` is not used if V is NoValue.
template <class K, class V> struct Elements {
  K* keys;
  V* values;

  void copy(std::size_t to, const K* from_keys, const V* from_values, std::size_t from) const {
    keys[to] = from_keys[from];
    if constexpr (!std::is_same_v<V, NoValue>) {
      values[to] = from_values[from];
    }
  }
};

/// A stable sort, digit by digit from the lowest. Digits that all keys share take no pass.
template <class K, class V>
void radix_sort(const K* keys, const V* values, std::size_t n, Elements<K, V> out,
                Elements<K, V> spare, Order order) {
  const auto digit = [order](K key, unsigned shift) {
    const KeyBits<K> bits = ordered_bits(key);
    const auto low = static_cast<std::size_t>(bits >> shift) % digits;
    return order == Order::ascending ? low : digits - 1 - low;
  };
  for (std::size_t i = 0; i < n; ++i) {
    out.copy(i, keys, values, i);
  }
  const Elements<K, V> sorted = out;
  for (unsigned shift = 0; shift < 8 * sizeof(K) && n != 0; shift += digit_bits) {
    std::array<std::size_t, digits> places{};
    for (std::size_t i = 0; i < n; ++i) {
      ++places[digit(out.keys[i], shift)];
    }
    if (places[digit(out.keys[0], shift)] == n) {
      continue;
    }
    std::size_t before = 0;
    for (std::size_t& place : places) {
      before += std::exchange(place, before);
    }
    for (std::size_t i = 0; i < n; ++i) {
      spare.copy(places[digit(out.keys[i], shift)]++, out.keys, out.values, i);
    }
    std::swap(out, spare);
  }
  for (std::size_t i = 0; out.keys != sorted.keys && i < n; ++i) {
    sorted.copy(i, out.keys, out.values, i);
  }
}

template <class K, class V>
void enqueue_sort(HostStream& stream, const K* keys, const V* values, std::size_t n, K* keys_out,
                  V* values_out, Workspace<HostDevice>& workspace, Order order) {
  check_key<K>();
  const bool pairs = !std::is_same_v<V, NoValue>;
  const std::size_t values_from = (n * sizeof(K) + 255) / 256 * 256;
  workspace.require(pairs ? values_from + n * sizeof(V) : n * sizeof(K), "sort");
  if (n == 0) {
    return;
  }
  auto* const spare = static_cast<std::byte*>(workspace.data());
  stream.enqueue([=] {
    radix_sort<K, V>(
        keys, values, n, {keys_out, values_out},
        {reinterpret_cast<K*>(spare), reinterpret_cast<V*>(pairs ? spare + values_from : nullptr)},
        order);
  });
}

} // namespace detail

/// Writes in[0] to in[n - 1] to `out`, in order. Both are device memory, and must not overlap. The
/// workspace needs a little more than n keys; Error tells if it has less.
template <class K>
void sort(HostStream& stream, const K* in, std::size_t n, K* out, Workspace<HostDevice>& workspace,
          Order order = Order::ascending) {
  const detail::NoValue* const no_values = nullptr;
  detail::enqueue_sort(stream, in, no_values, n, out, static_cast<detail::NoValue*>(nullptr),
                       workspace, order);
}

/// Sorts by keys as above, and takes the values with them: of equal keys each order keeps the first
/// first. The workspace needs a little more than n keys and n values.
template <class K, class V>
void sort(HostStream& stream, const K* keys, const V* values, std::size_t n, K* keys_out,
          V* values_out, Workspace<HostDevice>& workspace, Order order = Order::ascending) {
  static_assert(std::is_trivially_copyable_v<V>, "penstock: values are copied byte by byte.");
  detail::enqueue_sort(stream, keys, values, n, keys_out, values_out, workspace, order);
}

namespace detail {

inline void check_top_k(std::size_t width, std::size_t k) {
  const auto refuse = [](const std::string& what) {
    throw Error{"penstock: segmented_top_k " + what};
  };
  if (k > width) {
    refuse("is to find " + std::to_string(k) + " keys in segments of " + std::to_string(width) +
           ": let k be at most the width.");
  }
  if (k > most_top_k) {
    refuse("finds at most " + std::to_string(most_top_k) + " keys, and k is " + std::to_string(k) +
           ": sort each segment.");
  }
  if (width > std::numeric_limits<std::uint32_t>::max()) {
    refuse("has indices of 32 bits, and segments of " + std::to_string(width) +
           " keys: make the segments smaller.");
  }
}

/// Keeps the largest so far in order; what is equal to a kept one comes after it.
template <class K>
void top_k(const K* in, std::size_t width, std::size_t k, K* values, std::uint32_t* indices) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < width; ++i) {
    const auto is_before = [in, i](K other) { return ordered_bits(in[i]) > ordered_bits(other); };
    if (kept == k && !is_before(values[k - 1])) {
      continue;
    }
    std::size_t place = kept < k ? kept++ : k - 1;
    for (; place != 0 && is_before(values[place - 1]); --place) {
      values[place] = values[place - 1];
      indices[place] = indices[place - 1];
    }
    values[place] = in[i];
    indices[place] = static_cast<std::uint32_t>(i);
  }
}

} // namespace detail

/// The k largest of each of `segments` segments of `width` keys, which lie one after another: their
/// values, the largest first, from values[segment * k] on, and from indices[segment * k] on where
/// in the segment they are. Of equal keys those with the lower index are taken, and come first. All
/// are device memory, and must not overlap. Throws Error if k is more than `width` or `most_top_k`,
/// or `width` needs more than 32 bits.
template <class K>
void segmented_top_k(HostStream& stream, const K* in, std::size_t segments, std::size_t width,
                     std::size_t k, K* values, std::uint32_t* indices) {
  detail::check_key<K>();
  detail::check_top_k(width, k);
  if (segments == 0 || k == 0) {
    return;
  }
  stream.enqueue([=] {
    for (std::size_t segment = 0; segment < segments; ++segment) {
      detail::top_k(in + segment * width, width, k, values + segment * k, indices + segment * k);
    }
  });
}

} // namespace penstock
