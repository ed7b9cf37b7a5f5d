// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

#include "random/chains.hpp"

#include <penstock/data/row.hpp>
#include <penstock/sources/windows.hpp>
#include <penstock/stages/consumer.hpp>
#include <penstock/stages/writer.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

namespace penstock::tests::drawn {
namespace {

struct Text : Columns<Field<"text", Ragged<char>>, Field<"size", std::uint32_t>> {};

/// The most Decoders of a chain, and those behind which there are a Consumer and a Writer too.
constexpr std::size_t most_steps = 3, most_before_end = 2;

template <class P> Made end(P chain, const Description& d, const Used& used) {
  Made made;
  if (d.end == End::consumer) {
    made.seen = std::make_shared<Seen>();
    const auto see = [seen = made.seen, world = used.world](Numbers batch) {
      world->consumer.pass();
      take_time(batch.index());
      seen->add(batch);
    };
    made.whole = std::move(chain) | Consumer{see, {.workers = d.last_workers}};
  } else if (d.end == End::writer) {
    made.path = used.folder / "written";
    made.whole = std::move(chain) | Writer{made.path, {.workers = d.last_workers}};
  } else {
    made.open = open(std::move(chain));
  }
  return made;
}

/// Adds the steps from `At` on, and an end. `Bare`: there is nothing but a Reader.
template <std::size_t At, std::size_t Most, bool Bare = false, class P>
Made grow(P chain, const Description& d, const Used& used) {
  if constexpr (At != Most) {
    if (At != d.steps.size()) {
      const Step& step = d.steps[At];
      const Work work{step, used.world};
      const DecoderOptions options = work.options();
      const auto with = [&](auto decode) {
        return grow<At + 1, Most>(std::move(chain) | Decoder{std::move(decode), options}, d, used);
      };
      switch (step.form) {
      case Form::visit:
        if constexpr (At == 0) {
          return with(work.visits());
        }
        [[fallthrough]];
      case Form::record:
        return with(work.records());
      case Form::batch:
        return with(work.batched());
      case Form::outputs:
        return with(work.gives());
      case Form::groups:
        return with(work.packs());
      }
    }
  }
  if constexpr (Bare) {
    throw OptionError{"penstock: this chain has no Decoder"};
  } else if constexpr (At <= most_before_end && Most == most_steps) {
    return end(std::move(chain), d, used);
  } else {
    Made made;
    made.open = open(std::move(chain));
    return made;
  }
}

/// Makes a Decoder of rows that gives numbers.
template <class In, class F> auto to_numbers(F f, const Description& d) {
  return Decoder{std::function<void(Row<const In>, Number&)>{std::move(f)},
                 {.workers = d.last_workers}};
}

} // namespace

Made on_host(const Description& d, const Used& used) {
  ReaderOptions options = reading(d);
  if (d.numbers()) {
    return grow<0, most_steps, true>(Reader{used.sources.numbers(), options}, d, used);
  }
  if (d.from == From::zipped) {
    const auto number = [](Row<const Pair> in, Number& out) {
      out = hash(get<"first">(in), get<"second">(in));
    };
    return grow<0, 1>(Reader{used.sources.zipped(), options} | to_numbers<Pair>(number, d), d,
                      used);
  }
  if (d.from == From::windows) {
    using Tokens = Window<Number>;
    const auto number = [](Row<const Tokens> in, Number& out) {
      out = Sources::all_of(get<"tokens">(in));
    };
    return grow<0, 1>(Reader{used.sources.windows(), options} | to_numbers<Tokens>(number, d), d,
                      used);
  }
  // Exactly what the longest lines need, or what the source tells.
  const std::size_t most =
      (options.batch == 0 ? std::size_t{256} : options.batch) * Sources::longest_line;
  options.value_bytes = d.seed % 2 == 0 ? most : 0;
  if (d.from == From::lines) {
    const auto number = [](Row<const Line> in, Number& out) {
      out = Sources::all_of(get<"text">(in));
    };
    return grow<0, 1>(Reader{used.sources.lines(), options} | to_numbers<Line>(number, d), d, used);
  }
  const auto copy = [](Row<const Line> in, Row<Text> out) {
    const auto text = get<"text">(in);
    std::copy_n(text.data(), text.size(), put<"text">(out, text.size()));
    get<"size">(out) = static_cast<std::uint32_t>(text.size());
  };
  const auto number = [](Row<const Text> in, Number& out) {
    const auto text = get<"text">(in);
    out = get<"size">(in) == text.size() ? Sources::all_of(text) : 0;
  };
  return grow<0, 1>(
      Reader{used.sources.lines(), options} |
          Decoder{std::function<void(Row<const Line>, Row<Text>)>{copy},
                  {.workers = d.last_workers, .value_bytes = d.seed % 3 == 0 ? most : 0}} |
          to_numbers<Text>(number, d),
      d, used);
}

} // namespace penstock::tests::drawn
