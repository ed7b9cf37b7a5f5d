// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// generate: writes on as a GPT would that train has trained, or llm.c.
//
//   generate --checkpoint FILE [--prompt TEXT] [--tokens N] [--temperature T] [--top-k K]
//            [--seed S] [--device auto|cuda|host]
//
// A model of a text writes characters; one of tokens, their numbers. Equal options give equal texts
// on one device. nvcc compiles this source for both devices, any other compiler for the host device
// alone. docs/gpt.md tells more.

#include "checkpoint.hpp"
#include "generate_options.hpp"
#include "generator.hpp"
#include "host_ops.hpp"
#include "prompt.hpp"
#include "sampler.hpp"
#include "text.hpp"
#if defined(__CUDACC__)
#include "gpu_ops.cuh"
#endif

#include <penstock/host/device.hpp>
#include <penstock/with_device.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <type_traits>
#include <vector>

namespace ps = penstock;
using namespace transformer;

#if defined(__CUDACC__)
template <class D>
using Ops = std::conditional_t<std::is_same_v<D, ps::HostDevice>, HostOps<float>, GpuOps<float>>;
#else
template <class D> using Ops = HostOps<float>;
#endif

void flush_output() {
  if (!std::cout.flush()) {
    throw std::runtime_error{"cannot write to standard output: it is closed, or its disk is full"};
  }
}

template <ps::AnyDevice D>
void generate(D& device, const GenerateOptions& options, const Checkpoint<>& checkpoint) {
  const PromptText text{Vocabulary{checkpoint.state() ? checkpoint.state()->characters : ""},
                        checkpoint.config().vocabulary};
  std::vector<std::int32_t> tokens = text.tokens_of(options.prompt);
  Generator<Ops<D>> generator{device, checkpoint, tokens.size() + options.tokens};
  Sampler choose{{options.temperature, options.top_k, options.seed}};
  if (!options.prompt.empty()) {
    for (const std::int32_t token : tokens) {
      std::cout << text.shown(token);
    }
  }
  for (std::uint64_t i = 0; i < options.tokens; ++i) {
    tokens.push_back(static_cast<std::int32_t>(choose(generator(tokens))));
    std::cout << text.shown(tokens.back());
    flush_output();
  }
  std::cout << '\n';
  flush_output();
}

int main(int argc, char** argv) try {
  GenerateOptions options{argc, argv};
  if (options.help) {
    std::cout << options.usage();
    return 0;
  }
  const Checkpoint<> checkpoint{options.checkpoint};
  ps::with_device(options.device, [&](auto& device) {
    const auto attached = device.attach();
    generate(device, options, checkpoint);
  });
  return 0;
} catch (const std::exception& error) {
  std::cerr << "generate: " << error.what() << '\n';
  return 1;
}
