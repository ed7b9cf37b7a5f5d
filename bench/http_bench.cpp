// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// How near does HttpIo get to libcurl by hand?
//
// An object of --bytes=N is read in ranges of --piece=BYTES, over --connections=N, from an nginx on
// this machine that the program starts (Debian: nginx-light), or from --url=URL:
//
//   http/pipeline    by a Reader with as many workers as connections, and a Consumer that drops it
//   http/by_hand     by as many threads, each with a handle of libcurl's of its own
//   http/by_hand_3   the same, into three buffers a thread in turn: as much memory as the Reader's
//                    ring has, which is more than a processor's cache keeps
//
// Time is a wall's, and the server takes part of the processors; the label says how many CPU
// seconds a GB took here, without the server's. To be run with
// --benchmark_repetitions=5 --benchmark_enable_random_interleaving=true. It needs no GPU.

#include "support/contender.hpp"
#include "support/cpu_time.hpp"
#include "support/threads.hpp"

#include <penstock/io/crc32c.hpp>
#include <penstock/io/http.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
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
#include <thread>
#include <utility>
#include <vector>

#include <curl/curl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

namespace ps = penstock;
using namespace penstock_bench;

struct Options {
  std::size_t bytes = std::size_t{256} << 20;
  std::size_t piece = std::size_t{1} << 20;
  unsigned connections = 16;
  std::string url;

  /// Takes what is its own, and leaves the rest to Google Benchmark.
  Options(int& argc, char** argv) {
    int left = 1;
    for (int i = 1; i < argc; ++i) {
      const std::string_view said = argv[i];
      const std::string value{said.substr(std::min(said.find('=') + 1, said.size()))};
      if (said.starts_with("--bytes=")) {
        bytes = std::stoull(value);
      } else if (said.starts_with("--piece=")) {
        piece = std::stoull(value);
      } else if (said.starts_with("--connections=")) {
        connections = static_cast<unsigned>(std::stoul(value));
      } else if (said.starts_with("--url=")) {
        url = value;
      } else {
        argv[left++] = argv[i];
      }
    }
    argc = left;
  }
};

/// An nginx that serves one file, in a folder of its own.
class Nginx {
 public:
  explicit Nginx(std::size_t bytes) {
    std::filesystem::create_directories(folder_);
    std::mt19937_64 random{56};
    std::vector<std::uint64_t> values(bytes / sizeof(std::uint64_t));
    std::generate(values.begin(), values.end(), std::ref(random));
    std::ofstream{folder_ + "/object", std::ios::binary}.write(
        reinterpret_cast<const char*>(values.data()),
        static_cast<std::streamsize>(values.size() * sizeof(std::uint64_t)));
    std::ofstream settings{folder_ + "/conf"};
    settings << "daemon off; worker_processes 2; pid " << folder_ << "/pid;\n"
             << "events { worker_connections 1024; }\n"
             << "http { access_log off; sendfile on; tcp_nopush on; keepalive_requests 10000000;\n";
    for (const char* part : {"client_body", "proxy", "fastcgi", "uwsgi", "scgi"}) {
      settings << part << "_temp_path " << folder_ << '/' << part << ";\n";
    }
    settings << "server { listen 127.0.0.1:" << port << "; root " << folder_ << "; } }\n";
    settings.close();
    process_ = ::fork();
    if (process_ == 0) {
      const std::string file = folder_ + "/conf";
      const std::string log = folder_ + "/log";
      ::execlp("nginx", "nginx", "-e", log.c_str(), "-c", file.c_str(), nullptr);
      ::_exit(127);
    }
  }
  Nginx(const Nginx&) = delete;
  Nginx& operator=(const Nginx&) = delete;
  ~Nginx() {
    ::kill(process_, SIGTERM);
    ::waitpid(process_, nullptr, 0);
    std::filesystem::remove_all(folder_);
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port) + "/object"; }

 private:
  static constexpr int port = 18'056;

  const std::string folder_ = "/dev/shm/penstock_http_bench_" + std::to_string(::getpid());
  pid_t process_;
};

/// What a piece adds to a checksum.
std::uint64_t sum_of(std::uint64_t at, std::span<const std::byte> bytes) {
  return ps::crc32c(bytes) * (2 * at + 1);
}

/// Notes the CPU seconds of each run.
class Timed : public Contender {
 public:
  explicit Timed(std::uint64_t bytes) : bytes_{bytes} {}
  std::uint64_t run() final {
    const double before = cpu_seconds();
    const std::uint64_t sum = read();
    cpu_ = cpu_seconds() - before;
    return sum;
  }
  std::string label() const final {
    char text[64];
    std::snprintf(text, sizeof text, "%.3f CPU s a GB", cpu_ * 1e9 / static_cast<double>(bytes_));
    return text;
  }

 private:
  virtual std::uint64_t read() = 0;

  std::uint64_t bytes_;
  double cpu_{};
};

auto chain(const std::string& url, const Options& options, bool checked, std::uint64_t& sum) {
  ps::HttpIo io{{.connections = options.connections}};
  return ps::Reader{ps::records<char>(url, {}, std::move(io)),
                    {.workers = options.connections, .batch = options.piece}} |
         ps::Consumer{[checked, &sum](ps::Batch<const char, ps::Pageable> batch) {
           if (checked) {
             sum += sum_of(batch.index(), std::as_bytes(std::span{batch.data(), batch.size()}));
           }
         }};
}

class Pipeline final : public Timed {
 public:
  Pipeline(const std::string& url, const Options& options, bool checked)
      : Timed{options.bytes}, pipeline_{chain(url, options, checked, sum_)} {}

 private:
  std::uint64_t read() override {
    sum_ = 0;
    pipeline_.run();
    return sum_;
  }

  std::uint64_t sum_{};
  decltype(chain({}, std::declval<const Options&>(), false, sum_)) pipeline_;
};

class ByHand final : public Timed {
 public:
  ByHand(std::string url, const Options& options, std::size_t buffers, bool checked)
      : Timed{options.bytes}, url_{std::move(url)}, options_{options}, checked_{checked} {
    memory_.resize(options.connections, std::vector<char>(buffers * options.piece));
    for (unsigned i = 0; i != options.connections; ++i) {
      handles_.push_back(::curl_easy_init());
    }
  }
  ~ByHand() override {
    for (CURL* handle : handles_) {
      ::curl_easy_cleanup(handle);
    }
  }

 private:
  struct Into {
    char* at;
    std::size_t left;
  };
  static std::size_t take(char* from, std::size_t, std::size_t bytes, void* into) {
    Into& to = *static_cast<Into*>(into);
    const std::size_t some = std::min(bytes, to.left);
    std::memcpy(to.at, from, some);
    to.at += some;
    to.left -= some;
    return some;
  }
  std::uint64_t read() override {
    std::atomic<std::uint64_t> next{0};
    std::atomic<std::uint64_t> sum{0};
    on_threads(handles_.size(), [&](std::size_t i) {
      CURL* const handle = handles_[i];
      std::vector<char>& memory = memory_[i];
      const std::size_t whole = options_.piece;
      std::size_t begin = 0;
      ::curl_easy_setopt(handle, CURLOPT_URL, url_.c_str());
      ::curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, take);
      ::curl_easy_setopt(handle, CURLOPT_BUFFERSIZE, 128L << 10);
      ::curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
      ::curl_easy_setopt(handle, CURLOPT_FAILONERROR, 1L);
      for (std::uint64_t at = next.fetch_add(whole); at < options_.bytes;
           at = next.fetch_add(whole)) {
        begin = (begin + whole) % memory.size();
        const std::size_t bytes = std::min<std::uint64_t>(whole, options_.bytes - at);
        Into into{memory.data() + begin, bytes};
        const std::string range = std::to_string(at) + '-' + std::to_string(at + bytes - 1);
        ::curl_easy_setopt(handle, CURLOPT_RANGE, range.c_str());
        ::curl_easy_setopt(handle, CURLOPT_WRITEDATA, &into);
        if (::curl_easy_perform(handle) != CURLE_OK || into.left != 0) {
          throw std::runtime_error{"a request failed"};
        }
        if (checked_) {
          sum += sum_of(at, std::as_bytes(std::span{memory}.subspan(begin, bytes)));
        }
      }
    });
    return sum;
  }

  std::string url_;
  Options options_;
  bool checked_;
  std::vector<std::vector<char>> memory_; // a thread's each
  std::vector<CURL*> handles_;
};

/// Waits until a server answers.
void await(const std::string& url) {
  for (int tries = 0;; ++tries) {
    try {
      ps::records<char>(url, {}, ps::HttpIo{}).open();
      return;
    } catch (const ps::SourceError&) {
      if (tries == 20) {
        throw;
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{50});
  }
}

} // namespace

int main(int argc, char** argv) {
  Options options{argc, argv};
  ::curl_global_init(CURL_GLOBAL_DEFAULT);
  const auto nginx = options.url.empty() ? std::make_unique<Nginx>(options.bytes) : nullptr;
  const std::string url = nginx ? nginx->url() : options.url;
  await(url);
  {
    auto object = ps::records<char>(url, {}, ps::HttpIo{});
    object.open();
    options.bytes = object.size() / options.piece * options.piece;
  }
  benchmark::Initialize(&argc, argv);
  const auto expected = [=] { return ByHand{url, options, 1, true}.run(); };
  add("http/pipeline", options.bytes, expected,
      [=](bool checked) { return std::make_unique<Pipeline>(url, options, checked); });
  add("http/by_hand", options.bytes, expected,
      [=](bool checked) { return std::make_unique<ByHand>(url, options, 1, checked); });
  add("http/by_hand_3", options.bytes, expected,
      [=](bool checked) { return std::make_unique<ByHand>(url, options, 3, checked); });
  return run_all();
}
