// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Objects of an HTTP server are read as files are: by ranges, over few connections, each byte once,
// and whatever the server does, a run ends well or in one error that says why and shows no secret.

#include "support/caught.hpp"
#include "support/environment.hpp"
#include "support/http_server.hpp"
#include "support/temp_dir.hpp"
#include "support/watchdog.hpp"

#include <penstock/io/http.hpp>
#include <penstock/penstock.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <signal.h>
#include <sys/types.h>

namespace {

namespace ps = penstock;
namespace tests = penstock::tests;
using namespace std::chrono_literals;
using tests::caught;
using tests::has;
using tests::HttpConnection;
using tests::HttpRequest;
using tests::HttpServer;
using tests::only;
using tests::part_of;
using Clock = std::chrono::steady_clock;

std::string made(std::size_t bytes) {
  std::mt19937 random{7};
  std::string object(bytes, '\0');
  std::generate(object.begin(), object.end(), [&] { return static_cast<char>(random()); });
  return object;
}
const std::string& object() {
  static const std::string its = made(300'000);
  return its;
}
ps::HttpOptions quick() {
  return {.silence = 300ms, .deadline = 1500ms};
}

/// Returns the object's records of so many bytes.
std::vector<std::string> cut(std::size_t bytes) {
  std::vector<std::string> records;
  for (std::size_t at = 0; at != object().size(); at += bytes) {
    records.push_back(object().substr(at, bytes));
  }
  return records;
}
std::vector<std::string> sorted(std::vector<std::string> records) {
  std::sort(records.begin(), records.end());
  return records;
}

/// Reads all of a URL by one read.
std::string read(const ps::HttpIo& io, const std::string& url) {
  auto source = ps::records<char>(url, {}, io);
  source.open();
  std::string all(static_cast<std::size_t>(source.size()), '\0');
  source.read_bytes(0, std::as_writable_bytes(std::span{all}));
  return all;
}
/// Returns how the reading fails.
ps::SourceError failure(const ps::HttpIo& io, const std::string& url) {
  return caught<ps::SourceError>([&] { read(io, url); });
}

/// Answers rightly, but the requests that `fault` answers itself: it returns whether it did. The
/// first request asks for the size.
HttpServer::Answer but_for(std::function<bool(const HttpRequest&, HttpConnection&)> fault) {
  return [fault = std::move(fault)](const HttpRequest& request, HttpConnection& connection) {
    if (!fault(request, connection)) {
      connection.send(part_of(request, object()));
    }
  };
}
/// A fault of the second request alone.
HttpServer::Answer but_second(std::function<void(const HttpRequest&, HttpConnection&)> fault) {
  return but_for(
      [fault = std::move(fault)](const HttpRequest& request, HttpConnection& connection) {
        if (request.number == 1) {
          fault(request, connection);
        }
        return request.number == 1;
      });
}

TEST_CASE("an object's size and its bytes take one request each, by one connection") {
  HttpServer server{but_for([](auto&, auto&) { return false; })};
  const ps::HttpIo io;
  CHECK(read(io, server.url("/a.bin")) == object());
  CHECK(server.requests() == 2);
  CHECK(server.connections() == 1);
  const ps::HttpCounts counts = io.counts();
  CHECK(counts.requests == 2);
  CHECK(counts.retries == 0);
  CHECK(counts.bytes == object().size() + 1);
  CHECK(counts.first_byte > 0us);
}

TEST_CASE("small reads that go on where the last one ended are joined, others are not") {
  HttpServer server{but_for([](auto&, auto&) { return false; })};
  const ps::HttpIo io;
  auto source = ps::records<char>(server.url("/a"), {}, io);
  source.open();
  std::string piece(700, '\0');
  const auto read_at = [&](std::uint64_t at) {
    source.read_bytes(at, std::as_writable_bytes(std::span{piece}));
    return piece == object().substr(at, 700);
  };
  for (std::uint64_t at = 0; at + 700 <= object().size(); at += 700) {
    CHECK(read_at(at));
  }
  CHECK(server.requests() < 10);
  CHECK(io.counts().bytes < object().size() + 5000); // twice what lies over a piece's end
  const std::uint64_t before = io.counts().bytes;
  for (const std::uint64_t at : {100'000U, 50'000U, 0U}) {
    CHECK(read_at(at));
  }
  CHECK(io.counts().bytes - before == 3 * 700);
}

TEST_CASE("an empty object has no records, whichever way its server says so") {
  const std::string answer =
      GENERATE(as<std::string>{}, only("416 No", "Content-Range: bytes */0\r\n"), only("200 OK"));
  HttpServer server{[&](auto&, HttpConnection& connection) { connection.send(answer); }};
  CHECK(read(ps::HttpIo{}, server.url("/empty")).empty());
}

TEST_CASE("a pipeline reads objects and files, many more than it would hold open") {
  HttpServer server{[](const HttpRequest& request, HttpConnection& connection) {
    connection.send(part_of(request, request.path.substr(1) + "\n"));
  }};
  const tests::TempDir folder;
  std::vector<std::string> paths{folder.write("first", "first\n")};
  std::string expected = "first\n";
  for (int i = 0; i != 600; ++i) {
    paths.push_back(server.url("/" + std::to_string(i)));
    expected += std::to_string(i) + "\n";
  }
  ps::HttpIo io;
  std::string got;
  auto pipeline = ps::Reader{ps::records<char>(paths, {}, io), {.workers = 3}} |
                  ps::Consumer{[&](ps::Batch<const char, ps::Pageable> batch) {
                    got.append(batch.data(), batch.size());
                  }};
  const std::string note = pipeline.run().stages[0].note;
  CHECK(got == expected);
  CHECK(server.requests() >= 1200); // the size of each, and its bytes
  CHECK(server.requests() < 1250);  // in two, where a slot ends
  INFO(note);
  CHECK(note.find("by HTTP 0 MB in 12") == 0);
  CHECK(note.find(" requests, 0 of them retries, at most ") != std::string::npos);
}

TEST_CASE("small records at random places come many at once, near ones by one request") {
  HttpServer server{but_for([](auto&, HttpConnection& connection) {
    connection.hang(2ms); // so that requests meet
    return false;
  })};
  const ps::HttpIo io{{.connections = 8}};
  struct Record {
    char bytes[100];
  };
  std::vector<std::string> seen;
  auto pipeline =
      ps::Reader{ps::records<Record>(server.url("/a"), {}, io), {.order = {.shuffle = 1}}} |
      ps::Consumer{[&](ps::Batch<const Record, ps::Pageable> batch) {
        for (std::size_t i = 0; i != batch.size(); ++i) {
          seen.emplace_back(batch.data()[i].bytes, sizeof(Record));
        }
      }};
  pipeline.run();
  CHECK(sorted(seen) == sorted(cut(sizeof(Record))));
  CHECK(server.requests() < seen.size() / 4);
  CHECK(server.most_at_once() <= 8);

  // Too far apart to be joined.
  const std::uint64_t numbers[]{2900, 0, 1000, 2000, 0};
  auto source = ps::records<Record>(server.url("/a"), {}, io);
  source.open();
  std::vector<Record> records(5);
  const std::uint64_t before = server.requests();
  source.read_at(numbers, ps::Batch<Record, ps::Pageable>{records.data(), records.size()});
  CHECK(server.requests() - before == 5);
  CHECK(server.most_at_once() > 1);
  for (std::size_t i = 0; i != 5; ++i) {
    CHECK(std::memcmp(&records[i], object().data() + numbers[i] * 100, 100) == 0);
  }
}

TEST_CASE("no more requests are made at once than .connections, and connections are kept") {
  HttpServer server{but_for([](auto&, HttpConnection& connection) {
    connection.hang(1ms);
    return false;
  })};
  const ps::HttpIo io{{.connections = 2}};
  std::uint64_t bytes = 0;
  auto pipeline =
      ps::Reader{ps::records<char>(server.url("/a"), {}, io), {.workers = 6, .batch = 5000}} |
      ps::Consumer{[&](ps::Batch<const char, ps::Pageable> b) { bytes += b.size(); }};
  pipeline.run();
  CHECK(bytes == object().size());
  CHECK(server.most_at_once() == 2);
  CHECK(io.counts().connections == 2);
  CHECK(server.connections() <= 6); // a client for each thread that had one
}

TEST_CASE(
    "a server that has too much to do is left alone for as long as it asks, by fewer requests") {
  HttpServer server{but_second([](auto&, HttpConnection& connection) {
    connection.send(only("503 Busy", "Retry-After: 1\r\n"));
  })};
  const ps::HttpIo io;
  const Clock::time_point begin = Clock::now();
  CHECK(read(io, server.url("/a")) == object());
  CHECK(Clock::now() - begin >= 1s);
  CHECK(io.counts().retries == 1);
  CHECK(io.counts().limit == 8);
  CHECK(io.note().find("too much to do for more than 8 at once") != std::string::npos);
}

TEST_CASE("what may pass is tried again, from the first byte that is missing") {
  struct Fault {
    const char* name;
    std::function<void(const HttpRequest&, HttpConnection&)> happens;
    bool some_came;
  };
  const auto part = [](const HttpRequest& request, HttpConnection& connection) {
    const std::string whole = part_of(request, object());
    connection.send(whole.substr(0, whole.size() / 2));
  };
  const Fault faults[]{
      {"429", [](auto&, HttpConnection& c) { c.send(only("429 Too Many")); }, false},
      {"500", [](auto&, HttpConnection& c) { c.send(only("500 Error")); }, false},
      {"closed at once", [](auto&, HttpConnection& c) { c.close(); }, false},
      {"reset at once", [](auto&, HttpConnection& c) { c.reset(); }, false},
      {"silent at once", [](auto&, HttpConnection& c) { c.hang(); }, false},
      {"reset within",
       [&](const HttpRequest& r, HttpConnection& c) {
         part(r, c);
         c.hang(50ms); // a reset drops what the client has not read
         c.reset();
       },
       true},
      {"closed within",
       [&](const HttpRequest& r, HttpConnection& c) {
         part(r, c);
         c.close();
       },
       true},
      {"silent within",
       [&](const HttpRequest& r, HttpConnection& c) {
         part(r, c);
         c.hang();
       },
       true},
      {"fewer bytes than asked for",
       [](HttpRequest r, HttpConnection& c) {
         r.end = r.first + 1000;
         c.send(part_of(r, object()));
       },
       true},
  };
  for (const Fault& fault : faults) {
    INFO(fault.name);
    std::atomic<std::uint64_t> from{~0ULL};
    HttpServer server{but_for([&](const HttpRequest& request, HttpConnection& connection) {
      if (request.number == 1) {
        fault.happens(request, connection);
      } else if (request.number == 2) {
        from = request.first;
      }
      return request.number == 1;
    })};
    const ps::HttpIo io{quick()};
    CHECK(read(io, server.url("/a")) == object());
    CHECK(server.requests() == 3);
    CHECK((from != 0) == fault.some_came);
    CHECK(io.counts().bytes == object().size() + 1);
  }
}

TEST_CASE("what does not pass ends in one error when its time is over") {
  struct Fault {
    std::function<void(const HttpRequest&, HttpConnection&)> happens;
    const char* says;
  };
  const Fault faults[]{
      {[](auto&, HttpConnection& c) { c.send(only("503 Busy")); }, "the server answered 503, and "},
      {[](auto&, HttpConnection& c) { c.send(only("429 Busy", "Retry-After: 60\r\n")); },
       "in 1 try; it asks to be left alone for 60 s"},
      {[](auto&, HttpConnection& c) { c.reset(); }, "tries"},
      {[](auto&, HttpConnection& c) { c.hang(); }, "the server said nothing for 300 ms, and "},
  };
  for (const Fault& fault : faults) {
    HttpServer server{but_for([&](const HttpRequest& request, HttpConnection& connection) {
      if (request.number != 0) {
        fault.happens(request, connection);
      }
      return request.number != 0;
    })};
    const Clock::time_point begin = Clock::now();
    const ps::SourceError e = failure(ps::HttpIo{quick()}, server.url("/a.bin"));
    CHECK(has(e, fault.says));
    CHECK(has(e, "cannot read byte 0 of " + server.url("/a.bin") + ": "));
    CHECK(has(e, "Read later"));
    CHECK(Clock::now() - begin < 2500ms);
  }
}

TEST_CASE("what cannot pass ends in one error at once") {
  struct Fault {
    std::function<void(const HttpRequest&, HttpConnection&)> happens;
    const char* says;
  };
  const Fault faults[]{
      {[](const HttpRequest&, HttpConnection& c) { c.send(only("404 None")); },
       "the server answered 404. Check the URL"},
      {[](const HttpRequest&, HttpConnection& c) { c.send(only("401 Who")); },
       "the server answered 401. Give the right to read it"},
      {[](const HttpRequest&, HttpConnection& c) {
         c.send("HTTP/1.1 403 No\r\nContent-Length: 44\r\n\r\n<Error><Code>ExpiredToken</Code>"
                "<a>secret</a>");
       },
       "the server answered 403 (ExpiredToken). Give the right to read it"},
      {[](HttpRequest r, HttpConnection& c) {
         r.end = 0;
         c.send(part_of(r, object()));
       },
       "it was asked for a part, and the server answered 200, as for the whole"},
      {[](HttpRequest r, HttpConnection& c) {
         r.first += 5;
         c.send(part_of(r, object()));
       },
       "and the server answered with others"},
      {[](HttpRequest r, HttpConnection& c) {
         r.end += 1;
         c.send(part_of(r, object() + "more"));
       },
       "it changed while it was read"},
      {[](const HttpRequest&, HttpConnection& c) {
         c.send("HTTP/1.1 206 Part\r\nContent-Length: 400000\r\nContent-Range: bytes 0-299999/"
                "300000\r\n\r\n" +
                object() + object().substr(0, 100'000));
       },
       "the server sent more than was asked for"},
      {[](const HttpRequest& r, HttpConnection& c) { c.send(part_of(r, object(), "\"2\"")); },
       "it changed while it was read"}, // as its server says by 412
      {[](HttpRequest r, HttpConnection& c) {
         r.head.clear();
         c.send(part_of(r, object(), "\"2\""));
       },
       "it changed while it was read"}, // although its server says nothing
  };
  for (const Fault& fault : faults) {
    INFO(fault.says);
    HttpServer server{but_second(fault.happens)};
    const ps::SourceError e = failure(ps::HttpIo{quick()}, server.url("/a.bin"));
    CHECK(has(e, fault.says));
    CHECK(e.file() == server.url("/a.bin"));
    CHECK(server.requests() == 2);
  }
}

TEST_CASE("an object that cannot be looked at says so before the run") {
  const ps::HttpIo io{quick()};
  CHECK(has(failure(io, "http://none.invalid/a"), "Could not resolve host: none.invalid"));
  CHECK(has(failure(io, "http://127.0.0.1:1/a"), "Check the host's name, the port"));
  CHECK(has(failure(io, "ftp://127.0.0.1/a"), "Give a URL that begins with http"));
  HttpServer none{[](auto&, HttpConnection& c) { c.send(only("404 None")); }};
  CHECK(has(failure(io, none.url("/a")), "Check the URL: nothing is there"));
  HttpServer server{[](auto&, HttpConnection& c) { c.send(only("206 Part")); }};
  CHECK(has(failure(io, server.url("/a")), "the server answered with others"));
  CHECK(has(caught<ps::SourceError>([&] { ps::records<char>(server.url("/a")).open(); }),
            "reads URLs by an HttpIo"));
  CHECK(has(caught<ps::OptionError>([] { ps::HttpIo{{.connections = 0}}; }), "give 1 to 1024"));
  CHECK(has(caught<ps::OptionError>([] { ps::HttpIo{{.silence = 0s}}; }), ".silence"));
}

/// openssl's server of one byte, with a certificate that nobody has signed but itself.
class TlsServer {
 public:
  explicit TlsServer(const tests::TempDir& folder) {
    const std::string make = "cd " + folder.path() +
                             " && openssl req -x509 -newkey rsa:2048 -nodes -keyout key -out cert "
                             "-days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost "
                             "2>/dev/null";
    REQUIRE(std::system(make.c_str()) == 0);
    folder.write("file", std::string{"HTTP/1.1 206 Part\r\nContent-Range: bytes 0-0/1\r\n"
                                     "Content-Length: 1\r\n\r\nx"});
    const std::string serve = "cd " + folder.path() +
                              " && exec openssl s_server -accept localhost:0 -cert cert -key key "
                              "-HTTP 2>/dev/null & echo $!; wait";
    output_ = ::popen(serve.c_str(), "r");
    char line[256];
    REQUIRE(std::fgets(line, sizeof line, output_));
    process_ = std::atoi(line);
    while (port_.empty() && std::fgets(line, sizeof line, output_)) {
      const std::string said = line;
      if (said.starts_with("ACCEPT ")) {
        port_ = said.substr(said.rfind(':') + 1, said.find('\n') - said.rfind(':') - 1);
      }
    }
  }
  TlsServer(const TlsServer&) = delete;
  TlsServer& operator=(const TlsServer&) = delete;
  ~TlsServer() {
    ::kill(process_, SIGTERM);
    ::pclose(output_);
  }
  std::string url() const { return "https://localhost:" + port_ + "/file"; }

 private:
  std::FILE* output_{};
  pid_t process_{};
  std::string port_;
};

TEST_CASE(
    "a certificate that no authority has signed is refused, unless the program is told of it") {
  const tests::TempDir folder;
  const TlsServer server{folder};
  const ps::SourceError e = failure(ps::HttpIo{quick()}, server.url());
  CHECK(has(e, "cannot open " + server.url() + ": "));
  CHECK(has(e, "certificate"));
  CHECK(has(e, "SSL_CERT_FILE"));
  const tests::Environment told{"CURL_CA_BUNDLE=" + (folder / "cert")};
  CHECK(read(ps::HttpIo{quick()}, server.url()) == "x");
}

TEST_CASE("a server that is slow to begin is waited for") {
  HttpServer server{but_second([](const HttpRequest& request, HttpConnection& connection) {
    connection.hang(400ms);
    connection.send(part_of(request, object()));
  })};
  const ps::HttpIo io{{.silence = 5s}};
  CHECK(read(io, server.url("/a")) == object());
  CHECK(io.counts().retries == 0);
}

TEST_CASE("a read in flight ends when its run is stopped") {
  const bool pauses = GENERATE(false, true);
  HttpServer server{but_for([&](const HttpRequest& request, HttpConnection& connection) {
    if (request.number != 0) {
      pauses ? connection.send(only("503 Busy", "Retry-After: 30\r\n")) : connection.hang();
    }
    return request.number != 0;
  })};
  const tests::Watchdog watchdog{"a stop"};
  // More workers than connections, so that some wait for one.
  auto pipeline =
      ps::Reader{ps::records<char>(server.url("/a"), {}, ps::HttpIo{{.connections = 2}}),
                 {.workers = 4, .batch = 5000}} |
      ps::Consumer{[](ps::Batch<const char, ps::Pageable>) {}};
  pipeline.prepare();
  Clock::time_point stopped;
  std::thread stops{[&] {
    std::this_thread::sleep_for(200ms);
    stopped = Clock::now();
    pipeline.stop();
  }};
  const ps::Report report = pipeline.run();
  const Clock::duration took = Clock::now() - stopped;
  stops.join();
  CHECK(report.stopped);
  CHECK(report.stages[0].skipped == 0);
  CHECK(took < 200ms); // 100 on a machine with nothing else to do
}

TEST_CASE("nothing of a user, a password, a signature or a token is shown") {
  HttpServer server{but_for([](const HttpRequest& request, HttpConnection& connection) {
    const bool good = request.path == "/a.bin?Signature=secret" &&
                      request.line("X-Token") == "secret" &&
                      request.line("Authorization") == "Basic dXNlcjpzZWNyZXQ="; // user:secret
    connection.send(good && request.number < 2 ? part_of(request, object()) : only("403 No"));
    return true;
  })};
  const ps::HttpIo io{{.headers = {"X-Token: secret"}}};
  std::string url = server.url("/a.bin?Signature=secret");
  url.replace(0, 7, "http://user:secret@");
  CHECK(read(io, url) == object());
  auto pipeline = ps::Reader{ps::records<char>(url, {}, io)} |
                  ps::Consumer{[](ps::Batch<const char, ps::Pageable>) {}};
  const auto e = caught<ps::SourceError>([&] { pipeline.run(); });
  CHECK(has(e, "http://...@127.0.0.1"));
  CHECK(has(e, "/a.bin?...: the server answered 403."));
  CHECK(std::string{e.what()}.find("secret") == std::string::npos);
  CHECK(e.file().find("secret") == std::string::npos);
  CHECK(io.note().find("secret") == std::string::npos);
}

TEST_CASE(
    "a redirect is followed once, and again when it has expired; another host gets no headers") {
  std::atomic<int> asked_first{0};
  std::atomic<bool> expired{false};
  std::atomic<bool> leaked{false};
  HttpServer store{[&](const HttpRequest& request, HttpConnection& connection) {
    leaked = leaked || !request.line("Authorization").empty();
    connection.send(expired.exchange(false) ? only("403 Expired") : part_of(request, object()));
  }};
  HttpServer first{[&](const HttpRequest& request, HttpConnection& connection) {
    ++asked_first;
    // Who redirects does not know the object's ETag.
    const bool knows =
        request.line("Authorization") == "Bearer t" && request.line("If-Match").empty();
    connection.send(
        knows ? only("302 There", "Location: " + store.url("/b?sig=1", "localhost") + "\r\n")
              : only("412 No"));
  }};
  const ps::HttpIo io{{.headers = {"Authorization: Bearer t"}}};
  auto source = ps::records<char>(first.url("/a"), {}, io);
  source.open();
  std::string some(1000, '\0');
  const auto read_again = [&] {
    source.read_bytes(5, std::as_writable_bytes(std::span{some}));
    CHECK(some == object().substr(5, 1000));
  };
  read_again();
  CHECK(asked_first == 1);
  expired = true;
  read_again();
  CHECK(asked_first == 2);
  CHECK_FALSE(leaked);
}

TEST_CASE("a target says where an object lies and how requests for it are signed") {
  std::atomic<bool> was_signed{true};
  HttpServer server{but_for([&](const HttpRequest& request, HttpConnection&) {
    was_signed = was_signed && request.path == "/bucket/key" &&
                 request.line("X-Session") == "token" &&
                 request.line("Authorization").starts_with("AWS4-HMAC-SHA256 Credential=id/");
    return false;
  })};
  const auto target = [&](const std::string& name) {
    return ps::HttpTarget{.url = server.url("/bucket/" + name.substr(name.rfind('/') + 1)),
                          .sigv4 = "aws:amz:eu-west-1:s3",
                          .user = "id",
                          .password = "secret",
                          .headers = {"X-Session: token"}};
  };
  CHECK(read(ps::HttpIo{{.target = target}}, "s3://bucket/key") == object());
  CHECK(was_signed);
}

TEST_CASE("whatever happens on the way, each byte comes once and in order") {
  std::atomic<unsigned> seed{1};
  HttpServer server{but_for([&](const HttpRequest& request, HttpConnection& connection) {
    std::mt19937 random{seed++};
    const std::string whole = part_of(request, object());
    const unsigned fault = request.number < 2 ? 0 : random() % 8;
    if (fault == 1) {
      connection.send(only("503 Busy"));
    } else if (fault == 2) {
      connection.send(whole.substr(0, random() % whole.size()));
      connection.close();
    } else if (fault == 3) {
      connection.send(whole.substr(0, random() % whole.size()));
      connection.reset();
    } else if (fault == 4) {
      HttpRequest less = request;
      less.end = less.first + 1 + random() % (less.end - less.first);
      connection.send(part_of(less, object()));
    } else if (fault == 5) {
      connection.close();
    }
    return fault != 0 && fault < 6;
  })};
  const bool shuffled = GENERATE(false, true);
  struct Record {
    char bytes[300];
  };
  std::vector<std::string> seen;
  const ps::HttpIo io{{.connections = 4, .deadline = 20s}};
  ps::ReaderOptions options{.workers = 3, .batch = 50};
  if (shuffled) {
    options.order.shuffle = 3;
  }
  auto pipeline = ps::Reader{ps::records<Record>(server.url("/a"), {}, io), options} |
                  ps::Consumer{[&](ps::Batch<const Record, ps::Pageable> batch) {
                    for (std::size_t i = 0; i != batch.size(); ++i) {
                      seen.emplace_back(batch.data()[i].bytes, sizeof(Record));
                    }
                  }};
  pipeline.run();
  CHECK((shuffled ? sorted(seen) : seen) ==
        (shuffled ? sorted(cut(sizeof(Record))) : cut(sizeof(Record))));
  CHECK(io.counts().retries > 0);
}

} // namespace
