// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/order/order.hpp>
#include <penstock/run/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

namespace weights {

/// What came of loading a model.
struct Outcome {
  std::size_t tensors;
  std::uint64_t bytes;
  double open_s;               // until the headers were read
  double memory_s;             // until each device of this process had memory
  std::vector<double> seconds; // until each device had read its share and given it to the others
  std::optional<double> links; // bytes a second of all GPUs' links at once
  std::string way;             // how the shares were gathered; empty: there was one
  penstock::Ranks ranks;

  void print(bool json) const {
    const double last = *std::max_element(seconds.begin(), seconds.end());
    const double per_s = static_cast<double>(bytes) / last;
    const double of_links = per_s / links.value_or(1);
    if (json) {
      print_json(last, per_s, of_links);
      return;
    }
    std::cout << tensors << " tensors, " << bytes << " bytes, in " << last << " s: " << per_s / 1e9
              << " GB/s";
    if (links) {
      std::cout << ", " << of_links << (seconds.size() == 1 ? " of the link" : " of all links");
    }
    if (!way.empty()) {
      std::cout << ", on each of " << seconds.size() << " devices, gathered by " << way;
    }
    if (way.empty() && ranks.world != 1) {
      std::cout << ", without NCCL: each of " << ranks.world << " ranks has read everything";
    }
    std::cout << '\n';
  }

 private:
  void print_json(double last, double per_s, double of_links) const {
    using penstock::Json;
    const auto devices = static_cast<double>(seconds.size());
    std::vector<Json::Member> all{{"bytes", bytes},
                                  {"seconds", last},
                                  {"gb_per_s", per_s / 1e9},
                                  {"of_link", links ? Json{of_links * devices} : Json{nullptr}},
                                  {"of_links", links ? Json{of_links} : Json{nullptr}},
                                  {"gpus", links ? seconds.size() : 0},
                                  {"device_seconds", Json::array({seconds.begin(), seconds.end()})},
                                  {"gathered_by", way.empty() ? Json{nullptr} : Json{way}},
                                  {"memory_s", memory_s},
                                  {"open_s", open_s}};
    if (ranks.world != 1) {
      all.insert(all.end(), {{"rank", ranks.rank}, {"world", ranks.world}});
    }
    std::cout << Json::object(all).text() + '\n'; // at once: other ranks write there, too
  }
};

} // namespace weights
