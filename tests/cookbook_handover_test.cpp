// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Whether the recipes that hand batches over do what docs/handover.md says.

#include "cookbook/batch_queue.hpp"
#include "cookbook/give_back.hpp"
#include "cookbook/tensors.hpp"

#include "support/catch.hpp"
#include "support/temp_dir.hpp"
#include "support/watchdog.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <numeric>
#include <span>
#include <thread>
#include <vector>

namespace {

/// The C library: what it was sent waits for its thread.
struct Letter {
  const void* bytes;
  std::size_t size;
  void (*done)(void*);
  void* context;
};
struct Library {
  std::mutex mutex;
  std::vector<Letter> letters;
  std::vector<std::byte> got; // the thread's
};
Library library;

void send(const void* bytes, std::size_t size, void (*done)(void*), void* context) {
  const std::scoped_lock lock{library.mutex};
  library.letters.push_back({bytes, size, done, context});
}
/// Reads and gives back all that lies there, the newest first.
bool work() {
  std::vector<Letter> taken;
  {
    const std::scoped_lock lock{library.mutex};
    taken.swap(library.letters);
  }
  for (auto letter = taken.rbegin(); letter != taken.rend(); ++letter) {
    const auto* const bytes = static_cast<const std::byte*>(letter->bytes);
    library.got.insert(library.got.end(), bytes, bytes + letter->size);
    letter->done(letter->context);
  }
  return !taken.empty();
}

} // namespace

TEST_CASE("a C library gives batches back on its own thread, after the pipeline too") {
  const ps::tests::Watchdog watchdog{"a C library"};
  constexpr std::size_t count = 1000;
  std::size_t sent = 0;
  std::thread thread{[] {
    while (library.got.size() < count * sizeof(std::uint32_t)) {
      if (!work()) {
        std::this_thread::sleep_for(std::chrono::microseconds{50});
      }
    }
  }};
  {
    auto data =
        ps::Reader{ps::generate<std::uint32_t>(
                       count,
                       [](std::span<std::uint32_t> out, std::uint64_t first) {
                         std::iota(out.begin(), out.end(), static_cast<std::uint32_t>(first));
                       }),
                   {.batch = 50}} |
        ps::Decoder{[](const std::uint32_t& in, std::uint32_t& out) { out = in; }, {.depth = 4}};
    sent = send_all(data, send);
  }
  thread.join();
  CHECK(sent == 20);
  const std::span got{reinterpret_cast<const std::uint32_t*>(library.got.data()), count};
  CHECK(std::accumulate(got.begin(), got.end(), std::uint64_t{0}) == count * (count - 1) / 2);
}

TEST_CASE("several threads take the batches of one loop off a queue") {
  const ps::tests::Watchdog watchdog{"a queue of batches"};
  constexpr std::uint32_t count = 100'000;
  std::vector<std::uint32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0U);
  ps::HostDevice device;
  auto data =
      ps::Reader{ps::memory(numbers), {.batch = 100}} | ps::PinnedStager{device, {.depth = 4}};
  BatchQueue<ps::Batch<const std::uint32_t, ps::Pinned>> queue;
  std::array<std::uint64_t, 3> sums{};
  std::vector<std::thread> threads;
  for (std::uint64_t& sum : sums) {
    threads.emplace_back([&queue, &sum] {
      while (const auto batch = queue.take()) {
        sum = std::accumulate(batch.data(), batch.data() + batch.size(), sum);
      }
    });
  }
  queue.fill_from(data);
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(std::accumulate(sums.begin(), sums.end(), std::uint64_t{0}) ==
        std::uint64_t{count} * (count - 1) / 2);

  bool ended = false;
  std::thread waiting{[&] { ended = !queue.take(); }};
  auto missing = ps::Reader{ps::records<std::uint32_t>("/no/such/file")} |
                 ps::PinnedStager{device, {.depth = 4}};
  CHECK_THROWS_AS(queue.fill_from(missing), ps::Error);
  waiting.join();
  CHECK(ended);
}

TEST_CASE("tensors of a feed outlive it, and a tensor is a source") {
  const ps::tests::Watchdog watchdog{"tensors of a feed"};
  const ps::tests::TempDir dir;
  constexpr std::size_t count = 100;
  std::vector<std::uint8_t> pixels(count * 3 * 32 * 32);
  std::iota(pixels.begin(), pixels.end(), std::uint8_t{0});
  std::vector<std::int32_t> labels(count);
  std::iota(labels.begin(), labels.end(), 0);
  const auto images_file = dir.write("images", std::as_bytes(std::span{pixels}));
  const auto labels_file = dir.write("labels", std::as_bytes(std::span{labels}));

  std::vector<ps::dl::ManagedVersioned*> last;
  std::int32_t seen = 0;
  {
    TensorFeed<ps::HostDevice> feed{images_file, labels_file, 8};
    while (feed.next()) {
      for (ps::dl::ManagedVersioned* tensor : last) {
        std::thread{[&] { tensor->deleter(tensor); }}.join();
      }
      last = {feed.images({}), feed.labels({})};
      const auto& of_images = last[0]->dl_tensor;
      CHECK(of_images.ndim == 4);
      CHECK(static_cast<std::uint8_t*>(of_images.data)[5] ==
            pixels.at(static_cast<std::size_t>(seen) * 3 * 32 * 32 + 5));
      const auto& of_labels = last[1]->dl_tensor;
      for (std::int64_t i = 0; i != of_labels.shape[0]; ++i) {
        CHECK(static_cast<std::int32_t*>(of_labels.data)[i] == seen++);
      }
    }
  }
  CHECK(seen == count);
  CHECK(static_cast<std::int32_t*>(last[1]->dl_tensor.data)[3] == 99);
  for (ps::dl::ManagedVersioned* tensor : last) {
    tensor->deleter(tensor);
  }

  std::array<float, 4> values{1, 2, 3, 4};
  std::int64_t extent = 4;
  ps::dl::ManagedVersioned foreign{};
  foreign.version = {1, 0};
  foreign.dl_tensor = {values.data(), {ps::dl::cpu, 0}, 1, {2, 32, 1}, &extent, nullptr, 0};
  CHECK(sum_of(&foreign) == 10);
}
