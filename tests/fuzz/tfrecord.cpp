// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Finds the records of any bytes taken for a TFRecord file, and of those with right checksums of
// the lengths, which a fuzzer seldom finds.

#include "fuzz/target.hpp"

#include <penstock/formats/tfrecord.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

PENSTOCK_FUZZ_TARGET(fuzz_tfrecord) {
  using namespace penstock::detail;
  // Every nine bytes are a head and how many zeros stand behind it.
  std::string right;
  for (std::size_t i = 0; i + 9 <= input.size() && right.size() < 20'000; i += 9) {
    const auto head = input.subspan(i, 8);
    const std::uint32_t crc = masked_crc32c(head);
    right.append(reinterpret_cast<const char*>(head.data()), head.size());
    right.append(reinterpret_cast<const char*>(&crc), sizeof crc);
    right.append(std::to_integer<std::size_t>(input[i + 8]) * 7, '\0');
  }
  for (const auto bytes : {input, std::as_bytes(std::span{right})}) {
    as_file(bytes, bytes.size(), [&](const HeaderFile& file) {
      const std::vector<std::uint64_t> data = find_tfrecords(file);
      must(!data.empty() && data.front() == tfrecord_head);
      must(data.back() == bytes.size() + tfrecord_head);
      for (std::size_t i = 1; i != data.size(); ++i) {
        must(data[i] - data[i - 1] >= tfrecord_head + tfrecord_tail);
      }
    });
  }
}
