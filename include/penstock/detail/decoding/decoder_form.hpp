// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/callables/each_worker.hpp>
#include <penstock/data/batch.hpp>
#include <penstock/data/memory.hpp>
#include <penstock/data/output.hpp>
#include <penstock/data/row.hpp>
#include <penstock/data/schema.hpp>
#include <penstock/data/visit.hpp>
#include <penstock/detail/base/callable.hpp>

#include <type_traits>

namespace penstock::detail {

enum class DecoderForm {
  batches,
  records,
  outputs_of_batches,
  outputs_of_records,
  not_written_out,
  other_parameters,
  columns_as_record,
  one_and_many,
  visit_of_batch,
  other_visit,
  output_copied,
  writes_input,
  reads_output,
  other_space,
  not_bytes,
  not_copyable,
  never_throws,
  silent
};

enum class Shape { record, row, batch, output, output_copied, other };

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
template <class S> struct shaped<penstock::Output<S>&> {
  static constexpr Shape shape = Shape::output;
  static constexpr bool read_only = false;
  using schema = S;
};
template <class S> struct shaped<penstock::Output<S>> : shaped<penstock::Output<S>&> {
  static constexpr Shape shape = Shape::output_copied;
};
template <class S>
struct shaped<const penstock::Output<S>&> : shaped<penstock::Output<S>> {};
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
  const bool of_batches = In::shape == Shape::batch;
  const bool outputs = Out::shape == Shape::output;
  const bool batches = of_batches && Out::shape == Shape::batch;
  if (std::is_same_v<P, RefusedBefore> || std::is_same_v<P, NotWrittenOut>) {
    return std::is_same_v<P, RefusedBefore> ? DecoderForm::silent : DecoderForm::not_written_out;
  }
  if (P::count < 2 || P::count > 3 || In::shape == Shape::other || Out::shape == Shape::other ||
      In::shape == Shape::output || In::shape == Shape::output_copied) {
    return DecoderForm::other_parameters;
  }
  if (Out::shape == Shape::output_copied) {
    return DecoderForm::output_copied;
  }
  if ((In::shape == Shape::record && HasColumns<typename In::schema>) ||
      (Out::shape == Shape::record && HasColumns<typename Out::schema>)) {
    return DecoderForm::columns_as_record;
  }
  if (!batches && ((of_batches && !outputs) || Out::shape == Shape::batch)) {
    return DecoderForm::one_and_many;
  }
  if (P::count == 3 && (of_batches || !is_visit<parameter_t<2, P>>)) {
    return of_batches ? DecoderForm::visit_of_batch : DecoderForm::other_visit;
  }
  if (!In::read_only || Out::read_only) {
    return In::read_only ? DecoderForm::reads_output : DecoderForm::writes_input;
  }
  if (!copies_as_bytes<typename Out::schema>) {
    return DecoderForm::not_bytes;
  }
  if (outputs) {
    return of_batches ? DecoderForm::outputs_of_batches : DecoderForm::outputs_of_records;
  }
  if (!batches) {
    return DecoderForm::records;
  }
  return std::is_void_v<Where> ||
                 std::is_same_v<Where, typename batch_of<batch_parameter<1, P>>::space>
             ? DecoderForm::batches
             : DecoderForm::other_space;
}

/// Returns whether the form is not refused.
consteval bool is_good(DecoderForm form) {
  return form == DecoderForm::batches || form == DecoderForm::records ||
         form == DecoderForm::outputs_of_batches || form == DecoderForm::outputs_of_records;
}
/// Returns a callable's form; not_copyable if workers cannot each have a copy, and never_throws if
/// it is noexcept and fills what may throw.
template <class F, class P, class Where> consteval DecoderForm decoder_form_of() {
  constexpr DecoderForm form = decoder_form<P, Where>();
  if constexpr (is_good(form)) {
    using Out = shape_at<1, P>;
    if (!std::is_copy_constructible_v<F>) {
      return DecoderForm::not_copyable;
    }
    if (never_throws<typename called<F>::type, P> &&
        (Out::shape == Shape::output || schema_traits<typename Out::schema>::ragged)) {
      return DecoderForm::never_throws;
    }
  }
  return form;
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
template <class P, class Where>
struct decoder_types<P, Where, DecoderForm::outputs_of_records>
    : decoder_types<P, Where, DecoderForm::records> {};
template <class P, class Where> struct decoder_types<P, Where, DecoderForm::outputs_of_batches> {
  template <class> using takes = batch_parameter<0, P>;
  template <class Given>
  using gives = typename decoder_types<P, Where, DecoderForm::records>::template gives<Given>;
};

} // namespace penstock::detail
