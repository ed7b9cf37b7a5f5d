// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What does the layout of a table in memory cost, if a kernel does nothing but look up rows in it?
//
// An embedding: 4 Mi rows of 64 values. A pass copies 4 Mi random rows to where the model wants
// them, one after the other, and a run is 32 passes, each with other rows. The result of the last
// pass is checked, once a run and in 1 to 2 % of its time: the sum of its values, each times a
// factor for its place.
//
//   aos_float         rows are structs as an optimiser keeps them; a thread a row
//   soa_float         values have an array of their own; still a thread a row
//   coalesced_float   neighbouring threads take neighbouring parts of a row, of 16 bytes
//   coalesced_bf16    coalesced, with values of two bytes
//
// The counter `memory_bytes_per_second` counts the bytes that a way must read and write.

#include "add.hpp"
#include "event.hpp"

#include <penstock/callables/deferred.hpp>
#include <penstock/data/float16.hpp>
#include <penstock/device/device_array.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#if defined(__CUDACC__)
#include <penstock/cuda/convert.cuh>

#include <vector_types.h>
#else
#include <penstock/host/convert.hpp>
#endif

namespace {

namespace ps = penstock;
using namespace penstock_bench;

constexpr std::size_t row_values = 64;

#if !defined(__CUDACC__)
struct alignas(16) uint4 {
  std::uint32_t x, y, z, w;
};
#endif

/// The sizes of an event.
struct Sizes {
  std::uint32_t rows;  ///< In the table; a power of two.
  std::size_t lookups; ///< In a pass.
  std::size_t passes;  ///< In a run.

  /// Returns the number of the first look-up of the run's last pass.
  std::size_t last() const { return (passes - 1) * lookups; }
  /// Returns the bytes that a run must read and write: rows, their copies and their numbers.
  double bytes(std::size_t value_bytes) const {
    const std::size_t lookup = 2 * row_values * value_bytes + sizeof(std::uint32_t);
    return static_cast<double>(passes * lookups * lookup);
  }
};

/// Returns a value of the table: a whole number below 256, which a BFloat16 holds exactly.
PENSTOCK_HD unsigned value_of(std::size_t row, std::size_t value) {
  return static_cast<unsigned>(row * 37 + (row >> 9) + value * 11) % 251;
}
/// Returns the row that look-up number `i` of a run wants.
PENSTOCK_HD std::uint32_t row_of(std::size_t i, std::uint32_t rows) {
  std::uint64_t mixed = (i + 1) * 0x9e3779b97f4a7c15;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
  return static_cast<std::uint32_t>(mixed >> 32) & (rows - 1);
}
PENSTOCK_HD unsigned factor_of(std::size_t place) {
  return 1 + static_cast<std::uint32_t>(place) % 3;
}

struct FillRows {
  std::uint32_t* wanted;
  std::uint32_t rows;
  PENSTOCK_HD void operator()(std::size_t i) const { wanted[i] = row_of(i, rows); }
};

struct Row {
  std::uint32_t id;
  std::uint32_t hits;
  float values[row_values];
  float state[row_values]; // the optimiser's
};
/// For ps::for_each: look-up number i.
struct CopyRow {
  const Row* table;
  const std::uint32_t* wanted;
  float* out;
  PENSTOCK_HD void operator()(std::size_t i) const {
    const Row& row = table[wanted[i]];
    for (std::size_t k = 0; k < row_values; ++k) {
      out[i * row_values + k] = row.values[k];
    }
  }
};
// page: end
struct FillTable {
  Row* table;
  PENSTOCK_HD void operator()(std::size_t i) const {
    Row& row = table[i / row_values];
    row.id = static_cast<std::uint32_t>(i / row_values);
    row.values[i % row_values] = static_cast<float>(value_of(i / row_values, i % row_values));
  }
};

/// Copies only the values.
struct CopyValues {
  const float* table;
  const std::uint32_t* wanted;
  float* out;
  PENSTOCK_HD void operator()(std::size_t i) const {
    const float* row = table + wanted[i] * row_values;
    for (std::size_t k = 0; k < row_values; ++k) {
      out[i * row_values + k] = row[k];
    }
  }
};
struct FillValues {
  float* table;
  PENSTOCK_HD void operator()(std::size_t i) const {
    table[i] = static_cast<float>(value_of(i / row_values, i % row_values));
  }
};

// page: coalesced
using Part = uint4; // 16 bytes, which one instruction loads or stores
/// For ps::for_each: part number i of all rows wanted.
template <std::size_t parts> struct CopyPart {
  const Part* table;
  const std::uint32_t* wanted;
  Part* out;
  PENSTOCK_HD void operator()(std::size_t i) const {
    out[i] = table[wanted[i / parts] * parts + i % parts];
  }
};
// page: end

constexpr std::size_t strands = std::size_t{1} << 18;

/// A part of the checksum: over each strands-th Part.
template <class T> struct SumStrand {
  const Part* parts;
  std::size_t count;
  std::uint64_t* sums;
  PENSTOCK_HD void operator()(std::size_t strand) const {
    constexpr std::size_t values = sizeof(Part) / sizeof(T);
    std::uint64_t sum = 0;
    for (std::size_t i = strand; i < count; i += strands) {
      const Part loaded = parts[i]; // all of it at once
      T part[values];
      std::memcpy(part, &loaded, sizeof loaded);
      unsigned of_part = 0;
      for (std::size_t k = 0; k < values; ++k) {
        of_part += factor_of(i * values + k) * static_cast<unsigned>(static_cast<float>(part[k]));
      }
      sum += of_part;
    }
    sums[strand] = sum;
  }
};

/// Passes that write Ts; each way defines how.
template <ps::AnyDevice D, class T> class Lookups : public Way {
 public:
  Lookups(D& device, const Sizes& sizes)
      : sizes_{sizes}, stream_{device.stream()}, wanted_{device, sizes.passes * sizes.lookups},
        out_{device, sizes.lookups * row_values}, sums_{device, strands}, sum_{device, 1},
        workspace_{device}, read_{device, {.results = 1}} {
    ps::for_each(stream_, wanted_.size(), FillRows{wanted_.data(), sizes.rows});
  }

  std::uint64_t run() override {
    for (std::size_t pass = 0; pass < sizes_.passes; ++pass) {
      look_up(wanted_.data() + pass * sizes_.lookups, out_.data(), stream_);
    }
    const auto* parts = reinterpret_cast<const Part*>(out_.data());
    const std::size_t count = out_.size() * sizeof(T) / sizeof(Part);
    ps::for_each(stream_, strands, SumStrand<T>{parts, count, sums_.data()});
    ps::reduce(stream_, sums_.data(), strands, sum_.data(), std::uint64_t{0}, Add{}, workspace_);
    read_.clear();
    return read_.put(sum_.data(), stream_).get();
  }
  void count(benchmark::UserCounters& counters) const override {
    counters["memory_bytes_per_second"] =
        benchmark::Counter{sizes_.bytes(sizeof(T)), benchmark::Counter::kIsRate};
  }

 protected:
  /// Enqueues a pass.
  virtual void look_up(const std::uint32_t* wanted, T* out, ps::Stream<D> stream) = 0;

  const Sizes& sizes() const { return sizes_; }
  ps::Stream<D> stream() { return stream_; }

 private:
  Sizes sizes_;
  typename D::stream_type stream_;
  ps::DeviceArray<std::uint32_t, D> wanted_;
  ps::DeviceArray<T, D> out_;
  ps::DeviceArray<std::uint64_t, D> sums_, sum_;
  ps::Workspace<D> workspace_;
  ps::Deferred<std::uint64_t, D> read_;
};

template <ps::AnyDevice D> class Structs : public Lookups<D, float> {
 public:
  Structs(D& device, const Sizes& sizes)
      : Lookups<D, float>{device, sizes}, table_{device, sizes.rows} {
    ps::for_each(this->stream(), table_.size() * row_values, FillTable{table_.data()});
    device.sync(this->stream());
  }

 protected:
  void look_up(const std::uint32_t* wanted, float* out, ps::Stream<D> stream) override {
    ps::for_each(stream, this->sizes().lookups, CopyRow{table_.data(), wanted, out});
  }

 private:
  ps::DeviceArray<Row, D> table_;
};

/// Returns the table's values in an array of their own.
template <ps::AnyDevice D>
ps::DeviceArray<float, D> make_table(D& device, const Sizes& sizes, ps::Stream<D> stream) {
  ps::DeviceArray<float, D> table{device, sizes.rows * row_values};
  ps::for_each(stream, table.size(), FillValues{table.data()});
  device.sync(stream);
  return table;
}

template <ps::AnyDevice D> class Values : public Lookups<D, float> {
 public:
  Values(D& device, const Sizes& sizes)
      : Lookups<D, float>{device, sizes}, table_{make_table(device, sizes, this->stream())} {}

 protected:
  void look_up(const std::uint32_t* wanted, float* out, ps::Stream<D> stream) override {
    ps::for_each(stream, this->sizes().lookups, CopyValues{table_.data(), wanted, out});
  }

 private:
  ps::DeviceArray<float, D> table_;
};

template <ps::AnyDevice D, class T> class Coalesced : public Lookups<D, T> {
 public:
  Coalesced(D& device, const Sizes& sizes)
      : Lookups<D, T>{device, sizes}, table_{device, sizes.rows * row_values} {
    const ps::DeviceArray<float, D> table = make_table(device, sizes, this->stream());
    const ps::Stream<D> stream = this->stream();
    ps::convert(stream, table.data(), table.size(), table_.data()); // once: floats to Ts
    device.sync(stream);
  }

 protected:
  void look_up(const std::uint32_t* wanted, T* out, ps::Stream<D> stream) override {
    const std::size_t lookups = this->sizes().lookups;
    constexpr std::size_t parts = row_values * sizeof(T) / sizeof(Part); // of a row
    const auto* table = reinterpret_cast<const Part*>(table_.data());
    ps::for_each(stream, lookups * parts,
                 CopyPart<parts>{table, wanted, reinterpret_cast<Part*>(out)});
  }

 private:
  ps::DeviceArray<T, D> table_;
};

std::uint64_t expected(const Sizes& sizes) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < sizes.lookups; ++i) {
    const std::uint32_t row = row_of(sizes.last() + i, sizes.rows);
    for (std::size_t k = 0; k < row_values; ++k) {
      sum += factor_of(i * row_values + k) * value_of(row, k);
    }
  }
  return sum;
}

} // namespace

int main(int argc, char** argv) {
  return event_on_any_device(argc, argv, []<class D>(D& device, const EventOptions& options) {
    const Sizes sizes{.rows = options.pick(1U << 22, 1U << 12),
                      .lookups = options.pick(std::size_t{1} << 22, std::size_t{1} << 12),
                      .passes = options.pick<std::size_t>(32, 4)};
    const double ceiling_s = sizes.bytes(sizeof(ps::BFloat16)) / napkin::memory;
    // Computed once, since it takes a second or so.
    const std::uint64_t sum = expected(sizes);
    const Event event{"05_memory_layout", options, {sizes.passes * sizes.lookups, ceiling_s}, [=] {
                        return sum;
                      }};
    event.add("aos_float", [=, &device] { return std::make_unique<Structs<D>>(device, sizes); });
    event.add("soa_float", [=, &device] { return std::make_unique<Values<D>>(device, sizes); });
    event.add("coalesced_float",
              [=, &device] { return std::make_unique<Coalesced<D, float>>(device, sizes); });
    event.add("coalesced_bf16",
              [=, &device] { return std::make_unique<Coalesced<D, ps::BFloat16>>(device, sizes); });
    return run_all();
  });
}
