// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/formats/dlpack.hpp>
#include <penstock/penstock.hpp>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace nb = nanobind;
namespace ps = penstock;

/// A capsule of a DLPack tensor. A consumer gives it another name, and then owns the tensor.
template <class Managed> nb::object capsule_of(Managed* tensor) {
  constexpr const char* name =
      std::is_same_v<Managed, ps::dl::Managed> ? "dltensor" : "dltensor_versioned";
  PyObject* const capsule = PyCapsule_New(tensor, name, [](PyObject* unused) {
    if (PyCapsule_IsValid(unused, name)) {
      auto* const mine = static_cast<Managed*>(PyCapsule_GetPointer(unused, name));
      mine->deleter(mine);
    }
  });
  if (capsule == nullptr) {
    tensor->deleter(tensor);
    throw nb::python_error{};
  }
  return nb::steal(capsule);
}

/// What Python gets of a batch: an array in host memory that np.from_dlpack() and
/// torch.from_dlpack() take, and that keeps the batch.
class Tensor {
 public:
  /// `make` returns a new DLPack tensor, of the type that its argument points to.
  template <class F> explicit Tensor(F make) {
    versioned_ = [make] { return make(static_cast<ps::dl::ManagedVersioned*>(nullptr)); };
    old_ = [make] { return make(static_cast<ps::dl::Managed*>(nullptr)); };
  }

  nb::object dlpack(const nb::object& stream, std::optional<std::pair<int, int>> max_version,
                    std::optional<std::pair<int, int>> dl_device, std::optional<bool> copy) const {
    if (!stream.is_none()) {
      throw nb::buffer_error("penstock: this array is in host memory, which has no stream: None.");
    }
    if (copy.value_or(false) || dl_device.value_or(dlpack_device()) != dlpack_device()) {
      throw nb::buffer_error("penstock: this array is given as it lies in host memory: copy it.");
    }
    return max_version && max_version->first >= 1 ? capsule_of(versioned_()) : capsule_of(old_());
  }
  std::pair<int, int> dlpack_device() const { return {ps::dl::cpu, 0}; }

  nb::tuple shape() const {
    ps::dl::ManagedVersioned* const tensor = versioned_();
    const std::shared_ptr<void> owned{nullptr, [tensor](void*) { tensor->deleter(tensor); }};
    nb::list extents;
    for (std::int32_t i = 0; i != tensor->dl_tensor.ndim; ++i) {
      extents.append(tensor->dl_tensor.shape[i]);
    }
    return nb::tuple(extents);
  }
  nb::str repr() const { return nb::str("penstock.Tensor(shape={})").format(shape()); }

  /// What NumPy asks for: no copy, unless it says so or wants another type.
  static nb::object array(nb::handle self, const nb::object& dtype, std::optional<bool> copy) {
    const nb::module_ numpy = nb::module_::import_("numpy");
    nb::object given = numpy.attr("from_dlpack")(self);
    const nb::object wanted = dtype.is_none() ? given.attr("dtype") : numpy.attr("dtype")(dtype);
    const bool same = wanted.equal(given.attr("dtype"));
    if (!same && copy && !*copy) {
      throw nb::value_error("penstock: another type needs a copy, which copy=False forbids: None.");
    }
    return same && !copy.value_or(false) ? given : given.attr("astype")(wanted);
  }

 private:
  std::function<ps::dl::ManagedVersioned*()> versioned_;
  std::function<ps::dl::Managed*()> old_;
};
