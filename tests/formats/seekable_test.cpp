// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/compressed_files.hpp"
#include "support/faulty_io.hpp"
#include "support/temp_dir.hpp"

#include <penstock/formats/detail/xxhash.hpp>
#include <penstock/formats/gzip.hpp>
#include <penstock/formats/libdeflate.hpp>
#include <penstock/formats/lines.hpp>
#include <penstock/formats/lz4.hpp>
#include <penstock/formats/seekable.hpp>
#include <penstock/formats/zstd.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace ps = penstock;
using namespace ps::tests;

static_assert(ps::FramedCodec<ps::Zstd> && ps::FramedCodec<ps::Lz4> && ps::FramedCodec<ps::Gzip> &&
              ps::FramedCodec<ps::GzipRecord> && !ps::FramedCodec<ps::Lz4Block>);

namespace {

const std::string text = numbered_lines(30'000);

std::string zstd_frames(const std::string& all, std::size_t each = 100'000) {
  return in_frames(all, each, [](const std::string& some) { return zstd_frame(some); });
}
std::string bgzf(const std::string& all) {
  return in_frames(all, 0xff00, bgzf_block) + bgzf_block("");
}

// Reads what comes out of a file, in parts of some bytes.
template <class C>
std::string all_of(const std::string& path, C codec, std::size_t each,
                   ps::SeekableOptions options = {}) {
  const auto io = ps::seekable(codec, options);
  const ps::File file{io, path};
  std::string all(file.size(), '\0');
  const auto bytes = std::as_writable_bytes(std::span{all});
  for (std::size_t at = 0; at < all.size(); at += each) {
    ps::read_full(file, at, bytes.subspan(at, std::min(each, all.size() - at)));
  }
  return all;
}
template <class C> void check_is_text(const std::string& compressed, C codec) {
  const TempDir dir;
  const std::string path = dir.write("packed", compressed);
  for (const std::size_t each : {text.size(), std::size_t{100'000}, std::size_t{777}}) {
    CHECK(all_of(path, codec, each) == text);
    CHECK(all_of(path, codec, each, {.keep = 0}) == text);
  }
}
template <class C>
void check_refused(const std::string& compressed, C codec, const std::string& part,
                   ps::SeekableOptions options = {}) {
  const TempDir dir;
  const std::string path = dir.write("packed", compressed);
  const auto e = caught<ps::SourceError>([&] { all_of(path, codec, 1 << 20, options); });
  INFO(e.what());
  CHECK(e.file() == path);
  CHECK(std::string{e.what()}.find(path) != std::string::npos);
  CHECK(std::string{e.what()}.find(part) != std::string::npos);
}
std::string with(std::string bytes, std::size_t at, char byte) {
  bytes.at(at) = byte;
  return bytes;
}

} // namespace

TEST_CASE("what comes out of many frames is read as a file, in parts of any size") {
  for (const bool checked : {false, true}) {
    check_is_text(seekable_zstd(text, 100'000, checked), ps::Zstd{});
    check_is_text(lz4_blocks(text, checked, !checked), ps::Lz4{});
    check_is_text(lz4_blocks(text, checked, checked), ps::Lz4{});
  }
  check_is_text(zstd_frames(text), ps::Zstd{});
  check_is_text(skippable_frame() + zstd_frames(text, 250) + zstd_frame(""), ps::Zstd{});
  check_is_text(lz4_blocks(text, true, false, true), ps::Lz4{});
  const auto sized = [](const std::string& some) { return lz4_frame(some); };
  check_is_text(skippable_frame() + in_frames(text, 40'000, sized) + lz4_frame(""), ps::Lz4{});
  const auto unsized = [](const std::string& some) { return lz4_blocks(some, false, true); };
  check_is_text(in_frames(text, 150'000, unsized), ps::Lz4{});
  check_is_text(bgzf(text), ps::Gzip{});
  check_is_text(bgzf(text), ps::GzipRecord{});
  // Of two tables only the last lies at the end, and it is not the file's.
  const std::size_t half = text.size() / 2;
  const auto sized_table = [](const std::string& some) {
    SeekableZstd one;
    one.add(zstd_frame(some), some.size(), false);
    return one.file(false);
  };
  check_is_text(sized_table(text.substr(0, half)) + sized_table(text.substr(half)), ps::Zstd{});
}

TEST_CASE("files that hold nothing are empty") {
  for (const std::string& nothing :
       {std::string{}, skippable_frame(), zstd_frame(""), seekable_zstd("", 1, true)}) {
    const TempDir dir;
    CHECK(all_of(dir.write("packed", nothing), ps::Zstd{}, 1).empty());
  }
  const TempDir dir;
  CHECK(all_of(dir.write("packed", bgzf("")), ps::Gzip{}, 1).empty());
  CHECK(all_of(dir.write("packed4", lz4_frame("")), ps::Lz4{}, 1).empty());
}

TEST_CASE("xxhash() is the checksum that frames of zstd and LZ4 have") {
  for (std::size_t bytes = 0; bytes != 150; ++bytes) {
    const std::string some = text.substr(bytes, bytes);
    const auto as_bytes = std::as_bytes(std::span{some});
    const std::string zstd = zstd_frame(some);
    CHECK(little_endian(ps::detail::xxhash<std::uint64_t>(as_bytes), 4) ==
          zstd.substr(zstd.size() - 4));
    const std::string lz4 = lz4_frame(some);
    CHECK(little_endian(ps::detail::xxhash<std::uint32_t>(as_bytes), 4) ==
          lz4.substr(lz4.size() - 4));
  }
}

TEST_CASE("files with other bytes than their frames say are refused with file and byte") {
  const std::string frames = zstd_frames(text);
  const std::string first = zstd_frame(text.substr(0, 100'000));
  check_refused(frames + "garbage", ps::Zstd{}, "at byte " + std::to_string(frames.size()));
  check_refused(frames.substr(0, frames.size() - 1), ps::Zstd{}, "it was cut");
  check_refused(frames.substr(0, first.size() + 3), ps::Zstd{}, "it was cut");
  check_refused(frames + skippable_frame().substr(0, 9), ps::Zstd{}, "it was cut");
  check_refused(zstd_frame(text, false), ps::Zstd{}, "does not say how many bytes");
  check_refused(with(frames, first.size() - 1, 'x'), ps::Zstd{}, "a checksum that does not fit");
  check_refused(zstd_frame(text), ps::Zstd{}, ".most allows 1000", {.most = 1000});

  const std::string bgz = bgzf(text);
  check_refused(bgz + "garbage and more than a block has", ps::Gzip{}, "begin no gzip member");
  check_refused(bgz.substr(0, bgz.size() - 1), ps::Gzip{}, "it was cut");
  check_refused(in_frames(text, 0xff00, bgzf_block), ps::Gzip{}, "no empty block ends the file");
  check_refused(gzip_member(text), ps::Gzip{}, "does not say how many bytes it has");
  const std::string block = bgzf_block(text.substr(0, 0xff00));
  for (const char lie : {'\xfe', '\1'}) { // other bytes come out than it says
    const std::string lying = with(block, block.size() - 3, lie);
    check_refused(lying + bgzf_block(""), ps::Gzip{}, "the frame at byte 0");
    check_refused(lying + bgzf_block(""), ps::GzipRecord{}, "the frame at byte 0");
  }
  check_refused(with(block, block.size() - 1, '\x7f') + bgzf_block(""), ps::Gzip{}, ".most allows");

  const std::string lz4 = lz4_blocks(text, false, true);
  check_refused(lz4 + "garbage", ps::Lz4{}, "begin no LZ4 frame");
  check_refused(lz4.substr(0, lz4.size() - 1), ps::Lz4{}, "it was cut");
  check_refused(lz4.substr(0, 1000), ps::Lz4{}, "it was cut");
  check_refused(with(lz4, 100, static_cast<char>(lz4[100] ^ 1)), ps::Lz4{}, "a checksum");
  check_refused(with(lz4, 9, '\x7f'), ps::Lz4{}, "larger than its frame allows");
  check_refused(with(lz4, 4, static_cast<char>(lz4[4] | 1)), ps::Lz4{}, "needs a dictionary");
  check_refused(lz4_blocks(text, false, false, true), ps::Lz4{}, "depend on each other");
  check_refused(lz4_blocks(text, true, false, true), ps::Lz4{}, ".most allows", {.most = 1000});
}

TEST_CASE("a seek table that lies is found out, or passed over for what frames say") {
  const std::string some = text.substr(0, 50'000);
  const std::string frame = zstd_frame(some, false);
  const auto file = [&](std::uint64_t says, bool checked) {
    SeekableZstd all;
    all.add(zstd_frame("first"), 5, checked);
    all.add(frame, says, checked);
    return all.file(checked);
  };
  const std::string place = "the frame at byte " + std::to_string(zstd_frame("first").size());
  check_refused(file(some.size() + 1, false), ps::Zstd{}, place);
  check_refused(file(some.size() - 1, false), ps::Zstd{}, place);
  check_refused(file(0, false), ps::Zstd{}, "nothing comes out");
  check_refused(file(std::uint64_t{1} << 31, false), ps::Zstd{}, ".most allows");
  const std::string checked = file(some.size(), true);
  const std::size_t last_check = checked.size() - 10;
  check_refused(with(checked, last_check, static_cast<char>(checked[last_check] ^ 1)), ps::Zstd{},
                "another checksum than the seek table says");
  // A table of other sizes, or of too many frames, does not fit: the frames do not say their sizes.
  for (const std::size_t at : {std::size_t{33}, std::size_t{9}, std::size_t{5}}) {
    const std::size_t byte = checked.size() - at;
    check_refused(with(checked, byte, static_cast<char>(checked[byte] ^ 0x40)), ps::Zstd{},
                  "no seek table that fits");
  }
  SeekableZstd huge;
  huge.add(zstd_frame(std::string(200'000, 'a')), 1, false);
  huge.add(std::string(70'000, '\0'), 1, false);
  check_refused(huge.file(false), ps::Zstd{}, "a frame of 70000 bytes says that it holds 1");
}

TEST_CASE("each flip of a bit and each cut gives the same bytes or one error") {
  const std::string some = text.substr(0, 3000);
  const std::string lz4 = lz4_blocks(some, false, true);
  std::mt19937 dice{53};
  const auto check_all = [&](const std::string& good, auto codec) {
    for (int i = 0; i != 600; ++i) {
      std::string bad = good;
      bad[dice() % bad.size()] ^= static_cast<char>(1 << dice() % 8);
      bad.resize(i % 3 == 0 ? dice() % bad.size() : bad.size());
      const TempDir dir;
      const std::string path = dir.write("packed", bad);
      try {
        const std::string got = all_of(path, codec, 1000);
        // A cut between frames or a header's unused bit is no damage that anyone could see.
        CHECK((got == some.substr(0, got.size())));
      } catch (const ps::SourceError& e) {
        CHECK(e.file() == path);
      }
    }
  };
  check_all(seekable_zstd(some, 700, true), ps::Zstd{});
  check_all(zstd_frames(some, 700), ps::Zstd{});
  check_all(in_frames(some, 700, bgzf_block) + bgzf_block(""), ps::Gzip{});
  check_all(in_frames(some, 700, bgzf_block) + bgzf_block(""), ps::GzipRecord{});
  check_all(lz4, ps::Lz4{});
}

TEST_CASE("many threads read parts of the same frames") {
  const TempDir dir;
  const std::string path = dir.write("packed", zstd_frames(text, 40'000));
  const auto io = ps::seekable(ps::Zstd{}, {.keep = 100'000});
  const ps::File file{io, path};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed != 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 dice{seed};
      std::string some;
      for (int i = 0; i != 300; ++i) {
        const std::size_t at = dice() % text.size();
        some.resize(std::min<std::size_t>(1 + dice() % 60'000, text.size() - at));
        ps::read_full(file, at, std::as_writable_bytes(std::span{some}));
        wrong += text.compare(at, some.size(), some) != 0;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(wrong == 0);
}

TEST_CASE("a call of the system that fails is named, and a file of another size is found again") {
  const TempDir dir;
  const std::string path = dir.write("packed", zstd_frames(text));
  const auto read = [&](const auto& io) {
    const ps::File file{io, path};
    std::string all(file.size(), '\0');
    ps::read_full(file, 0, std::as_writable_bytes(std::span{all}));
    CHECK(all == text);
  };
  const FaultyIo counted;
  read(ps::seekable(ps::Zstd{}, {}, counted));
  for (long number = 1; number <= counted.calls(); ++number) {
    const FaultyIo faulty{IoFaults::fail_once(number, EIO)};
    try {
      read(ps::seekable(ps::Zstd{}, {}, faulty));
    } catch (const ps::SourceError& e) {
      CHECK(e.file() == path);
    }
    CHECK(faulty.failures() == 1);
    CHECK(faulty.open_now() == 0);
  }
  IoFaults few;
  few.most_bytes = 5;
  read(ps::seekable(ps::Zstd{}, {}, FaultyIo{few}));
  const auto io = ps::seekable(ps::Zstd{});
  read(io);
  dir.write("packed", zstd_frame("another"));
  CHECK(ps::File{io, path}.size() == 7);
}

TEST_CASE("a .most that no frame can have is refused") {
  CHECK_THROWS_AS(ps::seekable(ps::Zstd{}, {.most = std::uint64_t{1} << 31}), ps::OptionError);
}
