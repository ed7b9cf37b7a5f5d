// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/compressed_files.hpp"

#include <penstock/formats/codec.hpp>
#include <penstock/formats/gzip.hpp>
#include <penstock/formats/lz4.hpp>
#include <penstock/formats/zstd.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>

namespace ps = penstock;
using namespace ps::tests;

static_assert(ps::Codec<ps::Zstd> && ps::Codec<ps::Lz4> && ps::Codec<ps::Gzip>);
static_assert(ps::Codec<ps::Lz4Block> && !ps::Lz4Block::streams);

namespace {

struct Done {
  std::string text;
  std::size_t frames = 0;
  bool inside = false; // a frame
  std::string why;
};

// Feeds a codec by pieces of at most these sizes.
template <class C>
Done decompress(C& codec, const std::string& compressed, std::size_t in, std::size_t out) {
  std::span<const std::byte> left = std::as_bytes(std::span{compressed});
  std::string room(out, '?');
  Done done;
  for (;;) {
    const ps::Decompressed got =
        codec.feed(left.first(std::min(in, left.size())), std::as_writable_bytes(std::span{room}));
    REQUIRE((got.used <= std::min(in, left.size()) && got.made <= out));
    left = left.subspan(got.used);
    done.text.append(room, 0, got.made);
    if (got.state == ps::Decompressed::State::damaged) {
      done.why = got.why;
      return done;
    }
    done.frames += got.state == ps::Decompressed::State::end;
    done.inside = got.state == ps::Decompressed::State::more;
    if (left.empty() && (!done.inside || got.made < out)) {
      return done;
    }
  }
}

template <class C> void check_frames(C codec, const std::string& compressed,
                                     const std::string& text, std::size_t frames) {
  for (const std::size_t in : {std::size_t{1}, std::size_t{7}, compressed.size()}) {
    for (const std::size_t out : {std::size_t{1}, std::size_t{1000}, text.size() + 1}) {
      const Done done = decompress(codec, compressed, in, out);
      INFO(C::name << ' ' << in << ' ' << out << ' ' << done.why);
      CHECK(done.text == text);
      CHECK(done.frames == frames);
      CHECK(!done.inside);
    }
  }
  C again = codec; // begins anew, with a state of its own
  CHECK(decompress(again, compressed, 7, 7).text == text);
  CHECK(decompress(codec, compressed.substr(0, compressed.size() / 2), 7, 7).inside);
  again = codec;
  CHECK(decompress(again, compressed, 7, 7).text == text);
  codec.restart();
  CHECK(decompress(codec, compressed, 7, 7).text == text);
}

template <class C> void check_flips(C codec, const std::string& compressed,
                                    const std::string& text) {
  std::mt19937_64 random{7};
  for (int i = 0; i < 300; ++i) {
    std::string bad = compressed;
    bad[random() % bad.size()] ^= static_cast<char>(1U << random() % 8);
    codec.restart();
    const Done done = decompress(codec, bad, 100, 1000);
    // Flags of a header may change without a change of the data.
    CHECK((!done.why.empty() || done.inside || done.text == text));
  }
}

const std::string text = numbered_lines(500);

} // namespace

TEST_CASE("a codec decompresses frames one after the other, in pieces of any size") {
  const std::string empty;
  check_frames(ps::Zstd{}, zstd_frame(text) + zstd_frame(empty) + zstd_frame(text, false),
               text + text, 3);
  check_frames(ps::Zstd{}, skippable_frame() + zstd_frame(text), text, 2);
  check_frames(ps::Lz4{}, lz4_frame(text) + lz4_frame(empty) + lz4_frame(text, false), text + text,
               3);
  check_frames(ps::Lz4{}, skippable_frame() + lz4_frame(text), text, 2);
  check_frames(ps::Gzip{}, gzip_member(text) + gzip_member(empty) + gzip_member(text), text + text,
               3);
}

TEST_CASE("a codec says of damaged frames that they are") {
  check_flips(ps::Zstd{}, zstd_frame(text), text);
  check_flips(ps::Lz4{}, lz4_frame(text), text);
  check_flips(ps::Gzip{}, gzip_member(text), text);
}

TEST_CASE("a codec says what is wrong") {
  const auto why = [](auto codec, const std::string& compressed) {
    return decompress(codec, compressed, 100, 10'000).why;
  };
  const auto has = [](const std::string& said, std::string_view part) {
    INFO(said);
    return said.find(part) != std::string::npos;
  };
  CHECK(has(why(ps::Zstd{}, zstd_frame(text) + "garbage"), "begin no zstd frame"));
  CHECK(has(why(ps::Lz4{}, lz4_frame(text) + "garbage"), "begin no LZ4 frame"));
  CHECK(has(why(ps::Gzip{}, gzip_member(text) + "garbage"), "begin no gzip member"));
  for (const std::size_t back : {1U, 4U}) { // of a checksum
    std::string bad = zstd_frame(text);
    bad[bad.size() - back] ^= 1;
    CHECK(has(why(ps::Zstd{}, bad), "checksum"));
    bad = lz4_frame(text);
    bad[bad.size() - back] ^= 1;
    CHECK(has(why(ps::Lz4{}, bad), "checksum"));
    bad = gzip_member(text);
    bad[bad.size() - back] ^= 1; // of the size
    CHECK(has(why(ps::Gzip{}, bad), "size"));
  }
  CHECK(has(why(ps::Lz4{}, std::string("\x02\x21\x4c\x18", 4)), "lz4 -l"));
  CHECK(has(why(ps::Lz4{}, std::string("\x04\x22\x4d\x18\x41\x40\x07\0\0\0\0", 11)), "dictionary"));
  // A window of 2^28 bytes: 10 + 18 in the byte for it.
  const std::string large("\x28\xb5\x2f\xfd\0\x90\1\0\0", 9);
  CHECK(has(why(ps::Zstd{}, large), ".window_log"));
  CHECK(why(ps::Zstd{{.window_log = 28}}, large).empty());
  // One that needs dictionary number 5.
  CHECK(has(why(ps::Zstd{}, std::string("\x28\xb5\x2f\xfd\1\x58\5\1\0\0", 10)), "dictionary"));
}

TEST_CASE("a codec says how many bytes a frame claims to hold") {
  const auto claimed = [](const auto& codec, const std::string& compressed) {
    return codec.claimed(std::as_bytes(std::span{compressed}));
  };
  CHECK(claimed(ps::Zstd{}, zstd_frame(text)) == text.size());
  CHECK(claimed(ps::Zstd{}, zstd_frame(text, false)) == std::nullopt);
  CHECK(claimed(ps::Zstd{}, skippable_frame()) == 0U);
  CHECK(claimed(ps::Zstd{}, "no frame") == 0U);
  CHECK(claimed(ps::Lz4{}, lz4_frame(text)) == text.size());
  CHECK(claimed(ps::Lz4{}, lz4_frame(text, false)) == std::nullopt);
  CHECK(claimed(ps::Lz4{}, skippable_frame()) == 0U);
  CHECK(claimed(ps::Gzip{}, gzip_member(text)) == text.size());
  CHECK(claimed(ps::Gzip{}, "") == 0U);
  CHECK(claimed(ps::Lz4Block{}, lz4_block(text)) == std::nullopt);
  CHECK(claimed(ps::Lz4Block{{.sized = true}}, std::string("\1\2\0\0x", 5)) == 513U);
}

TEST_CASE("an LZ4 block comes out whole or not at all") {
  const std::string compressed = lz4_block(text);
  std::string room(text.size(), '?');
  ps::Lz4Block codec;
  const auto in = std::as_bytes(std::span{compressed});
  const auto out = std::as_writable_bytes(std::span{room});
  const ps::Decompressed done = codec.feed(in, out);
  CHECK((done.state == ps::Decompressed::State::end && done.used == compressed.size()));
  CHECK(room == text);
  CHECK(codec.feed(in, out.first(out.size() - 1)).state == ps::Decompressed::State::damaged);
  CHECK(codec.feed(in.first(in.size() - 1), out).state == ps::Decompressed::State::damaged);
  CHECK(codec.feed({}, out).state == ps::Decompressed::State::damaged);
  const std::string empty = lz4_block("");
  CHECK(codec.feed(std::as_bytes(std::span{empty}), {}).state == ps::Decompressed::State::end);
}
