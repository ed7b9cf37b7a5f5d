// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/penstock.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ps = penstock;

struct Document : ps::Columns<ps::Field<"tokens", ps::Ragged<std::uint16_t>>> {};
struct Window {
  std::uint16_t tokens[128];
};

/// Keeps the documents that have at least so many tokens.
inline auto of_length(std::size_t least) {
  return ps::Decoder{[least](ps::Row<const Document> in, ps::Output<Document>& out) {
    if (const auto tokens = ps::get<"tokens">(in); tokens.size() >= least) {
      std::copy_n(tokens.data(), tokens.size(), ps::put<"tokens">(out.add(), tokens.size()));
    }
  }};
}

/// Packs documents, 64 at a time, into windows. A 0 ends a document, others fill the last window.
inline auto packed() {
  using Documents = ps::Batch<const Document, ps::Pageable>;
  const auto pack = [](Documents documents, ps::Output<Window>& out) {
    constexpr std::size_t room = std::size(Window{}.tokens);
    const auto all = ps::get<"tokens">(documents);
    std::size_t count = all.size();
    for (std::size_t i = 0; i != all.size(); ++i) {
      count += all[i].size();
    }
    out.open((count + room - 1) / room); // the windows then need not be copied
    Window* window = nullptr;
    std::size_t at = room;
    const auto put = [&](std::uint16_t token) {
      if (at == room) {
        window = &out.add();
        at = 0;
      }
      window->tokens[at++] = token;
    };
    for (std::size_t i = 0; i != all.size(); ++i) {
      std::for_each_n(all[i].data(), all[i].size(), put);
      put(0);
    }
    if (window) {
      std::fill(window->tokens + at, std::end(window->tokens), std::uint16_t{0});
    }
  };
  return ps::Decoder{pack, {.group = 64}};
}

/// Calls `step` with each batch for as long as all ranks have one: all_have(mine) asks them.
template <class Data, class Step, class AllHave>
void in_step(Data& data, Step step, AllHave all_have) {
  auto run = data.batches();
  for (auto batch = run.next(); all_have(static_cast<bool>(batch)); batch = run.next()) {
    step(batch);
  }
}
