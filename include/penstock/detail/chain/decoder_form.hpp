// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/batch.hpp>
#include <penstock/detail/base/callable.hpp>
#include <penstock/memory.hpp>
#include <penstock/schema.hpp>

#include <type_traits>

namespace penstock::detail {

enum class DecoderForm {
  batches,
  records,
  not_written_out,
  other_parameters,
  writes_input,
  reads_output,
  other_space,
  not_bytes,
  not_copyable
};

template <class T> inline constexpr bool is_batch = false;
template <class S, class W> inline constexpr bool is_batch<Batch<S, W>> = true;

/// Returns whether a callable takes a record to read and one to fill: `void(const In&, Out&)`.
template <class P> consteval bool takes_records() {
  using In = parameter_t<0, P>;
  using Out = parameter_t<1, P>;
  return P::count == 2 && !is_batch<std::remove_cvref_t<In>> &&
         !is_batch<std::remove_cvref_t<Out>> && std::is_lvalue_reference_v<In> &&
         std::is_lvalue_reference_v<Out> && !HasColumns<std::remove_cvref_t<In>> &&
         !HasColumns<std::remove_cvref_t<Out>>;
}

/// Returns a callable's form. Where is what the tag says; void without one.
template <class P, class Where> consteval DecoderForm decoder_form() {
  using In = batch_of<batch_parameter<0, P>>;
  using Out = batch_of<batch_parameter<1, P>>;
  if (std::is_same_v<P, NotWrittenOut>) {
    return DecoderForm::not_written_out;
  }
  if (takes_records<P>()) {
    return !std::is_const_v<std::remove_reference_t<parameter_t<0, P>>>  ? DecoderForm::writes_input
           : std::is_const_v<std::remove_reference_t<parameter_t<1, P>>> ? DecoderForm::reads_output
           : !copies_as_bytes<batch_parameter<1, P>>                     ? DecoderForm::not_bytes
                                                                         : DecoderForm::records;
  }
  if (P::count != 2 || !In::host || !Out::host) {
    return DecoderForm::other_parameters;
  }
  if (!In::read_only || Out::read_only) {
    return In::read_only ? DecoderForm::reads_output : DecoderForm::writes_input;
  }
  if (!copies_as_bytes<typename Out::schema>) {
    return DecoderForm::not_bytes;
  }
  return std::is_void_v<Where> || std::is_same_v<Where, typename Out::space>
             ? DecoderForm::batches
             : DecoderForm::other_space;
}

/// Returns a callable's form; not_copyable if workers cannot each have a copy.
template <class F, class P, class Where> consteval DecoderForm decoder_verdict() {
  constexpr DecoderForm form = decoder_form<P, Where>();
  const bool good = form == DecoderForm::batches || form == DecoderForm::records;
  return good && !std::is_copy_constructible_v<F> ? DecoderForm::not_copyable : form;
}

template <class Given> struct space_of {
  using type = Anything;
};
template <class S, class W> struct space_of<Batch<S, W>> {
  using type = W;
};

/// What a Decoder takes and gives.
template <class P, class Where, DecoderForm Form> struct decoder_types {
  template <class> using takes = batch_parameter<0, P>;
  template <class> using gives = batch_parameter<1, P>;
};
template <class P, class Where> struct decoder_types<P, Where, DecoderForm::records> {
  using In = std::remove_cvref_t<parameter_t<0, P>>;
  using Out = std::remove_cvref_t<parameter_t<1, P>>;
  // Takes host memory of either kind; for device memory it asks for pageable, and is refused.
  template <class Given> struct host {
    using type = Pageable;
  };
  template <class S> struct host<Batch<S, Pinned>> {
    using type = Pinned;
  };
  template <class Given> using takes = Batch<const In, typename host<Given>::type>;
  template <class>
  using gives = Batch<Out, std::conditional_t<std::is_void_v<Where>, Pageable, Where>>;
};

} // namespace penstock::detail
