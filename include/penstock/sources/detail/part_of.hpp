// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/batch.hpp>
#include <penstock/data/schema.hpp>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <type_traits>

namespace penstock::detail {

/// Returns the part of a batch that has `count` records from its record `first` on, as a batch with
/// an index() of its own. Its source_index() goes on counting as the whole batch's does, and put()
/// names records by that. A Ragged column is one to fill only, when the records before the part are
/// filled: its values are those of the whole batch, and offsets count from their beginning.
template <class T, class Where>
Batch<T, Where> part_of(const Batch<T, Where>& batch, std::size_t first, std::size_t count,
                        std::uint64_t index) {
  using Schema = std::remove_const_t<T>;
  BatchView<Schema> view = batch.view();
  const auto shift = [&](std::size_t part, std::size_t each) {
    view.parts[part] = static_cast<std::byte*>(view.parts[part]) + first * each;
    view.alignment = std::gcd(view.alignment, each); // the same for all parts
  };
  if constexpr (HasColumns<Schema>) {
    std::size_t part = 0;
    const std::size_t* size = view.sizes;
    const auto column = [&]<class Traits>(Traits) {
      if constexpr (Traits::ragged) {
        shift(part, sizeof(std::int64_t));
      } else {
        std::size_t each = Traits::value_bytes * Traits::fixed;
        for (std::size_t i = 0; i != Traits::sizes; ++i) {
          each *= size[i];
        }
        shift(part, each);
      }
      part += Traits::parts;
      size += Traits::sizes;
    };
    [&]<class... Fields>(Columns<Fields...>*) {
      (column(column_traits<Fields>{}), ...);
    }(static_cast<typename columns_of<Schema>::type*>(nullptr));
  } else {
    shift(0, view.sizes[0]);
  }
  view.size = count;
  view.index = index;
  view.source_index += first;
  return Batch<T, Where>{view};
}

} // namespace penstock::detail
