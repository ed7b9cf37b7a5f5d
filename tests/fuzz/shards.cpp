// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Reads any bytes as an index of shards. What is taken opens nothing: each shard lies in the
// folder of the index by its path.

#include "fuzz/target.hpp"

#include <penstock/error.hpp>
#include <penstock/formats/safetensors.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace ps = penstock;

PENSTOCK_FUZZ_TARGET(fuzz_shards) {
  const std::string path = "dir/model.safetensors.index.json";
  try {
    ps::detail::ShardIndexes indexes;
    indexes.read({reinterpret_cast<const char*>(input.data()), input.size()}, path);
    indexes.check_files({});
  } catch (const ps::SourceError& error) {
    must(error.file() == path && error.offset() <= input.size());
  }
}
