// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "watch_figures.hpp"

#include <penstock/diagnose/detail/call_names.hpp>
#include <penstock/diagnose/gpu_watch_summary.hpp>
#include <penstock/diagnose/watch_text.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace doctor {

/// Whether a product of floats does without tensor cores.
constexpr bool is_plain_product(std::string_view kernel) noexcept {
  const auto has = [&](std::string_view part) { return kernel.find(part) != kernel.npos; };
  return is_product(kernel) && (has("sgemm") || has("simt") || has("ffma")) && !has("tensorop") &&
         !has("tf32") && !has("bf16");
}

/// Whether a kernel computes a softmax that is not part of a fused attention.
constexpr bool is_softmax(std::string_view kernel) noexcept {
  const auto has = [&](std::string_view part) { return kernel.find(part) != kernel.npos; };
  return (has("softmax") || has("Softmax") || has("SoftMax")) && !has("flash") && !has("fmha") &&
         !has("attention");
}

/// The causes that lie in what kernels do.
class KernelRules : public WatchFigures {
 public:
  KernelRules(const WatchSummary& summary, RankedFindings& found)
      : WatchFigures{summary}, found_{found} {
    for (const WatchedKernel& kernel : is_.kernels) {
      if (is_product(kernel.name)) {
        kernels_.products += kernel.launches;
        kernels_.products_s += kernel.seconds;
        kernels_.plain_s += is_plain_product(kernel.name) ? kernel.seconds : 0;
      } else if (is_softmax(kernel.name)) {
        kernels_.softmaxes += kernel.launches;
        kernels_.softmax_s += kernel.seconds;
      }
    }
  }

  void find() {
    plain_products();
    unfused_attention();
    optimizer();
    slow_kernel();
    kept_activations();
  }

 private:
  struct KernelSums {
    double products_s{}, plain_s{}, softmax_s{};
    std::uint64_t products{}, softmaxes{};
  };

  void plain_products() {
    if (counts(kernels_.plain_s)) {
      found_.add(WatchRank::one, {.cause = "matrix products of floats without tensor cores",
                                  .page = "06_tensor_cores",
                                  .evidence = "kernels such as " + longest(is_plain_product) +
                                              " took " + figure_ms(kernels_.plain_s) + ", " +
                                              percent(share(kernels_.plain_s)) + " of the time",
                                  .cost_s = kernels_.plain_s * 7 / 8});
    }
  }
  // A softmax in every layer, and not only one for the loss.
  void unfused_attention() {
    if (kernels_.softmaxes >= 4 && kernels_.products != 0 &&
        8 * kernels_.softmaxes >= kernels_.products && counts(kernels_.softmax_s)) {
      found_.add(WatchRank::one,
                 {.cause = "attention that writes its scores to memory",
                  .page = "06_fused_attention",
                  .evidence = counted(kernels_.softmaxes, "softmax", "softmaxes") + " between " +
                              counted(kernels_.products, "product") + " took " +
                              figure_ms(kernels_.softmax_s) + ", the products " +
                              figure_ms(kernels_.products_s) + "; " + memory(),
                  .cost_s = kernels_.softmax_s});
    }
  }
  // The kernels that such an optimiser launches are short, or launching them apart loses nothing;
  // and a step has a product forward and two backward for each matrix.
  void optimizer() {
    const auto rows = static_cast<double>(is_.in_a_row.rows);
    const bool are_short = is_.in_a_row.busy_s <= 20e-6 * static_cast<double>(is_.in_a_row.kernels);
    const bool is_a_step = kernels_.products >= 3 * is_.in_a_row.rows;
    if (is_.in_a_row.rows >= 2 && are_short && is_a_step && share(is_.in_a_row.seconds) >= 0.05) {
      found_.add(WatchRank::one,
                 {.cause = "an optimiser that takes a step tensor by tensor",
                  .page = "08_optimizer",
                  .evidence = counted(is_.in_a_row.rows, "time") + " some " +
                              std::to_string(is_.in_a_row.kernels / is_.in_a_row.rows) +
                              " kernels that are no products follow each other, for " +
                              figure_ms(is_.in_a_row.seconds / rows) +
                              ", of which kernels ran for " + figure_ms(is_.in_a_row.busy_s / rows),
                  .cost_s = is_.in_a_row.seconds});
    }
  }
  // A kernel that keeps nothing in shared memory reads and writes all that there is at most once or
  // so, unless it computes much.
  void slow_kernel() {
    if (is_.kernels.empty() || is_.memory_bytes_per_s <= 0 || is_.device_bytes == 0) {
      return;
    }
    const WatchedKernel& top = is_.kernels.front();
    const double each_s = top.seconds / static_cast<double>(top.launches);
    const double all_memory_s = static_cast<double>(is_.device_bytes) / is_.memory_bytes_per_s;
    const bool is_known = is_product(top.name) || is_softmax(top.name);
    if (share(top.seconds) < 0.4 || is_known || top.shared_bytes > 4096 ||
        each_s < 3 * all_memory_s) {
      return;
    }
    found_.add(
        WatchRank::perhaps,
        {.cause = "a kernel that waits for memory",
         .page = "05_memory_layout",
         .or_cause = "a kernel that computes much: Nsight Compute tells, by its sectors a request",
         .or_page = "",
         .evidence = short_name(top.name) + " took " + percent(share(top.seconds)) +
                     " of the time, " + figure_ms(each_s) + " a launch; to read all of the " +
                     figure_bytes(is_.device_bytes) + " on the GPU once takes " +
                     figure_ms(all_memory_s),
         .cost_s = top.seconds - static_cast<double>(top.launches) * all_memory_s});
  }
  // Forward kernels that run as often as their backward kernels: nothing is computed again. That is
  // right as long as all fits; it is a hint where most of the memory is free.
  void kept_activations() {
    const bool is_short = is_.device_memory != 0 && is_.device_bytes >= is_.device_memory / 10 * 7;
    for (const WatchedKernel& kernel : is_.kernels) {
      const WatchedKernel* const forward = forward_of(kernel);
      if (forward == nullptr || forward->launches > kernel.launches + kernel.launches / 8) {
        continue;
      }
      found_.add(
          WatchRank::memory,
          {.cause = is_short
                        ? "activations that fill the memory"
                        : "activations that fill the memory, if that is too small for a larger "
                          "batch",
           .page = "07_kept_activations",
           .evidence = short_name(forward->name) + " ran " + counted(forward->launches, "time") +
                       ", and " + short_name(kernel.name) + ' ' + counted(kernel.launches, "time") +
                       ": backward computes nothing again, and forward keeps all; " + memory(),
           .cost_s = 0,
           .hint = !is_short});
      return;
    }
  }
  /// Returns the kernel that computes forward what this one computes backward; null if there is
  /// none, by the names.
  const WatchedKernel* forward_of(const WatchedKernel& backward) const {
    const std::string name = short_name(backward.name);
    for (const std::string_view way : {"backward", "Backward", "bwd"}) {
      const auto at = name.find(way);
      if (at == name.npos) {
        continue;
      }
      const std::string before = name.substr(0, at);
      std::string without = before + name.substr(at + way.size());
      if (const auto twice = without.find("__"); twice != without.npos) {
        without.erase(twice, 1);
      }
      for (const WatchedKernel& kernel : is_.kernels) {
        const std::string other = short_name(kernel.name);
        if (other == without || other.starts_with(before + "forward") ||
            other.starts_with(before + "Forward") || other.starts_with(before + "fwd")) {
          return &kernel;
        }
      }
    }
    return nullptr;
  }
  template <class Is> std::string longest(Is is) const {
    for (const WatchedKernel& kernel : is_.kernels) {
      if (is(kernel.name)) {
        return short_name(kernel.name);
      }
    }
    return {};
  }

  RankedFindings& found_;
  KernelSums kernels_;
};

} // namespace doctor
