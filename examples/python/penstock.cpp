// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// A Python module: iterators whose batches NumPy, PyTorch and others take without a copy.
//
//     import numpy, penstock
//     for rows in penstock.arrays("x.npy", batch=64, shuffle=7, epochs=3):
//         x = numpy.from_dlpack(rows)
//
// docs/handover.md says how it is built, and what a program may do with a batch.

#include "loader.hpp"
#include "tensor.hpp"

#include <penstock/formats/npy.hpp>
#include <penstock/formats/tokens.hpp>
#include <penstock/sources/windows.hpp>
#include <penstock/version.hpp>
#ifdef EXAMPLES_HAVE_TURBOJPEG
#include <penstock/formats/files.hpp>
#include <penstock/formats/jpeg.hpp>
#endif

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace nb::literals;

namespace {

using Rows = ps::Batch<const std::byte, ps::Pinned>;

/// The type that the file has, which only a run knows.
struct ArrayType {
  ps::dl::DataType type;
  std::vector<std::int64_t> extents;

  explicit ArrayType(const ps::ArrayInfo& info)
      : extents{info.extents.begin(), info.extents.end()} {
    const std::size_t digits = std::min(info.type.find_first_of("0123456789"), info.type.size());
    const std::string kind = info.type.substr(0, digits);
    const std::string bits = info.type.substr(digits);
    type.code = static_cast<std::uint8_t>(kind == "int"      ? 0
                                          : kind == "uint"   ? 1
                                          : kind == "float"  ? 2
                                          : kind == "bfloat" ? 4
                                                             : 6);
    type.bits = static_cast<std::uint8_t>(bits.empty() ? 8 : std::stoi(bits));
    type.lanes = 1;
  }
};

/// Rows of bytes as an array of that type. The tensor keeps its shape by its owner.
struct Shaped {
  std::vector<std::int64_t> shape, strides;
  std::shared_ptr<void> session;
};
template <class Managed>
Managed* shaped(const ps::SharedLease<Rows>& rows, const ArrayType& type,
                std::shared_ptr<void> session) {
  auto owner = std::make_shared<Shaped>();
  owner->session = std::move(session);
  owner->shape.push_back(static_cast<std::int64_t>(rows.size()));
  owner->shape.insert(owner->shape.end(), type.extents.begin(), type.extents.end());
  owner->strides.resize(owner->shape.size(), 1);
  for (std::size_t i = owner->shape.size() - 1; i-- != 0;) {
    owner->strides[i] = owner->strides[i + 1] * owner->shape[i + 1];
  }
  auto* const managed = ps::to_dlpack<Managed>(rows, {ps::dl::cpu, 0}, owner);
  managed->dl_tensor.dtype = type.type;
  managed->dl_tensor.ndim = static_cast<std::int32_t>(owner->shape.size());
  managed->dl_tensor.shape = owner->shape.data();
  managed->dl_tensor.strides = owner->strides.data();
  return managed;
}

Loader arrays(const LoaderOptions& options, const std::filesystem::path& path) {
  auto source = ps::npy<std::byte>(path.string());
  source.open();
  const ArrayType type{source.info()};
  return Loader::of<Rows>(
      options,
      [&](ps::HostDevice& device) {
        return ps::Reader{source, options.reading()} |
               ps::PinnedStager{device, {.depth = options.depth}};
      },
      [type](const ps::SharedLease<Rows>& rows, const std::shared_ptr<void>& session) {
        return std::vector{
            Tensor{[=]<class Managed>(Managed*) { return shaped<Managed>(rows, type, session); }}};
      });
}

/// Gives column `Name` of a batch.
template <ps::Name Name, class Shared>
Tensor column(const Shared& shared, const std::shared_ptr<void>& session) {
  return Tensor{[=]<class Managed>(Managed*) {
    return ps::to_dlpack<Name, Managed>(shared, {ps::dl::cpu, 0}, session);
  }};
}

Loader tokens(const LoaderOptions& options, const std::vector<std::filesystem::path>& paths,
              std::uint64_t length) {
  using Windows = ps::Batch<const ps::Window<std::uint16_t>, ps::Pinned>;
  const std::vector<std::string> files(paths.begin(), paths.end());
  return Loader::of<Windows>(
      options,
      [&](ps::HostDevice& device) {
        return ps::Reader{ps::windows(ps::tokens<std::uint16_t>(files), {.length = length}),
                          options.reading()} |
               ps::PinnedStager{device, {.depth = options.depth}};
      },
      [](const auto& shared, const auto& session) {
        return std::vector{column<"tokens">(shared, session)};
      });
}

#ifdef EXAMPLES_HAVE_TURBOJPEG
Loader images(const LoaderOptions& options, const std::filesystem::path& folder, std::size_t size) {
  using Picture = ps::Image<3, ps::dynamic, ps::dynamic>;
  return Loader::of<ps::Batch<const Picture, ps::Pageable>>(
      options,
      [&](ps::HostDevice&) {
        return ps::Reader{ps::files(folder.string()), options.reading()} |
               ps::jpeg<ps::LabelledFile, Picture, ps::Pageable>(
                   {.depth = options.depth, .size = {size, size}});
      },
      [](const auto& shared, const auto& session) {
        return std::vector{column<"image">(shared, session), column<"label">(shared, session)};
      });
}
#endif

// Defines a function that takes what it needs, and what all loaders take.
template <class... A, class... Names>
void add(nb::module_& m, const char* name, Loader (*make)(const LoaderOptions&, A...),
         Names... names) {
  m.def(
      name,
      [make](A... own, std::size_t batch, const nb::object& shuffle, std::uint64_t epochs,
             std::size_t depth, double lease_wait) {
        return make({batch, LoaderOptions::seed_of(shuffle), epochs, depth,
                     LoaderOptions::wait_of(lease_wait)},
                    own...);
      },
      names..., nb::kw_only(), "batch"_a = 256, "shuffle"_a = nb::none(), "epochs"_a = 1,
      "depth"_a = 4, "lease_wait"_a = 10.0);
}

} // namespace

NB_MODULE(penstock, m) {
  m.attr("__version__") = PENSTOCK_VERSION;
  nb::class_<Tensor>(m, "Tensor")
      .def("__dlpack__", &Tensor::dlpack, nb::kw_only(), "stream"_a = nb::none(),
           "max_version"_a = nb::none(), "dl_device"_a = nb::none(), "copy"_a = nb::none())
      .def("__dlpack_device__", &Tensor::dlpack_device)
      .def("__array__", &Tensor::array, "dtype"_a = nb::none(), "copy"_a = nb::none())
      .def_prop_ro("shape", &Tensor::shape)
      .def("__repr__", &Tensor::repr);
  nb::class_<Loader>(m, "Loader")
      .def("__iter__", [](nb::object self) { return self; })
      .def("__next__", &Loader::next)
      .def_prop_ro("report", &Loader::report);
  add(m, "arrays", arrays, "path"_a);
  add(m, "tokens", tokens, "files"_a, "length"_a = 1025);
#ifdef EXAMPLES_HAVE_TURBOJPEG
  add(m, "images", images, "folder"_a, "size"_a = 224);
#endif
}
