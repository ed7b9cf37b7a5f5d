// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: Last gives pageable memory and Next takes pinned memory: put a PinnedStager\{\} between
#include <penstock/penstock.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ps = penstock;

struct Sample : ps::Columns<ps::Field<"tokens", int, 16>> {};
struct Zeros {
  using schema = Sample;
  std::uint64_t size() const { return 4; }
  template <ps::HostSpace Where> std::size_t read(ps::Batch<Sample, Where> into) const {
    for (std::size_t i = 0; i < into.size(); ++i) {
      ps::get<"tokens">(into)[i][0] = 0;
    }
    return into.size();
  }
};

int main() {
  ps::HostDevice device;
  auto stream = device.stream();
  auto data = ps::Reader{Zeros{}}
#ifdef PENSTOCK_REFUSED
#else
              | ps::PinnedStager{}
#endif
              | ps::AsyncCopier{device, {.batch = 2}};
  ps::Position position;
  std::vector<ps::Visit> visits;
  std::size_t numbers = 0;
  for (auto&& batch : data.on(stream, {.from = position})) {
    ps::Column<const int, 16> tokens = ps::get<"tokens">(batch);
    tokens = batch.get<"tokens">();
    position = batch.position();
    visits.push_back(batch.visit(batch.size() - 1));
    numbers += batch.size() + batch.alignment() + batch.epoch();
#ifdef PENSTOCK_REFUSED
    numbers += batch.size_bytes() + batch.record_bytes(); // as if it had no columns
#endif
    batch.used_on(stream);
    batch.release();
  }
  auto run = data.on(stream);
  while (const auto batch = run.next()) {
    numbers += batch.size();
  }
  return numbers != 0 ? 0 : 1;
}
