// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/batch.hpp>
#include <penstock/detail/base/callable.hpp>
#include <penstock/each_worker.hpp>
#include <penstock/memory.hpp>
#include <penstock/row.hpp>
#include <penstock/schema.hpp>
#include <penstock/visit.hpp>

#include <type_traits>

namespace penstock::detail {

enum class DecoderForm {
  batches,
  records,
  not_written_out,
  other_parameters,
  columns_as_record,
  one_and_many,
  visit_of_batch,
  other_visit,
  writes_input,
  reads_output,
  other_space,
  not_bytes,
  not_copyable,
  silent
};

enum class Shape { record, row, batch, other };

/// What a parameter of a Decoder's callable stands for: a T& is a record.
template <class A> struct shaped {
  static constexpr Shape shape = Shape::other;
  static constexpr bool read_only = false;
  using schema = Anything;
};
template <class T> struct shaped<T&> {
  static constexpr Shape shape = Shape::record;
  static constexpr bool read_only = std::is_const_v<T>;
  using schema = std::remove_const_t<T>;
};
template <class S> struct shaped<penstock::Row<S>> {
  static constexpr Shape shape = Shape::row;
  static constexpr bool read_only = std::is_const_v<S>;
  using schema = std::remove_const_t<S>;
};
template <class S, class W> struct shaped<Batch<S, W>> {
  static constexpr Shape shape = std::is_same_v<W, Device> ? Shape::other : Shape::batch;
  static constexpr bool read_only = std::is_const_v<S>;
  using schema = std::remove_const_t<S>;
};
// A view may be taken by value or by reference; neither says whether its records may be written.
template <class S> struct shaped<penstock::Row<S>&> : shaped<penstock::Row<S>> {};
template <class S> struct shaped<const penstock::Row<S>&> : shaped<penstock::Row<S>> {};
template <class S, class W> struct shaped<Batch<S, W>&> : shaped<Batch<S, W>> {};
template <class S, class W> struct shaped<const Batch<S, W>&> : shaped<Batch<S, W>> {};
template <std::size_t At, class P> using shape_at = shaped<parameter_t<At, P>>;

/// Returns whether a parameter is a Visit, by value or by const reference.
template <class A>
inline constexpr bool is_visit = std::is_same_v<A, Visit> || std::is_same_v<A, const Visit&>;

/// Returns a callable's form. Where is what the tag says; void without one.
template <class P, class Where> consteval DecoderForm decoder_form() {
  using In = shape_at<0, P>;
  using Out = shape_at<1, P>;
  const bool batches = In::shape == Shape::batch && Out::shape == Shape::batch;
  if (std::is_same_v<P, RefusedBefore> || std::is_same_v<P, NotWrittenOut>) {
    return std::is_same_v<P, RefusedBefore> ? DecoderForm::silent : DecoderForm::not_written_out;
  }
  if (P::count < 2 || P::count > 3 || In::shape == Shape::other || Out::shape == Shape::other) {
    return DecoderForm::other_parameters;
  }
  if ((In::shape == Shape::record && HasColumns<typename In::schema>) ||
      (Out::shape == Shape::record && HasColumns<typename Out::schema>)) {
    return DecoderForm::columns_as_record;
  }
  if (!batches && (In::shape == Shape::batch || Out::shape == Shape::batch)) {
    return DecoderForm::one_and_many;
  }
  if (P::count == 3 && (batches || !is_visit<parameter_t<2, P>>)) {
    return batches ? DecoderForm::visit_of_batch : DecoderForm::other_visit;
  }
  if (!In::read_only || Out::read_only) {
    return In::read_only ? DecoderForm::reads_output : DecoderForm::writes_input;
  }
  if (!copies_as_bytes<typename Out::schema>) {
    return DecoderForm::not_bytes;
  }
  if (!batches) {
    return DecoderForm::records;
  }
  return std::is_void_v<Where> ||
                 std::is_same_v<Where, typename batch_of<batch_parameter<1, P>>::space>
             ? DecoderForm::batches
             : DecoderForm::other_space;
}

/// Returns a callable's form; not_copyable if workers cannot each have a copy.
template <class F, class P, class Where> consteval DecoderForm decoder_verdict() {
  constexpr DecoderForm form = decoder_form<P, Where>();
  const bool good = form == DecoderForm::batches || form == DecoderForm::records;
  return good && !std::is_copy_constructible_v<F> ? DecoderForm::not_copyable : form;
}

/// What a Decoder takes and gives.
template <class P, class Where, DecoderForm Form> struct decoder_types {
  template <class> using takes = batch_parameter<0, P>;
  template <class> using gives = batch_parameter<1, P>;
};
template <class P, class Where> struct decoder_types<P, Where, DecoderForm::records> {
  // Takes host memory of either kind; for device memory it asks for pageable, and is refused.
  template <class Given> struct host {
    using type = Pageable;
  };
  template <class S> struct host<Batch<S, Pinned>> {
    using type = Pinned;
  };
  template <class Given>
  using takes = Batch<const typename shape_at<0, P>::schema, typename host<Given>::type>;
  template <class>
  using gives = Batch<typename shape_at<1, P>::schema,
                      std::conditional_t<std::is_void_v<Where>, Pageable, Where>>;
};

} // namespace penstock::detail
