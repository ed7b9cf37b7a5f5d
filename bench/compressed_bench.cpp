// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How near do compressed files get to threads by hand?
//
// Files of made-up JSON lines are decompressed, from the page cache, and their lines counted:
//
//   compressed/interleaved/zstd    by ps::interleaved, with as many threads as --threads=N says
//   compressed/by_hand/zstd        by so many threads, each of which takes the next file
//   compressed/interleaved/gzip
//   compressed/by_hand/gzip
//   compressed/seekable/zstd       lines of one file of frames of 1 MiB, by ps::seekable
//   compressed/seekable_by_hand/zstd
//                                  by threads, each of which takes the next frame
//   compressed/frames/zstd         a TFRecord file whose records are frames, by ps::decompressed
//   compressed/frames_by_hand/zstd by so many threads, each of which takes the next 16 frames
//
// Time is a wall's; the label says how many CPU seconds a GB that came out took. Each of --files=N
// files holds --text=BYTES; --at-once=N of them are taken in turn. They lie in --folder=PATH,
// /dev/shm if it is not said. To be run with
// --benchmark_repetitions=5 --benchmark_enable_random_interleaving=true. It needs no GPU.

#include "support/contender.hpp"
#include "support/cpu_time.hpp"
#include "support/threads.hpp"

#include <penstock/formats/decompressed.hpp>
#include <penstock/formats/gzip.hpp>
#include <penstock/formats/interleaved.hpp>
#include <penstock/formats/lines.hpp>
#include <penstock/formats/seekable.hpp>
#include <penstock/formats/tfrecord.hpp>
#include <penstock/formats/zstd.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <zlib.h>
#include <zstd.h>

namespace {

namespace ps = penstock;
using namespace penstock_bench;

struct Options {
  std::size_t threads = 2;
  std::size_t files = 16;
  std::size_t at_once = 16;
  std::size_t text = std::size_t{32} << 20;
  std::string folder = "/dev/shm";

  Options(int argc, char** argv) {
    for (int i = 1; i != argc; ++i) {
      const std::string_view said = argv[i];
      const auto takes = [&](std::string_view name, auto& into) {
        if (!said.starts_with(name)) {
          return false;
        }
        const std::string value{said.substr(name.size())};
        if constexpr (std::is_same_v<decltype(into), std::string&>) {
          into = value;
        } else {
          into = std::stoull(value);
        }
        return true;
      };
      if (!takes("--threads=", threads) && !takes("--files=", files) &&
          !takes("--at-once=", at_once) && !takes("--text=", text) && !takes("--folder=", folder)) {
        throw std::runtime_error{"unknown option " + std::string{said}};
      }
    }
    folder += "/penstock-compressed-bench-" + std::to_string(text);
  }
};

/// Lines of JSON whose words come as often as those of a language.
std::string text_of(std::size_t bytes) {
  std::mt19937_64 random{53};
  std::vector<std::string> words(20'000);
  for (std::string& word : words) {
    word.resize(2 + random() % 9);
    std::generate(word.begin(), word.end(), [&] { return static_cast<char>('a' + random() % 26); });
  }
  std::string text;
  while (text.size() < bytes) {
    text += R"({"id": )" + std::to_string(random() % 1'000'000) + R"(, "text": ")";
    for (std::size_t i = 20 + random() % 180; i != 0; --i) {
      const double at = static_cast<double>(random() % 1'000'000) / 1e6;
      text += words[static_cast<std::size_t>(at * at * at * static_cast<double>(words.size()))];
      text += ' ';
    }
    text += "\"}\n";
  }
  return text;
}
std::string as_zstd(std::string_view text) {
  std::string compressed(ZSTD_compressBound(text.size()), '\0');
  compressed.resize(
      ZSTD_compress(compressed.data(), compressed.size(), text.data(), text.size(), 3));
  return compressed;
}
std::string as_gzip(std::string_view text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string compressed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(compressed.data());
  stream.avail_out = static_cast<uInt>(compressed.size());
  deflate(&stream, Z_FINISH);
  compressed.resize(stream.total_out);
  deflateEnd(&stream);
  return compressed;
}
/// A TFRecord file of frames of 64 KiB of text each.
std::string as_frames(std::string_view text) {
  std::string all;
  constexpr std::size_t each = std::size_t{64} << 10;
  for (; !text.empty(); text.remove_prefix(std::min(each, text.size()))) {
    const std::string frame = as_zstd(text.substr(0, each));
    const std::uint64_t length = frame.size();
    const auto add = [&](const auto& number) {
      all.append(reinterpret_cast<const char*>(&number), sizeof number);
    };
    add(length);
    add(ps::detail::masked_crc32c(std::as_bytes(std::span{&length, 1})));
    all += frame;
    add(ps::detail::masked_crc32c(std::as_bytes(std::span{frame})));
  }
  return all;
}

/// Frames of 1 MiB of text each, which say their sizes.
std::vector<std::string> as_pieces(std::string_view text) {
  std::vector<std::string> frames;
  constexpr std::size_t each = std::size_t{1} << 20;
  for (; !text.empty(); text.remove_prefix(std::min(each, text.size()))) {
    frames.push_back(as_zstd(text.substr(0, each)));
  }
  return frames;
}

/// What all contenders find.
struct Found {
  std::atomic<std::uint64_t> lines{0};
  std::atomic<std::uint64_t> bytes{0}; // without ends of lines
  std::uint64_t sum() const { return lines * 0x9E3779B97F4A7C15 + bytes; }
};
std::uint64_t count_lines(const char* text, std::size_t bytes) {
  std::uint64_t lines = 0;
  const char* const end = text + bytes;
  while (const void* found = std::memchr(text, '\n', static_cast<std::size_t>(end - text))) {
    text = static_cast<const char*>(found) + 1;
    ++lines;
  }
  return lines;
}

/// A contender that says how many CPU seconds it took.
class Counting : public Contender {
 public:
  explicit Counting(std::uint64_t bytes) : bytes_{bytes} {}
  std::uint64_t run() override {
    const double before = cpu_seconds();
    const std::uint64_t sum = go();
    cpu_ = cpu_seconds() - before;
    return sum;
  }
  std::string label() const override {
    char text[64];
    std::snprintf(text, sizeof text, "%.3f CPU seconds/GB",
                  cpu_ * 1e9 / static_cast<double>(bytes_));
    return text;
  }

 private:
  virtual std::uint64_t go() = 0;
  std::uint64_t bytes_;
  double cpu_{};
};
class Calls : public Counting {
 public:
  Calls(std::uint64_t bytes, std::function<std::uint64_t()> call)
      : Counting{bytes}, call_{std::move(call)} {}

 private:
  std::uint64_t go() override { return call_(); }
  std::function<std::uint64_t()> call_;
};

using Strings = std::vector<std::string>;
using Lines = ps::Batch<const ps::Line, ps::Pageable>;
struct Text : ps::Columns<ps::Field<"bytes", ps::Ragged<char>>> {};
using Texts = ps::Batch<const Text, ps::Pageable>;

template <class C>
auto chain(const Strings& paths, const Options& options, C codec, Found& found) {
  return ps::Reader{ps::interleaved<ps::Line>(
             paths, codec,
             {.at_once = options.at_once, .threads = static_cast<unsigned>(options.threads)})} |
         ps::Consumer{[&found](Lines batch) {
           found.lines += batch.size();
           found.bytes +=
               static_cast<std::uint64_t>(ps::get<"text">(batch).offsets()[batch.size()]);
         }};
}
auto seekable(const std::string& path, std::size_t threads, Found& found) {
  return ps::Reader{ps::lines(path, {.longest = std::size_t{64} << 10},
                              ps::seekable(ps::Zstd{}, {.keep = 0})),
                    {.workers = static_cast<unsigned>(threads)}} |
         ps::Consumer{[&found](Lines batch) {
           found.lines += batch.size();
           found.bytes +=
               static_cast<std::uint64_t>(ps::get<"text">(batch).offsets()[batch.size()]);
         }};
}
auto frames(const std::string& path, std::size_t threads, Found& found) {
  return ps::Reader{ps::tfrecord(path), {.workers = 1}} |
         ps::Decoder{ps::decompressed<"bytes", ps::TfRecord, Text>(ps::Zstd{}),
                     {.workers = static_cast<unsigned>(threads)}} |
         ps::Consumer{[&found](Texts batch) {
           found.bytes +=
               static_cast<std::uint64_t>(ps::get<"bytes">(batch).offsets()[batch.size()]);
         }};
}
/// `make(found)` returns a pipeline.
template <class Make> class Piped final : public Counting {
 public:
  Piped(std::uint64_t bytes, Make make) : Counting{bytes}, pipeline_{make(found_)} {}

 private:
  std::uint64_t go() override {
    found_.lines = found_.bytes = 0;
    pipeline_.run();
    return found_.sum();
  }
  Found found_;
  std::invoke_result_t<Make, Found&> pipeline_;
};

// By hand each thread keeps its stream and its buffers, of the sizes that were best.
constexpr std::size_t piece = std::size_t{128} << 10;
constexpr std::size_t room = std::size_t{256} << 10;

void zstd_by_hand(std::FILE* file, std::vector<char>& in, std::vector<char>& out, Found& found) {
  ZSTD_DCtx* const context = ZSTD_createDCtx();
  while (const std::size_t got = std::fread(in.data(), 1, in.size(), file)) {
    ZSTD_inBuffer from{in.data(), got, 0};
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    do {
      to.pos = 0;
      if (ZSTD_isError(ZSTD_decompressStream(context, &to, &from))) {
        throw std::runtime_error{"a frame is damaged"};
      }
      const std::uint64_t lines = count_lines(out.data(), to.pos);
      found.lines += lines;
      found.bytes += to.pos - lines;
    } while (from.pos != from.size || to.pos == to.size);
  }
  ZSTD_freeDCtx(context);
}
void gzip_by_hand(std::FILE* file, std::vector<char>& in, std::vector<char>& out, Found& found) {
  z_stream stream{};
  inflateInit2(&stream, 15 + 16);
  while (const std::size_t got = std::fread(in.data(), 1, in.size(), file)) {
    stream.next_in = reinterpret_cast<Bytef*>(in.data());
    stream.avail_in = static_cast<uInt>(got);
    do {
      stream.next_out = reinterpret_cast<Bytef*>(out.data());
      stream.avail_out = static_cast<uInt>(out.size());
      if (const int result = inflate(&stream, Z_NO_FLUSH);
          result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
        throw std::runtime_error{"a member is damaged"};
      }
      const std::size_t made = out.size() - stream.avail_out;
      const std::uint64_t lines = count_lines(out.data(), made);
      found.lines += lines;
      found.bytes += made - lines;
    } while (stream.avail_in != 0 || stream.avail_out == 0);
  }
  inflateEnd(&stream);
}
template <class Decode>
std::uint64_t by_hand(const Strings& paths, std::size_t threads, Decode decode) {
  Found found;
  std::atomic<std::size_t> next{0};
  on_threads(threads, [&](std::size_t) {
    std::vector<char> in(piece);
    std::vector<char> out(room);
    for (std::size_t i = next++; i < paths.size(); i = next++) {
      std::FILE* const file = std::fopen(paths[i].c_str(), "rb");
      decode(file, in, out, found);
      std::fclose(file);
    }
  });
  return found.sum();
}
std::uint64_t pieces_by_hand(const std::vector<std::string>& frames, std::size_t threads) {
  Found found;
  std::atomic<std::size_t> next{0};
  on_threads(threads, [&](std::size_t) {
    std::vector<char> out(std::size_t{1} << 20);
    ZSTD_DCtx* const context = ZSTD_createDCtx();
    for (std::size_t i = next++; i < frames.size(); i = next++) {
      const std::size_t made =
          ZSTD_decompressDCtx(context, out.data(), out.size(), frames[i].data(), frames[i].size());
      const std::uint64_t lines = count_lines(out.data(), made);
      found.lines += lines;
      found.bytes += made - lines;
    }
    ZSTD_freeDCtx(context);
  });
  return found.sum();
}
/// `all` is a file of as_frames().
std::uint64_t frames_by_hand(std::string_view all, std::size_t threads) {
  std::vector<std::string_view> frames;
  for (std::size_t at = 0; at != all.size();) {
    std::uint64_t length = 0;
    std::memcpy(&length, all.data() + at, sizeof length);
    frames.push_back(all.substr(at + 12, length));
    at += length + 16;
  }
  Found found;
  std::atomic<std::size_t> next{0};
  constexpr std::size_t many = 16;
  on_threads(threads, [&](std::size_t) {
    std::vector<char> out(room);
    ZSTD_DCtx* const context = ZSTD_createDCtx();
    for (std::size_t first = next.fetch_add(many); first < frames.size();
         first = next.fetch_add(many)) {
      for (std::size_t i = first; i != std::min(first + many, frames.size()); ++i) {
        found.bytes += ZSTD_decompressDCtx(context, out.data(), out.size(), frames[i].data(),
                                           frames[i].size());
      }
    }
    ZSTD_freeDCtx(context);
  });
  return found.sum();
}

Strings write(const std::string& folder, const std::string& ending, const std::string& bytes,
              std::size_t count) {
  Strings paths;
  for (std::size_t i = 0; i != count; ++i) {
    paths.push_back(folder + '/' + std::to_string(i) + ending);
    std::ofstream{paths.back(), std::ios::binary}.write(bytes.data(),
                                                        static_cast<std::streamsize>(bytes.size()));
  }
  return paths;
}

template <class Make>
void add_piped(const std::string& name, std::uint64_t bytes, std::uint64_t sum, Make make) {
  add(
      name, bytes, [sum] { return sum; },
      [bytes, make](bool) { return std::make_unique<Piped<Make>>(bytes, make); });
}
void add_call(const std::string& name, std::uint64_t bytes, std::uint64_t sum,
              const std::function<std::uint64_t()>& call) {
  add(
      name, bytes, [sum] { return sum; },
      [bytes, call](bool) { return std::make_unique<Calls>(bytes, call); });
}

} // namespace

int main(int argc, char** argv) {
  return program<Options>(argc, argv, [](const Options& options) {
    const std::size_t threads = options.threads;
    const std::string text = text_of(options.text);
    const std::uint64_t bytes = text.size() * options.files;
    const std::uint64_t lines = count_lines(text.data(), text.size());
    std::filesystem::create_directories(options.folder);
    const Strings zstds = write(options.folder, ".zst", as_zstd(text), options.files);
    const Strings gzips = write(options.folder, ".gz", as_gzip(text), options.files);
    const std::string framed = as_frames(text);
    const std::string records = write(options.folder, ".tfrecord", framed, 1).front();

    const std::vector<std::string> pieces = as_pieces(text);
    std::string joined;
    for (const std::string& piece : pieces) {
      joined += piece;
    }
    const std::string framed_text = write(options.folder, ".jsonl.zst", joined, 1).front();

    Found one;
    one.lines = lines;
    one.bytes = text.size() - lines;
    Found all;
    all.lines = lines * options.files;
    all.bytes = bytes - all.lines;
    add_piped("compressed/interleaved/zstd", bytes, all.sum(),
              [=](Found& found) { return chain(zstds, options, ps::Zstd{}, found); });
    add_call("compressed/by_hand/zstd", bytes, all.sum(),
             [=] { return by_hand(zstds, threads, zstd_by_hand); });
    add_piped("compressed/interleaved/gzip", bytes, all.sum(),
              [=](Found& found) { return chain(gzips, options, ps::Gzip{}, found); });
    add_call("compressed/by_hand/gzip", bytes, all.sum(),
             [=] { return by_hand(gzips, threads, gzip_by_hand); });
    add_piped("compressed/seekable/zstd", text.size(), one.sum(),
              [=](Found& found) { return seekable(framed_text, threads, found); });
    add_call("compressed/seekable_by_hand/zstd", text.size(), one.sum(),
             [=] { return pieces_by_hand(pieces, threads); });
    add_piped("compressed/frames/zstd", text.size(), text.size(),
              [=](Found& found) { return frames(records, threads, found); });
    add_call("compressed/frames_by_hand/zstd", text.size(), text.size(),
             [=] { return frames_by_hand(framed, threads); });
    const int code = run_all();
    std::filesystem::remove_all(options.folder);
    return code;
  });
}
