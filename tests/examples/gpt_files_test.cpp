// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// What examples/gpt/ reads and writes besides checkpoints: options, losses and their picture, the
// summary, and the profile.

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/temp_dir.hpp"

#include "../../examples/gpt/command_line.hpp"
#include "../../examples/gpt/curve.hpp"
#include "../../examples/gpt/curve_picture.hpp"
#include "../../examples/gpt/generate_options.hpp"
#include "../../examples/gpt/operations.hpp"
#include "../../examples/gpt/profile.hpp"
#include "../../examples/gpt/summary.hpp"
#include "../../examples/gpt/train_options.hpp"

#include <penstock/diagnose/gpu_watch_summary.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ps = penstock;
using namespace transformer;
using ps::tests::caught;
using ps::tests::content_of;
using ps::tests::TempDir;

namespace {

template <class Options> Options options(std::vector<std::string> words) {
  words.insert(words.begin(), "program");
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  return Options{static_cast<int>(argv.size()), argv.data()};
}
template <class Options> std::string refused(const std::vector<std::string>& words) {
  std::string text = caught<std::invalid_argument>([&] { options<Options>(words); }).what();
  CHECK(text.find('\n') == text.npos);
  return text;
}

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

bool has(const std::string& text, std::string_view part) {
  INFO(text);
  return text.find(part) != text.npos;
}

} // namespace

TEST_CASE("train's options are what the words say") {
  const auto some = options<TrainOptions>(
      {"--data", "a.txt", "--config=small", "--batch", "12", "--micro-batches", "3", "--dropout",
       "0.2", "--seed=18446744073709551615", "--rate", "1e-3", "--profile", "--steps", "5",
       "--steps", "7", "--csv", "=x"});
  CHECK(some.data == "a.txt");
  CHECK(some.config == "small");
  CHECK(some.batch == 12);
  CHECK(some.micro_batches == 3);
  CHECK(some.dropout == 0.2F);
  CHECK(some.rate == 1e-3F);
  CHECK(some.seed == std::numeric_limits<std::uint64_t>::max());
  CHECK(some.steps == 7);
  CHECK(some.csv == "=x");
  CHECK(some.profile);
  CHECK(!some.json);
  CHECK(!some.context);
  CHECK(!some.help);
}

TEST_CASE("a rank beside the first writes nothing, and is the same in all else") {
  const auto first = options<TrainOptions>(
      {"--data", "a", "--csv", "c", "--svg", "s", "--checkpoint", "d", "--checkpoint-every", "5",
       "--resume", "e", "--profile", "--json", "--dump-gradients", "g"});
  CHECK(first.stall == 60);
  const TrainOptions beside = first.beside_first();
  CHECK(beside.csv.empty());
  CHECK(beside.svg.empty());
  CHECK(beside.checkpoint.empty());
  CHECK(beside.dump_gradients.empty());
  CHECK_FALSE(beside.profile);
  CHECK_FALSE(beside.json);
  CHECK(beside.data == "a");
  CHECK(beside.resume == "e");
  CHECK(beside.checkpoint_every == 5);
}

TEST_CASE("an option that cannot be is refused in one line with what could") {
  const auto train = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"--data", "a"});
    return refused<TrainOptions>(words);
  };
  CHECK(train({"--stepz", "5"}) == "there is no option \"--stepz\": see train --help");
  CHECK(train({"more"}) == "there is no option \"more\": see train --help");
  CHECK(train({"--steps"}) == "--steps has nothing behind it: see train --help");
  CHECK(train({"--csv", "--json"}) == "--csv has nothing behind it: see train --help");
  CHECK(train({"--csv="}) == "--csv has nothing behind it: see train --help");
  CHECK(train({"--json=yes"}) == "--json takes no value: see train --help");
  CHECK(has(train({"--steps", "0"}), "--steps is \"0\": give a whole number from 1 to 1000000000"));
  CHECK(has(train({"--steps", "-1"}), "--steps is \"-1\": give"));
  CHECK(has(train({"--steps", "1e3"}), "--steps is \"1e3\": give"));
  CHECK(has(train({"--steps", "99999999999999999999"}), "give a whole number"));
  CHECK(has(train({"--dropout", "0.95"}), "--dropout is \"0.95\": give a number from 0 to 0.9"));
  CHECK(has(train({"--dropout", "nan"}), "--dropout is \"nan\""));
  CHECK(has(train({"--rate", "0.1x"}), "--rate is \"0.1x\""));
  CHECK(has(train({"--device", "gpu"}), "--device is \"gpu\": give auto|cuda|host"));
  CHECK(has(train({"--config", "Tiny"}), "give tiny|small|124M"));
  CHECK(has(train({"--checkpoint-every", "5"}), "--checkpoint-every needs --checkpoint"));
  CHECK(has(train({"--batch", "10", "--micro-batches", "4"}), "--batch is 10, which no 4 equal"));
  CHECK(has(train({"--dump-gradients", "g", "--micro-batches", "4"}), "leave out --micro-batches"));
  CHECK(has(refused<TrainOptions>({}), "give --data"));
  CHECK(has(refused<GenerateOptions>({"--prompt", "a"}), "give --checkpoint"));
  CHECK(has(refused<GenerateOptions>({"--checkpoint", "a", "--temperature", "-1"}),
            "--temperature is \"-1\": give a number from 0 to 100: see generate --help"));
}

TEST_CASE("options move") {
  int number = 0;
  CommandLine first{"program", "does something"};
  first.number("--number", number, Range<int>{1, 5}, "some");
  CommandLine line = std::move(first);
  std::vector<std::string> words{"program", "--number", "7"};
  std::vector<char*> argv{words[0].data(), words[1].data(), words[2].data()};
  CHECK(has(caught<std::invalid_argument>([&] { line.parse(3, argv.data()); }).what(),
            "to 5: see program --help"));
}

TEST_CASE("what a training goes on with counts where no option is given") {
  auto some = options<TrainOptions>({"--data", "a", "--rate", "0.5", "--steps=9"});
  some.go_on_with({{"--rate", "0.25"}, {"--dropout", "0.125"}, {"--clip", "0"}, {"--steps", "1"}});
  CHECK(some.rate == 0.5F);
  CHECK(some.dropout == 0.125F);
  CHECK(some.clip == 0);
  CHECK(some.steps == 9);
  CHECK_THROWS_AS(some.go_on_with({{"--decay", "x"}}), std::invalid_argument);
}

TEST_CASE("no file is written over another that the program reads or writes") {
  const TempDir dir;
  const std::string data = dir.write("text", "some text");
  std::filesystem::create_symlink(data, dir / "link");
  const auto written = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"--data", data});
    return refused<TrainOptions>(words);
  };
  CHECK(has(written({"--csv", data}), "--csv would be written over --data, " + data));
  CHECK(has(written({"--csv", dir / "link"}), "--csv would be written over --data"));
  CHECK(has(written({"--checkpoint", data}), "--checkpoint would be written over --data"));
  CHECK(has(written({"--val", "v", "--svg", "v"}), "--svg would be written over --val"));
  CHECK(has(written({"--resume", "c", "--csv", "c"}), "--csv would be written over --resume"));
  CHECK(has(written({"--csv", "c", "--svg", "c"}), "--svg would be written over --csv"));
  CHECK(options<TrainOptions>({"--data", data, "--resume", "c", "--checkpoint", "c"}).resume ==
        "c");
}

TEST_CASE("help is all that counts, and names every option") {
  auto train = options<TrainOptions>({"--nonsense", "--help"});
  CHECK(train.help);
  const std::string usage = train.usage();
  for (const char* name : {"--data FILE",
                           "--val FILE",
                           "--config tiny|small|124M",
                           "--steps N",
                           "--batch N",
                           "--micro-batches N",
                           "--context N",
                           "--events LIST",
                           "--device auto|cuda|host",
                           "--dropout X",
                           "--rate X",
                           "--warmup N",
                           "--clip X",
                           "--decay X",
                           "--seed N",
                           "--eval-every N",
                           "--eval-batches N",
                           "--checkpoint FILE",
                           "--checkpoint-every N",
                           "--resume FILE",
                           "--csv FILE",
                           "--svg FILE",
                           "--stall N",
                           "--profile",
                           "--json"}) {
    CHECK(has(usage, std::string{"\n  "} + name + "  "));
  }
  CHECK(has(options<GenerateOptions>({"--help"}).usage(), "\n  --top-k N  "));
  const auto generate = options<GenerateOptions>(
      {"--checkpoint", "c", "--prompt=--help me", "--top-k", "5", "--temperature", "0"});
  CHECK(generate.prompt == "--help me");
  CHECK(generate.top_k == 5);
  CHECK(generate.temperature == 0);
}

TEST_CASE("losses are in the file as soon as they are there") {
  const TempDir dir;
  dir.write("c.csv", "of another run\n");
  Curve curve{dir / "c.csv"};
  CHECK(content_of(dir / "c.csv") == "step,train_loss,val_loss,rate,seconds\n");
  curve.add({.step = 1, .loss = 4.25, .rate = 1e-5, .seconds = 0.5});
  curve.add({.step = 2, .loss = 4, .val_loss = 4.5, .rate = double{0.001F}, .seconds = 1});
  CHECK(content_of(dir / "c.csv") == "step,train_loss,val_loss,rate,seconds\n"
                                     "1,4.25,,1e-05,0.5\n"
                                     "2,4,4.5,0.001,1\n");
  CHECK(curve.points().size() == 2);
  Curve unwritten{""};
  unwritten.add({.step = 1, .loss = 1});
  CHECK(unwritten.points().size() == 1);
  CHECK(has(caught<std::runtime_error>([&] { Curve{dir / "no/c.csv"}; }).what(),
            "cannot write " + (dir / "no/c.csv")));
}

TEST_CASE("a training that goes on goes on with its file of losses") {
  const TempDir dir;
  const std::string begin = "step,train_loss,val_loss,rate,seconds\n1,4,,0.1,10\n2,3,3.5,0.1,20\n";
  // Steps after the checkpoint, and one that was being written when the process ended.
  const std::string later = "3,2,,0.1,30\n4,1,,0.";
  const std::string path = dir.write("c.csv", begin + later);
  {
    Curve curve{path, 2};
    CHECK(content_of(path) == begin + later); // until it is sure that they come again
    curve.add({.step = 3, .loss = 2.5, .rate = 0.1, .seconds = 1});
    CHECK(curve.points() == std::vector<CurvePoint>{
                                {.step = 1, .loss = 4, .rate = 0.1, .seconds = 10},
                                {.step = 2, .loss = 3, .val_loss = 3.5, .rate = 0.1, .seconds = 20},
                                {.step = 3, .loss = 2.5, .rate = 0.1, .seconds = 21}});
    CHECK(content_of(path) == begin + "3,2.5,,0.1,21\n");
  }
  {
    Curve none{dir / "new.csv", 2};
    CHECK(content_of(dir / "new.csv") == Curve::header);
  }
  CHECK(Curve{dir / "new.csv", 2}.points().empty()); // nor did the next one get far
  const std::string early = dir.write("early.csv", begin);
  CHECK(has(caught<std::runtime_error>([&] { Curve{early, 3}; }).what(),
            early + " ends at step 2, and the training goes on behind step 3"));
  CHECK(content_of(early) == begin);
  for (const char* bad : {"1,4,,0.1\n", "1,4,,0.1,10,5\n", "1,,,0.1,10\n", "-1,4,,0.1,10\n",
                          "1,4,x,0.1,10\n", "\n", "1,4,,0.1,10\n1,4,,0.1,10\n"}) {
    const std::string whole = std::string{Curve::header} + bad;
    const std::string damaged = dir.write("bad.csv", whole);
    const std::string line = std::to_string(std::ranges::count(whole, '\n'));
    CHECK(has(caught<std::runtime_error>([&] { Curve{damaged, 5}; }).what(),
              damaged + ", line " + line + ": "));
    CHECK(content_of(damaged) == whole);
  }
  CHECK(has(caught<std::runtime_error>([&] { Curve{dir.write("x", "other\n"), 5}; }).what(),
            "line 1"));
  CHECK(has(caught<std::runtime_error>([&] { Curve{dir.path(), 5}; }).what(),
            "cannot write " + dir.path()));
}

TEST_CASE("the picture has both curves, axes with round ticks, and nothing outside") {
  std::vector<CurvePoint> points;
  for (std::uint64_t step = 1; step <= 2000; ++step) {
    CurvePoint point{.step = step, .loss = 1 + 3.3 / static_cast<double>(step)};
    if (step % 500 == 0) {
      point.val_loss = point.loss + 0.1;
    }
    points.push_back(point);
  }
  points[10].loss = std::numeric_limits<double>::quiet_NaN();
  points[11].loss = std::numeric_limits<double>::infinity();
  const TempDir dir;
  write_picture(dir / "c.svg", points);
  const std::string svg = content_of(dir / "c.svg");
  CHECK(svg.starts_with("<svg "));
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(count(svg, "<polyline") == 2);
  CHECK(count(svg, "<circle") == 4);
  CHECK(count(svg, "nan") + count(svg, "inf") == 0);
  for (const char* tick :
       {">1<", ">2.5<", ">0<", ">500<", ">2000<", ">steps<", ">loss<", ">train<", ">validation<"}) {
    CHECK(has(svg, tick));
  }
  // Means of four steps each, from left to right and never up again.
  const std::string_view line = std::string_view{svg}.substr(svg.find("points=\"") + 8);
  std::istringstream places{std::string{line.substr(0, line.find('"'))}};
  double before_x = 60;
  double before_y = 0;
  std::size_t seen = 0;
  for (double x = 0, y = 0; places >> x && places.get() == ',' && places >> y; ++seen) {
    CHECK((x >= before_x && x <= 700));
    CHECK((y >= before_y && y <= 375));
    before_x = x;
    before_y = y;
  }
  CHECK(seen == 500);
  CHECK(before_x > 699);
}

TEST_CASE("a picture of no losses, of one and of equal ones can be drawn") {
  CHECK(count(CurvePicture{{}}.svg(), "<polyline") == 0);
  const std::vector<CurvePoint> one{{.step = 1, .loss = 3}};
  CHECK(has(CurvePicture{one}.svg(), "points=\"700.0,"));
  const std::vector<CurvePoint> equal{{.step = 1, .loss = -2}, {.step = 2, .loss = -2}};
  const std::string svg = CurvePicture{equal}.svg();
  CHECK(count(svg, "nan") + count(svg, "inf") == 0);
  CHECK(has(svg, ">-2<"));
  // Losses of which no neighbour is a millionth away.
  for (const double loss : {1e10, 1e30, 3e38}) {
    const std::vector<CurvePoint> huge{{.step = 1, .loss = loss}};
    const std::string drawn = CurvePicture{huge}.svg();
    CHECK(count(drawn, "nan") + count(drawn, "inf") == 0);
    CHECK(count(drawn, "<line") < 30);
  }
}

TEST_CASE("the summary is one line of JSON") {
  CHECK(to_json({.losses = {4.5, 4}, .tokens_per_s = 1000, .wait_share = 0.25, .position = "7"})
            .text() == R"({"loss": [4.5, 4], "val_loss": null, "tokens_per_s": 1000, )"
                       R"("idle": null, "wait_share": 0.25, "syncs": null, "launches": null, )"
                       R"("events": [], "position": "7"})");
  CHECK(to_json({.losses = {},
                 .val_loss = 1.5,
                 .tokens_per_s = 0.5,
                 .idle = 0.125,
                 .syncs = 3,
                 .launches = 0,
                 .events = {"pinned", "graph"}})
            .text() == R"({"loss": [], "val_loss": 1.5, "tokens_per_s": 0.5, "idle": 0.125, )"
                       R"("wait_share": 0, "syncs": 3, "launches": 0, )"
                       R"("events": ["pinned", "graph"], "position": ""})");
}

TEST_CASE("operations are those of each product, counted one by one") {
  constexpr Config config{.layers = 4, .width = 8, .heads = 2, .context = 16, .vocabulary = 100};
  // By a loop over the products of a sequence forward; a product is {rows, in, out}.
  const auto product = [](double m, double k, double n) { return 2 * m * k * n; };
  const double block =
      product(16, 8, 24) + product(16, 8, 8) + product(16, 8, 32) + product(16, 32, 8);
  const double head = product(16, 8, 128);
  const double down = product(16, 32, 8);
  double pairs = 0;
  for (int query = 0; query < 16; ++query) {
    pairs += query + 1;
  }
  const double pair_product = 2 * pairs * 8;

  const Operations kept = operations_of(config, {.tokens = 16, .trained = 3, .group = 4});
  CHECK(kept.products == 3 * 3 * (4 * block + head));
  CHECK(kept.attention_forward == 3 * 4 * 2 * pair_product);
  CHECK(kept.attention_backward == 3 * 4 * 5 * pair_product);
  const Operations again = operations_of(config, {.tokens = 16, .trained = 1, .group = 2});
  CHECK(again.products == 3 * (4 * block + head) + 2 * block - down);
  CHECK(again.attention_forward == 6 * 2 * pair_product);
  const Operations valid = operations_of(config, {.tokens = 16, .validated = 1, .group = 2});
  CHECK(valid.products == 4 * block + head);
  CHECK(valid.attention_backward == 0);
  const Operations plain =
      operations_of(config, {.tokens = 16, .trained = 1, .group = 4, .fused_attention = false});
  CHECK(plain.attention_forward == 0);
  CHECK(plain.products == 3 * (4 * block + head) + 4 * 6 * product(16, 8, 16));
  CHECK(plain.all() == plain.products);
}

TEST_CASE("a kernel is called as its author did") {
  CHECK(kernel_name("_ZN11transformer11norm_kernelIfEEvNS_4NormIT_EEmmf") == "norm_kernel<float>");
  CHECK(kernel_name(
            "_ZN11transformer5flash7forwardILi64EEEvPK13__nv_bfloat16PS2_PfNS_10FlashShapeE") ==
        "flash::forward<64>");
  CHECK(kernel_name("_ZN8penstock6detail15for_each_kernelIN11transformer9AdamWStepINS_"
                    "8BFloat16EEEEEvmT_") == "AdamWStep<BFloat16>");
  CHECK(kernel_name("nvjet_hsh_128x256_64x4") == "nvjet_hsh_128x256_64x4");
}

TEST_CASE("the profile counts products as one, and tells their share of the peak") {
  ps::WatchSummary watched;
  watched.gpu.seconds = 2;
  watched.kernels = {
      {.name = "_ZN11transformer5flash7forwardILi64EEEvv", .launches = 12, .seconds = 0.25},
      {.name = "nvjet_hsh_128x256", .launches = 30, .seconds = 0.5},
      {.name = "sm90_xmma_gemm_bf16", .launches = 4, .seconds = 0.375},
      {.name = "_ZN8cublasLt19splitKreduce_kernelILi32EEEvv", .launches = 2, .seconds = 0.125},
      {.name = "_ZN11transformer11norm_kernelIfEEvv", .launches = 25, .seconds = 0.125}};
  std::ostringstream os;
  const Profile profile{watched, {.products = peak_per_s / 2, .attention_forward = 1e12}};
  profile.print(os);
  const std::string text = os.str();
  std::istringstream lines{text};
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words{line};
    rows.emplace_back(std::istream_iterator<std::string>{words},
                      std::istream_iterator<std::string>{});
  }
  using Row = std::vector<std::string>;
  INFO(text);
  REQUIRE(rows.size() == 5);
  CHECK(rows[1] ==
        Row{"products", "(cuBLASLt)", "1000.00", "36", "50.0", "%", "494.8", "50.0", "%"});
  CHECK(rows[2] == Row{"flash::forward<64>", "250.00", "12", "12.5", "%", "4.0", "0.4", "%"});
  CHECK(rows[3] == Row{"norm_kernel<float>", "125.00", "25", "6.2", "%"});
  CHECK(rows[4] == Row{"all", "kernels", "1375.00", "73", "68.8", "%", "360.5", "36.4", "%"});
  watched.gpu.dropped = 3;
  os.str("");
  Profile{watched, {}}.print(os);
  CHECK(has(os.str(), "3 records were lost"));
}
