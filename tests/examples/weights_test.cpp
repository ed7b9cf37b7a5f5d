// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What several devices share the reading of a model by in examples/18_load_weights.cpp: where
// tensors lie, which bytes are whose, and what brings them to all.

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/safetensors_files.hpp"
#include "support/temp_dir.hpp"

#include "../../examples/support/devices.hpp"
#include "../../examples/support/in_threads.hpp"
#include "../../examples/support/weights/check.hpp"
#include "../../examples/support/weights/layout.hpp"
#include "../../examples/support/weights/options.hpp"
#include "../../examples/support/weights/peer_team.hpp"
#include "../../examples/support/weights/share.hpp"

#include <penstock/formats/safetensors.hpp>
#include <penstock/io/crc32c.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace ps = penstock;
using namespace weights;
using ps::tests::caught;
using ps::tests::TempDir;
using namespace ps::tests::safetensors;

namespace {

/// Tensors of these sizes, one behind the other in the source.
std::vector<ps::TensorInfo> tensors_of(const std::vector<std::uint64_t>& sizes) {
  std::vector<ps::TensorInfo> tensors;
  std::uint64_t at = 0;
  for (const std::uint64_t bytes : sizes) {
    tensors.emplace_back();
    tensors.back().bytes = bytes;
    tensors.back().at = at;
    at += bytes;
  }
  return tensors;
}

const std::vector<std::vector<std::uint64_t>> models{
    {},           {0},       {0, 0, 0},           {1},
    {1, 0, 1, 0}, {256, 10}, {5000, 0, 1, 70000}, {3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3}};

/// A file of some tensors, one of them without bytes.
std::string some_file() {
  const std::uint64_t sizes[]{1000, 0, 77, 5000, 1};
  std::string header = "{";
  std::uint64_t at = 0;
  for (const std::uint64_t bytes : sizes) {
    header += (at == 0 ? "" : ",") + entry("t" + std::to_string(header.size()), "U8",
                                           '[' + std::to_string(bytes) + ']', at, at + bytes);
    at += bytes;
  }
  return file_of(header + '}', at);
}

/// Calls `f(layout)` for all models, numbers of shares and sizes of pieces.
template <class F> void for_all_layouts(F f) {
  for (const auto& sizes : models) {
    const std::vector<ps::TensorInfo> tensors = tensors_of(sizes);
    for (const std::size_t shares : {1, 2, 3, 8}) {
      for (const std::uint64_t piece : {1, 256, 1000, 1 << 20}) {
        INFO(sizes.size() << " tensors, " << shares << " shares, pieces of " << piece);
        f(Layout{tensors, shares, piece}, tensors);
      }
    }
  }
}

} // namespace

TEST_CASE("rows of equally large pieces cover all tensors, without gaps") {
  for_all_layouts([](const Layout& layout, const std::vector<ps::TensorInfo>& tensors) {
    std::uint64_t at = 0;
    for (std::size_t i = 0; i != layout.rows(); ++i) {
      const Row row = layout.row(i);
      CHECK(row.at == at);
      CHECK(row.each % 256 == 0);
      CHECK((row.each > 0 && row.each <= layout.row(0).each));
      at += row.each * layout.shares();
    }
    CHECK(at == layout.bytes());
    std::uint64_t end = 0;
    for (std::size_t i = 0; i != tensors.size(); ++i) {
      CHECK(layout.place(i) % 256 == 0);
      CHECK(layout.place(i) >= end);
      end = layout.place(i) + tensors[i].bytes;
    }
    CHECK(end <= layout.bytes());
    CHECK(layout.bytes() < end + 256 * (layout.shares() + 1));
  });
}

TEST_CASE("each byte of the source is in one piece, where the tensor lies that has it") {
  for_all_layouts([](const Layout& layout, const std::vector<ps::TensorInfo>& tensors) {
    const std::uint64_t all = tensors.empty() ? 0 : tensors.back().at + tensors.back().bytes;
    std::uint64_t at = 0;
    for (std::size_t i = 0; i != layout.rows(); ++i) {
      const Row row = layout.row(i);
      for (std::size_t share = 0; share != layout.shares(); ++share) {
        const std::uint64_t begin = row.at + share * row.each;
        REQUIRE(layout.before(begin) == at);
        const std::uint64_t end = layout.before_end(i, share);
        layout.each_part(at, end - at, [&](std::uint64_t place, std::uint64_t bytes) {
          CHECK((place >= begin && place + bytes <= begin + row.each));
          const auto tensor =
              std::find_if(tensors.begin(), tensors.end(), [&](const ps::TensorInfo& one) {
                return one.at <= at && at + bytes <= one.at + one.bytes;
              });
          REQUIRE(tensor != tensors.end());
          CHECK(place - layout.place(static_cast<std::size_t>(tensor - tensors.begin())) ==
                at - tensor->at);
          at += bytes;
        });
        CHECK(at == end);
      }
    }
    CHECK(at == all);
  });
}

TEST_CASE("a share is a source of its pieces' bytes") {
  const TempDir dir;
  const std::string file = some_file();
  auto model = ps::safetensors(dir.write("one", file));
  model.open();
  std::vector<std::byte> whole(model.size());
  model.read_bytes(0, whole);
  for (const std::size_t shares : {1, 2, 3, 40}) {
    const Layout layout{model.tensors(), shares, 256};
    std::vector<std::byte> found(whole.size());
    std::vector<int> times(whole.size());
    for (std::size_t number = 0; number != shares; ++number) {
      const Share share{model, layout, number};
      std::uint64_t records = 0;
      auto pipeline = ps::Reader{share, {.batch = 100}} |
                      ps::Decoder{[](const std::byte& in, std::byte& out) { out = in; }};
      for (auto batch : pipeline.batches()) {
        const std::byte* from = batch.data();
        share.each_run(batch.index(), batch.size(), [&](std::uint64_t at, std::uint64_t bytes) {
          for (std::uint64_t i = at; i != at + bytes; ++i) {
            found.at(i) = *from++;
            ++times.at(i);
          }
        });
        records += batch.size();
      }
      CHECK(records == share.size());
    }
    CHECK(found == whole);
    CHECK(times == std::vector<int>(whole.size(), 1));
  }
}

TEST_CASE("a file that has gone or shrunk since it was read is what the check names") {
  const TempDir dir;
  const std::string path = dir.write("one", "123456");
  ps::TensorInfo tensor;
  tensor.offset = 1;
  tensor.bytes = 5;
  const std::string bytes = "23456";
  CHECK(crc_in_file(path, tensor) == ps::crc32c(std::as_bytes(std::span{bytes})));
  const auto error = [&](const std::string& of) {
    return std::string{caught<std::runtime_error>([&] { crc_in_file(of, tensor); }).what()};
  };
  tensor.bytes = 6;
  CHECK(error(path) == path + " shrank before all was checked: leave a file alone as long as it is "
                              "read");
  CHECK(error(path + "x") == "cannot open " + path + "x again: No such file or directory");
}

TEST_CASE("models have different texts unless their tensors differ in their bytes alone") {
  const auto text = [](const char* name, ps::TensorType type, std::vector<std::uint64_t> shape,
                       std::uint64_t bytes) {
    std::vector<ps::TensorInfo> tensors = tensors_of({7, bytes});
    tensors.back().name = name;
    tensors.back().type = type;
    tensors.back().shape = std::move(shape);
    return text_of(tensors);
  };
  const std::string one = text("a", ps::TensorType::u8, {2, 6}, 12);
  CHECK(text("a", ps::TensorType::u8, {2, 6}, 12) == one);
  CHECK(text("b", ps::TensorType::u8, {2, 6}, 12) != one);
  CHECK(text("a", ps::TensorType::i8, {2, 6}, 12) != one);
  CHECK(text("a", ps::TensorType::u8, {26}, 12) != one);
  CHECK(text("a", ps::TensorType::u8, {2, 6}, 13) != one);
  CHECK(text_of({}) != one);
}

TEST_CASE("a rank that sees one GPU alone takes that") {
  CHECK(gpu_of(0, 1) == 0);
  CHECK(gpu_of(3, 1) == 0);
  CHECK(gpu_of(0, 2) == 0);
  CHECK(gpu_of(1, 2) == 1);
  CHECK(gpu_of(2, 2) == 2); // which CudaDevice refuses
}

TEST_CASE("what a device has read comes to all others") {
  const std::vector<ps::TensorInfo> tensors = tensors_of({3000, 0, 500});
  for (const std::size_t count : {1, 2, 5}) {
    const Layout layout{tensors, count, 256};
    REQUIRE(layout.rows() > 1);
    std::deque<ps::HostDevice> devices(count);
    PeerTeam team{devices};
    CHECK(team.way() == (count == 1 ? "" : "copies on the host"));
    std::vector<std::vector<std::byte>> memories(count, std::vector<std::byte>(layout.bytes()));
    std::vector<std::byte*> at;
    for (auto& memory : memories) {
      at.push_back(memory.data());
    }
    std::vector<std::byte> wanted(layout.bytes());
    for (std::size_t i = 0; i != count; ++i) {
      auto gather = team.gather(i, at);
      auto stream = devices[i].stream();
      for (std::size_t number = 0; number != layout.rows(); ++number) {
        const Row row = layout.row(number);
        const std::uint64_t begin = row.at + i * row.each;
        const auto value = static_cast<std::byte>(1 + number * count + i);
        std::fill_n(wanted.begin() + static_cast<std::ptrdiff_t>(begin), row.each, value);
        // Late: a copy that does not wait for what is on the stream finds nothing.
        stream.enqueue([to = at[i] + begin, value, bytes = row.each] {
          std::this_thread::sleep_for(std::chrono::milliseconds{2});
          std::fill_n(to, bytes, value);
        });
        gather.row(stream, row);
      }
      gather.finish();
    }
    for (const auto& memory : memories) {
      CHECK(memory == wanted);
    }
  }
}

TEST_CASE("in_threads throws the first exception when all threads are done, and stops the others") {
  std::atomic<int> done{0};
  std::atomic<int> stopped{0};
  const auto error = caught<std::runtime_error>([&] {
    in_threads(4, [&](std::size_t i, const std::stop_token& stop) {
      if (i == 2) {
        throw std::runtime_error{"the first"};
      }
      for (int k = 0; k < 10'000 && !stop.stop_requested(); ++k) {
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
      }
      stopped += stop.stop_requested();
      ++done;
      throw std::runtime_error{"a later one"};
    });
  });
  CHECK(std::string{error.what()} == "the first");
  CHECK(done == 3);
  CHECK(stopped == 3);
}

TEST_CASE("in_threads calls once for each number, also for one, and on this thread for the first") {
  for (const std::size_t count : {1, 5}) {
    std::vector<std::thread::id> threads(count);
    std::atomic<bool> stopped{false};
    in_threads(count, [&](std::size_t i, const std::stop_token& stop) {
      stopped = stopped || stop.stop_requested();
      threads.at(i) = std::this_thread::get_id();
    });
    CHECK_FALSE(stopped);
    CHECK(threads[0] == std::this_thread::get_id());
    std::sort(threads.begin(), threads.end());
    CHECK(std::adjacent_find(threads.begin(), threads.end()) == threads.end());
    CHECK(threads[0] != std::thread::id{});
  }
}

TEST_CASE("the options take whole numbers that can be, and name what they do not take") {
  const auto parsed = [](std::vector<std::string> words) {
    std::vector<char*> args{nullptr};
    for (std::string& word : words) {
      args.push_back(word.data());
    }
    return Options{static_cast<int>(args.size()), args.data()};
  };
  CHECK(parsed({}).gpus == 0);
  CHECK(parsed({}).piece == std::uint64_t{32} << 20);
  const Options some = parsed({"--gpus", "64", "a", "--piece", "1", "--check", "b", "--json"});
  CHECK(some.gpus == 64);
  CHECK(some.piece == 1);
  CHECK(some.check);
  CHECK(some.json);
  CHECK(some.files == std::vector<std::string>{"a", "b"});
  const auto refusal = [&](const std::vector<std::string>& words) {
    return std::string{caught<std::invalid_argument>([&] { parsed(words); }).what()};
  };
  for (const std::string wrong : {"0", "65", "", "two", "-1", "1 ", "18446744073709551617"}) {
    CHECK(refusal({"--gpus", wrong}) ==
          "--gpus takes a number from 1 to 64, and \"" + wrong + "\" is none.");
  }
  CHECK(refusal({"--piece"}) == "--piece has nothing behind it: give a number of bytes");
  CHECK(refusal({"--gpu", "2"}).starts_with("what is \"--gpu\"? Usage: 18_load_weights "));
}
