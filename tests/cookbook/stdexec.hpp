// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/penstock.hpp>

#include <exception>
#include <optional>
#include <stop_token>
#include <utility>

#include <stdexec/execution.hpp>

namespace ps = penstock;

/// A sender that runs a pipeline on the thread which starts it, and blocks there. It gives the
/// Report, or the exception as an error, or that it was stopped, if the receiver asked for it.
template <class Pipeline> struct RunSender {
  using sender_concept = stdexec::sender_t;
  using completion_signatures =
      stdexec::completion_signatures<stdexec::set_value_t(ps::Report), stdexec::set_stopped_t(),
                                     stdexec::set_error_t(std::exception_ptr)>;

  template <class Receiver> struct Operation {
    using operation_state_concept = stdexec::operation_state_t;

    void start() & noexcept {
      const auto token = stdexec::get_stop_token(stdexec::get_env(receiver));
      std::optional<ps::Report> report;
      try {
        std::stop_source stop; // since pipeline.stop() has no effect while nothing runs
        const auto ask = [&stop]() noexcept { stop.request_stop(); };
        using Callback = stdexec::stop_callback_for_t<decltype(token), decltype(ask)>;
        const Callback callback{token, ask};
        report = pipeline->run({.stop = stop.get_token()});
      } catch (...) {
        stdexec::set_error(std::move(receiver), std::current_exception());
        return;
      }
      if (token.stop_requested()) {
        stdexec::set_stopped(std::move(receiver));
      } else {
        stdexec::set_value(std::move(receiver), *std::move(report));
      }
    }

    Pipeline* pipeline;
    Receiver receiver;
  };
  template <class Receiver> Operation<Receiver> connect(Receiver receiver) const {
    return {pipeline, std::move(receiver)};
  }

  Pipeline* pipeline;
};
template <class Pipeline> RunSender<Pipeline> run_of(Pipeline& pipeline) {
  return {&pipeline};
}

/// Returns a sender of a run's next batch, a lease that is empty at the end. A run belongs to one
/// thread: start them on a scheduler of one.
template <class B> auto next_of(ps::Batches<B>& run) {
  return stdexec::just() | stdexec::then([&run] { return run.next(); });
}
