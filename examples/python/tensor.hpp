// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/formats/dlpack.hpp>
#include <penstock/penstock.hpp>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <cstdint>
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

/// The number of a consumer's stream, as `__dlpack__(stream=…)` has it; none for None.
using AskedStream = std::optional<std::intptr_t>;

/// What Python gets of a batch or a file: an array that np.from_dlpack(), torch.from_dlpack() and
/// others take, and that keeps its memory.
class Tensor {
  struct Maker {
    virtual ~Maker() = default;
    virtual ps::dl::ManagedVersioned* versioned() = 0;
    virtual ps::dl::Managed* old() = 0;
    virtual void sync(AskedStream asked) = 0;
  };
  template <class F, class G> struct Model final : Maker {
    Model(F f, G g) : make{std::move(f)}, wait{std::move(g)} {}
    ps::dl::ManagedVersioned* versioned() override {
      return make(static_cast<ps::dl::ManagedVersioned*>(nullptr));
    }
    ps::dl::Managed* old() override { return make(static_cast<ps::dl::Managed*>(nullptr)); }
    void sync(AskedStream asked) override { wait(asked); }
    F make;
    G wait;
  };

 public:
  /// `make` returns a new DLPack tensor, of the type that its argument points to, and `sync(asked)`
  /// has a consumer's stream wait for it; nothing is asked of it for host memory.
  template <class F, class G>
  Tensor(ps::dl::Device where, F make, G sync)
      : where_{where}, maker_{std::make_shared<Model<F, G>>(std::move(make), std::move(sync))} {}

  nb::object dlpack(AskedStream stream, std::optional<std::pair<int, int>> max_version,
                    std::optional<std::pair<int, int>> dl_device, std::optional<bool> copy) const {
    const bool host = where_.device_type == ps::dl::cpu;
    if (host && stream) {
      throw nb::buffer_error("penstock: this array is in host memory, which has no stream: None.");
    }
    if (copy.value_or(false) || dl_device.value_or(dlpack_device()) != dlpack_device()) {
      throw nb::buffer_error("penstock: this array is given as it lies, on its device: copy it.");
    }
    if (!host) {
      maker_->sync(stream);
    }
    return max_version && max_version->first >= 1 ? capsule_of(maker_->versioned())
                                                  : capsule_of(maker_->old());
  }
  std::pair<int, int> dlpack_device() const { return {where_.device_type, where_.device_id}; }

  nb::tuple shape() const {
    ps::dl::ManagedVersioned* const tensor = maker_->versioned();
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
  ps::dl::Device where_;
  std::shared_ptr<Maker> maker_;
};
