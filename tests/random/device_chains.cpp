// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

#include "random/chains.hpp"

#include <penstock/callables/replayed.hpp>
#include <penstock/data/counted.hpp>
#include <penstock/stages/async_copier.hpp>
#include <penstock/stages/consumer.hpp>
#include <penstock/stages/kernel.hpp>
#include <penstock/stages/pinned_stager.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace penstock::tests::drawn {
namespace {

using OnDevice = Batch<const Number, Device>;

void change(OnDevice in, Batch<Number, Device> out, HostStream& stream) {
  stream.enqueue([in, out] {
    for (std::size_t i = 0; i != in.size(); ++i) {
      out.data()[i] = of_kernel(in.data()[i]);
    }
  });
}
void change_in_place(Batch<Number, Device> batch, HostStream& stream) {
  stream.enqueue([batch] {
    for (std::size_t i = 0; i != batch.size(); ++i) {
      batch.data()[i] = in_place(batch.data()[i]);
    }
  });
}
void change_frozen(FrozenBatch<Number> batch, HostStream& stream) {
  stream.enqueue([batch] {
    for (std::size_t i = 0; i != batch.size(); ++i) {
      batch.data()[i] = in_place(batch.data()[i]);
    }
  });
}
void choose(OnDevice in, Batch<Counted<Number>, Device> out, HostStream& stream) {
  stream.enqueue([in, out] {
    std::uint64_t count = 0;
    for (std::size_t i = 0; i != in.size(); ++i) {
      if (is_selected(in.data()[i])) {
        out.data()[count++] = in.data()[i];
      }
    }
    *out.count() = count;
  });
}

template <class P> std::unique_ptr<Open> on_streams(P chain, HostDevice& device) {
  auto streams = std::make_unique<Streams>(Streams{device.stream(), device.stream()});
  return std::make_unique<OpenOf<OnDevice>>(std::move(chain), &device, std::move(streams));
}

/// Adds what follows the copy to the device.
template <class P> Made end(P chain, const Description& d, const Used& used, Made made) {
  HostDevice& device = *made.device;
  const AsyncCopier back{to_host, d.back};
  const Work behind{behind_the_device(d), used.world};
  const auto kernels = [&](P from) {
    return std::move(from) | Kernel{&change, {.streams = d.streams}} | Kernel{&change_in_place};
  };
  switch (d.behind) {
  case Behind::nothing:
    made.open = on_streams(std::move(chain), device);
    break;
  case Behind::kernels:
    made.open = on_streams(kernels(std::move(chain)), device);
    break;
  case Behind::back:
    made.open = open(kernels(std::move(chain)) | back, &device);
    break;
  case Behind::back_decoded:
    made.open = open(std::move(chain) | back |
                         Decoder{Records{[](const Number& in, Number& out) { out = decoded(in); }},
                                 {.workers = d.last_workers}},
                     &device);
    break;
  case Behind::back_outputs:
    made.open = open(std::move(chain) | back | Decoder{behind.gives(), behind.options()}, &device);
    break;
  case Behind::counted:
    made.open = open(std::move(chain) | Kernel{&choose, {.streams = d.streams}} | back, &device);
    break;
  case Behind::replayed:
    made.lanes = std::make_shared<std::vector<Lane>>(d.last_workers);
    made.whole = std::move(chain) | Kernel{replayed(&change_frozen, {.lanes = d.streams})} |
                 Consumer{replayed(
                     [lanes = made.lanes](FrozenBatch<const Number> batch, HostStream& stream) {
                       Lane& lane = (*lanes)[batch.lane()];
                       stream.enqueue([batch, &lane] {
                         lane.count += batch.size();
                         for (std::size_t i = 0; i != batch.size(); ++i) {
                           lane.sum += batch.data()[i];
                         }
                       });
                     },
                     {.lanes = d.last_workers})};
    break;
  }
  return made;
}

} // namespace

Made on_device(const Description& d, const Used& used) {
  Made made;
  made.device = std::make_shared<HostDevice>(HostOptions{.late_seed = d.late});
  const AsyncCopier copier{*made.device, d.copier};
  const PinnedStager stager{{.workers = d.last_workers}};
  const ReaderOptions options = reading(d);
  const auto copied = [&](auto chain) {
    return end(std::move(chain) | copier, d, used, std::move(made));
  };
  if (d.steps.empty() && d.pin != Pin::stager) {
    return copied(Reader{used.sources.numbers(), to_pinned, options});
  }
  Reader reader{used.sources.numbers(), options};
  if (d.steps.empty()) {
    return copied(std::move(reader) | stager);
  }
  const Work work{d.steps[0], used.world};
  const DecoderOptions decoding = work.options();
  switch (d.steps[0].form) {
  case Form::visit:
  case Form::record:
    return d.pin == Pin::last
               ? copied(std::move(reader) | Decoder{work.visits(), to_pinned, decoding})
               : copied(std::move(reader) | Decoder{work.visits(), decoding} | stager);
  case Form::batch:
    return copied(std::move(reader) | Decoder{work.batched(), decoding} | stager);
  case Form::outputs:
    return d.pin == Pin::last
               ? copied(std::move(reader) | Decoder{work.gives(), to_pinned, decoding})
               : copied(std::move(reader) | Decoder{work.gives(), decoding} | stager);
  case Form::groups:
    break;
  }
  return copied(std::move(reader) | Decoder{work.packs(), to_pinned, decoding});
}

} // namespace penstock::tests::drawn
