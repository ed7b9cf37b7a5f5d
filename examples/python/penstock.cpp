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
#include "options.hpp"
#include "places.hpp"
#include "tensor.hpp"
#include "weights.hpp"

#include <penstock/formats/npy.hpp>
#include <penstock/formats/tokens.hpp>
#include <penstock/sources/windows.hpp>
#include <penstock/version.hpp>
#ifdef EXAMPLES_HAVE_TURBOJPEG
#include <penstock/formats/files.hpp>
#include <penstock/formats/jpeg.hpp>
#include <penstock/formats/tar.hpp>
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
template <class Managed, class B>
Managed* shaped(const ps::SharedLease<B>& rows, const ArrayType& type, ps::dl::Device place,
                std::shared_ptr<void> session) {
  auto owner = std::make_shared<Shaped>();
  owner->session = std::move(session);
  owner->shape.push_back(static_cast<std::int64_t>(rows.size()));
  owner->shape.insert(owner->shape.end(), type.extents.begin(), type.extents.end());
  owner->strides.resize(owner->shape.size(), 1);
  for (std::size_t i = owner->shape.size() - 1; i-- != 0;) {
    owner->strides[i] = owner->strides[i + 1] * owner->shape[i + 1];
  }
  auto* const managed = ps::to_dlpack<Managed>(rows, place, owner);
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
  return at_place(options.device, [&]<class Where>() {
    return Loader::of<Where>(
        options, [&](Where& where) { return where.records(source, options); },
        [type](const auto& rows, const auto& session) {
          return std::vector{
              tensor_of(rows, session,
                        [type]<class Managed>(const auto& all, auto place, auto owner, Managed*) {
                          return shaped<Managed>(all, type, place, owner);
                        })};
        });
  });
}

Loader tokens(const LoaderOptions& options, const std::vector<std::filesystem::path>& paths,
              std::uint64_t length) {
  const std::vector<std::string> files(paths.begin(), paths.end());
  return at_place(options.device, [&]<class Where>() {
    return Loader::of<Where>(
        options,
        [&](Where& where) {
          return where.records(ps::windows(ps::tokens<std::uint16_t>(files), {.length = length}),
                               options);
        },
        [](const auto& shared, const auto& session) {
          return std::vector{column<"tokens">(shared, session)};
        });
  });
}

nb::dict weights(const std::filesystem::path& path, const nb::object& device,
                 const nb::object& into) {
  LoaderOptions options{};
  options.device = LoaderOptions::device_of(device);
  nb::dict all = at_place(options.device, [&]<class Where>() {
    std::shared_ptr<Weights<Where>> read;
    {
      const nb::gil_scoped_release unlocked;
      read = std::make_shared<Weights<Where>>(options, path.string());
    }
    return Weights<Where>::tensors(read);
  });
  if (!into.is_none()) {
    for (const auto& [name, tensor] : all) {
      all[name] = into(tensor);
    }
  }
  return all;
}

#ifdef EXAMPLES_HAVE_TURBOJPEG
using Picture = ps::Image<3, ps::dynamic, ps::dynamic>;

Loader images(const LoaderOptions& options, const std::filesystem::path& folder, std::size_t size) {
  return at_place(options.device, [&]<class Where>() {
    return Loader::of<Where>(
        options,
        [&](Where& where) {
          return where.pictures(ps::files(folder.string()),
                                ps::jpeg<ps::LabelledFile, Picture, typename Where::Pictures>(
                                    {.depth = Where::decoded_slots(options), .size = {size, size}}),
                                options);
        },
        [](const auto& shared, const auto& session) {
          return std::vector{column<"image">(shared, session), column<"label">(shared, session)};
        });
  });
}

/// A sample as WebDataset writes pictures and classes.
struct Sample
    : ps::Columns<ps::Field<"jpg;jpeg", ps::Ragged<std::uint8_t>>, ps::Field<"cls", std::int32_t>> {
};
struct Classified : ps::Columns<ps::Field<"image", std::uint8_t, 3, ps::dynamic, ps::dynamic>,
                                ps::Field<"cls", std::int32_t>> {};

Loader tar(const LoaderOptions& options, const std::vector<std::filesystem::path>& paths,
           std::size_t size) {
  const std::vector<std::string> archives(paths.begin(), paths.end());
  return at_place(options.device, [&]<class Where>() {
    return Loader::of<Where>(
        options,
        [&](Where& where) {
          return where.pictures(ps::tar<Sample>(archives),
                                ps::jpeg<Sample, Classified, typename Where::Pictures>(
                                    {.depth = Where::decoded_slots(options), .size = {size, size}}),
                                options);
        },
        [](const auto& shared, const auto& session) {
          return std::vector{column<"image">(shared, session), column<"cls">(shared, session)};
        });
  });
}
#endif

// Defines a function that takes what it needs, and what all loaders take.
template <class... A, class... Names>
void add(nb::module_& m, const char* name, const char* doc,
         Loader (*make)(const LoaderOptions&, A...), Names... names) {
  m.def(
      name,
      [make](A... own, std::size_t batch, const nb::object& shuffle, std::uint64_t epochs,
             std::size_t depth, double lease_wait, const nb::object& device, std::intptr_t stream,
             std::optional<std::pair<std::uint32_t, std::uint32_t>> ranks, bool drop_last,
             const nb::object& into) {
        return make({batch, LoaderOptions::seed_of(shuffle), epochs, depth,
                     LoaderOptions::wait_of(lease_wait), LoaderOptions::device_of(device), stream,
                     LoaderOptions::ranks_of(ranks), drop_last, into},
                    own...);
      },
      doc, names..., nb::kw_only(), "batch"_a = 256, "shuffle"_a = nb::none(), "epochs"_a = 1,
      "depth"_a = 4, "lease_wait"_a = 10.0, "device"_a = nb::none(), "stream"_a = 1,
      "ranks"_a = nb::none(), "drop_last"_a = false, "into"_a = nb::none());
}

} // namespace

NB_MODULE(penstock, m) {
  m.attr("__version__") = PENSTOCK_VERSION;
  nb::class_<Tensor>(m, "Tensor", "An array that consumers of DLPack take without a copy.")
      .def("__dlpack__", &Tensor::dlpack, nb::kw_only(), "stream"_a = nb::none(),
           "max_version"_a = nb::none(), "dl_device"_a = nb::none(), "copy"_a = nb::none())
      .def("__dlpack_device__", &Tensor::dlpack_device)
      .def("__array__", &Tensor::array, "dtype"_a = nb::none(), "copy"_a = nb::none())
      .def_prop_ro("shape", &Tensor::shape)
      .def("__repr__", &Tensor::repr);
  PyType_Slot loader_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(&Loader::traverse)},
                                {Py_tp_clear, reinterpret_cast<void*>(&Loader::clear)},
                                {0, nullptr}};
  nb::class_<Loader>(m, "Loader", nb::type_slots(loader_slots), "An iterator over one run.")
      .def("__iter__", [](nb::object self) { return self; })
      .def("__next__", &Loader::next)
      .def_prop_rw("position", &Loader::position, &Loader::go_on_from,
                   "Where the run stands: set it before the first batch to go on from there.")
      .def_prop_ro("report", &Loader::report, "What the run has done so far, as text.")
      .def_prop_ro("report_dict", &Loader::report_dict, "The same, as a dict.");
  add(m, "arrays", "Rows of a .npy file.", arrays, "path"_a);
  add(m, "tokens", "Windows of 16-bit tokens.", tokens, "files"_a, "length"_a = 1025);
  m.def("weights", weights, "The tensors of a safetensors file or folder, by name.", "path"_a,
        nb::kw_only(), "device"_a = nb::none(), "into"_a = nb::none());
#ifdef EXAMPLES_HAVE_TURBOJPEG
  add(m, "images", "Pictures of a folder of folders of JPEG files, and the folders' numbers.",
      images, "folder"_a, "size"_a = 224);
  add(m, "tar", "Pictures (jpg) and classes (cls) of tar archives.", tar, "archives"_a,
      "size"_a = 224);
#endif
}
