// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "random/draw.hpp"
#include "random/sources.hpp"
#include "random/work.hpp"

#include <penstock/order/detail/sequence.hpp>
#include <penstock/order/permutation.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

// Which records a drawn pipeline gives, and which it leaves out: one loop after the other, without
// a thread, a slot or a batch.
namespace penstock::tests::drawn {

struct Item {
  std::uint64_t record{}, epoch{}, step{};
  std::uint64_t turn{}; // by which groups are counted: of the epoch's records that this rank reads
  Number value{};
};
using Items = std::vector<Item>;

/// What a whole run gives.
struct Expected {
  Items items;
  std::uint64_t skipped{};          // records, of whichever stage
  std::vector<std::uint64_t> skips; // those that are records of the source
  bool visits{true};                // a lease tells which record is which
  bool positions{true};             // and where the run stands
};

class Model {
 public:
  Model(const Description& of, const Sources& sources) : of_{of}, sources_{sources} {}

  Expected run() {
    for (std::uint64_t epoch = 0; epoch != of_.reader.epochs; ++epoch) {
      Items items = read(epoch);
      const bool slots = of_.reader.drop_last && !of_.device;
      if (slots && of_.counts_anew() == 0) {
        leave_out_last(items);
      } else {
        leave_out_unreadable(items);
      }
      std::size_t counting = of_.counts_anew();
      for (const Step& step : of_.steps) {
        items = step.counts_anew() ? given(step, items) : changed(step, items);
        if (step.counts_anew() && --counting == 0 && slots) {
          whole_batches(items, of_.reader.batch);
        }
      }
      if (of_.device) {
        items = on_device(std::move(items));
      }
      all_.items.insert(all_.items.end(), items.begin(), items.end());
    }
    const std::size_t anew = of_.counts_anew();
    const bool counted = of_.device && of_.behind == Behind::counted;
    all_.visits = anew == 0 && !counted;
    all_.positions = anew <= 1 && !counted && of_.from != From::unsized &&
                     !(of_.device && of_.behind == Behind::back_outputs);
    return std::move(all_);
  }

 private:
  // The steps of an epoch that a rank takes: blocks in turn, and of the rest an equal share.
  std::vector<std::uint64_t> dealt(std::uint64_t records, std::uint64_t block) const {
    const std::uint64_t rank = of_.reader.order.ranks.rank, world = of_.reader.order.ranks.world;
    std::vector<std::uint64_t> steps;
    std::uint64_t at = 0;
    for (; (records - at) / world >= block; at += world * block) {
      for (std::uint64_t i = 0; i != block; ++i) {
        steps.push_back(at + rank * block + i);
      }
    }
    const std::uint64_t each = (records - at) / world;
    for (std::uint64_t i = 0; i != each; ++i) {
      steps.push_back(at + rank * each + i);
    }
    const std::uint64_t end = at + each * world, own = end + rank;
    if (of_.reader.order.uneven == Uneven::keep && own < records) {
      steps.push_back(own);
    } else if (of_.reader.order.uneven == Uneven::repeat && end != records) {
      steps.push_back(own < records ? own : (own - records) % records);
    }
    return steps;
  }
  // The record of each step. How random an order is, and that it leaves none out, others test.
  std::vector<std::uint64_t> ordered(std::uint64_t epoch, std::uint64_t records) const {
    const Order& order = of_.reader.order;
    std::vector<std::uint64_t> numbers(records);
    std::iota(numbers.begin(), numbers.end(), std::uint64_t{0});
    if (of_.from == From::mixed) {
      AnySource<Number> mix = sources_.numbers();
      mix.open();
      for (std::uint64_t& number : numbers) {
        number = mix.record_of(epoch * records + number, order.shuffle);
      }
    } else if (order.shuffle && order.block > 1 && records != 0) {
      const detail::Sequence sequence{order, sources_.size(), epoch};
      for (std::uint64_t& number : numbers) {
        number = sequence(number);
      }
    } else if (order.shuffle && records != 0) {
      const Permutation permutation{sources_.size(), order.shuffle.value(), epoch};
      for (std::uint64_t& number : numbers) {
        number = permutation(number);
      }
    }
    return numbers;
  }
  // How many records a rank takes together.
  std::uint64_t block() const {
    const Order& order = of_.reader.order;
    constexpr std::uint64_t usual = (std::uint64_t{1} << 20U) / sizeof(Number);
    return order.block != 0          ? order.block
           : of_.from == From::mixed ? sources_.numbers().group()
           : order.shuffle           ? 1
                                     : usual;
  }
  Items read(std::uint64_t epoch) const {
    const std::uint64_t asked = of_.reader.order.records;
    const std::uint64_t most = of_.from == From::mixed ? asked : sources_.size(); // else refused
    const std::uint64_t records = asked != 0 ? std::min(asked, most) : most;
    const std::vector<std::uint64_t> numbers = ordered(epoch, records);
    Items items;
    for (const std::uint64_t step : dealt(records, block())) {
      items.push_back({numbers[step], epoch, epoch * records + step, items.size(),
                       sources_.value(numbers[step], epoch)});
    }
    return items;
  }

  void leave_out(const Item& item) {
    ++all_.skipped;
    if (item.record != unknown_size) {
      all_.skips.push_back(item.record);
    }
  }
  void leave_out_unreadable(Items& items) {
    std::erase_if(items, [this](const Item& item) {
      const bool bad = sources_.is_bad(item.record);
      if (bad) {
        leave_out(item);
      }
      return bad;
    });
  }
  // The last slot is read, and left out if it is short, also for a record that could not be read.
  void leave_out_last(Items& items) {
    const std::size_t batch = of_.reader.batch, rest = items.size() % batch;
    const std::size_t last = rest != 0 ? rest : std::min(batch, items.size());
    Items tail(items.end() - static_cast<std::ptrdiff_t>(last), items.end());
    items.resize(items.size() - last);
    leave_out_unreadable(items);
    leave_out_unreadable(tail);
    if (tail.size() == batch) {
      items.insert(items.end(), tail.begin(), tail.end());
    }
  }
  static void whole_batches(Items& items, std::size_t batch) {
    items.resize(items.size() / batch * batch);
  }

  Items changed(const Step& step, const Items& in) {
    Items out;
    for (Item item : in) {
      if (step.form != Form::batch && is_bad(step, item.value)) {
        leave_out(item);
        continue;
      }
      item.value = step.form == Form::visit
                       ? of_visit(step, item.value, {item.record, item.epoch, item.step})
                       : of_record(step, item.value);
      out.push_back(item);
    }
    return out;
  }
  // A group ends where another multiple of turns begins: what was left out before is missing in it.
  Items given(const Step& step, const Items& in) {
    const std::uint64_t each = std::max<std::uint64_t>(step.group, 1);
    Items out;
    for (std::size_t begin = 0, end = 0; begin != in.size(); begin = end) {
      Number sum = step.group == 0 ? in[begin].value : 0;
      for (end = begin; end != in.size() && in[end].turn / each == in[begin].turn / each; ++end) {
        sum = step.group == 0 ? sum : of_group(sum, in[end].value);
      }
      if (is_bad(step, sum)) {
        if (step.group == 0) {
          leave_out(in[begin]);
        } else {
          all_.skipped += end - begin;
        }
        continue;
      }
      for (std::uint64_t i = 0; i != outputs_of(step, sum); ++i) {
        out.push_back({unknown_size, in[begin].epoch, 0, out.size(), output_of(step, sum, i)});
      }
    }
    return out;
  }

  Items on_device(Items items) {
    if (of_.reader.drop_last) {
      whole_batches(items, of_.copier.batch);
    }
    if (of_.behind == Behind::counted) {
      std::erase_if(items, [](const Item& item) { return !is_selected(item.value); });
    }
    if (of_.behind == Behind::back_outputs) {
      return given(behind_the_device(of_), items);
    }
    for (Item& item : items) {
      const bool kernels = of_.behind == Behind::kernels || of_.behind == Behind::back;
      item.value = kernels                              ? in_place(of_kernel(item.value))
                   : of_.behind == Behind::replayed     ? in_place(item.value)
                   : of_.behind == Behind::back_decoded ? decoded(item.value)
                                                        : item.value;
    }
    return items;
  }

  const Description& of_;
  const Sources& sources_;
  Expected all_;
};

} // namespace penstock::tests::drawn
