// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations.hpp"

#include <penstock/diagnose/detail/call_names.hpp>
#include <penstock/diagnose/gpu_watch_summary.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iomanip>
#include <memory>
#include <ostream>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cxxabi.h>

namespace transformer {

/// What NVIDIA's data sheet says of H100's and H200's tensor cores, dense and in bf16: operations a
/// second.
inline constexpr double peak_per_s = 989.5e12;

/// Returns how people call a kernel: without namespaces that all have, and parameters. A functor
/// stands for the loop that calls it.
inline std::string kernel_name(const std::string& mangled) {
  int failed = 0;
  const std::unique_ptr<char, decltype(&std::free)> plain{
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &failed), &std::free};
  std::string name = plain != nullptr ? plain.get() : mangled;
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    depth += name[i] == '<' ? 1 : name[i] == '>' ? -1 : 0;
    if (name[i] == '(' && depth == 0) {
      name.resize(i);
    }
  }
  for (const std::string_view part : {"void ", "transformer::", "penstock::", "detail::"}) {
    for (std::size_t at = name.find(part); at != name.npos; at = name.find(part, at)) {
      name.erase(at, part.size());
    }
  }
  constexpr std::string_view loop = "for_each_kernel<";
  if (name.starts_with(loop)) {
    name = name.substr(loop.size(), name.rfind('>') - loop.size());
    name.resize(name.find_last_not_of(' ') + 1);
  }
  return name;
}

/// Where a GPU's time went, kernel by kernel: those of cuBLASLt count as one, the products.
class Profile {
 public:
  Profile(const penstock::WatchSummary& watched, const Operations& operations)
      : seconds_{watched.gpu.seconds}, dropped_{watched.gpu.dropped} {
    for (const penstock::WatchedKernel& kernel : watched.kernels) {
      // Sums of a product's parts are cuBLASLt's too.
      const bool product = penstock::detail::is_product(kernel.name) ||
                           kernel.name.find("cublas") != std::string::npos;
      Row& row = row_of(product ? "products (cuBLASLt)" : kernel_name(kernel.name));
      row.seconds += kernel.seconds;
      row.calls += kernel.launches;
      all_.seconds += kernel.seconds;
      all_.calls += kernel.launches;
    }
    all_.operations = operations.all();
    for (Row& row : rows_) {
      row.operations = row.name.starts_with("products")           ? operations.products
                       : row.name.starts_with("flash::forward<")  ? operations.attention_forward
                       : row.name.starts_with("flash::backward<") ? operations.attention_backward
                                                                  : 0;
    }
    std::ranges::stable_sort(rows_, std::ranges::greater{}, &Row::seconds);
  }

  /// Prints a line for each kernel, longest first, and one for all.
  void print(std::ostream& os) const {
    constexpr std::size_t widest = 48;
    const auto flags = os.flags();
    const auto precision = os.precision();
    os << std::left << std::setw(widest) << "kernel" << std::right << std::setw(12) << "ms"
       << std::setw(10) << "calls" << std::setw(9) << "of time" << std::setw(10) << "TFLOP/s"
       << std::setw(9) << "of peak" << '\n'
       << std::fixed;
    const auto line = [&](const Row& row) {
      const double rate = row.seconds > 0 ? row.operations / row.seconds : 0;
      os << std::left << std::setw(widest) << row.name.substr(0, widest - 1) << std::right
         << std::setw(12) << std::setprecision(2) << row.seconds * 1e3 << std::setw(10) << row.calls
         << std::setprecision(1) << std::setw(7) << share(row.seconds) << " %";
      if (rate > 0) {
        os << std::setw(10) << rate / 1e12 << std::setw(7) << 100 * rate / peak_per_s << " %";
      }
      os << '\n';
    };
    std::ranges::for_each(rows_, line);
    line(all_);
    if (dropped_ != 0) {
      os << dropped_ << " records were lost: all times are too low\n";
    }
    os.flags(flags);
    os.precision(precision);
  }

 private:
  struct Row {
    std::string name;
    double seconds{};
    std::uint64_t calls{};
    double operations{};
  };

  Row& row_of(const std::string& name) {
    const auto row = std::ranges::find(rows_, name, &Row::name);
    return row != rows_.end() ? *row : rows_.emplace_back(Row{.name = name});
  }
  double share(double seconds) const { return seconds_ > 0 ? 100 * seconds / seconds_ : 0; }

  double seconds_;
  std::uint64_t dropped_;
  std::vector<Row> rows_;
  Row all_{.name = "all kernels"};
};

} // namespace transformer
