// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/callables/each_worker.hpp>
#include <penstock/data/batch.hpp>
#include <penstock/data/row.hpp>
#include <penstock/data/visit.hpp>
#include <penstock/detail/base/callable.hpp>
#include <penstock/detail/base/owners.hpp>
#include <penstock/detail/links/host_link.hpp>
#include <penstock/detail/workers/calling_node.hpp>
#include <penstock/detail/workers/part_by_part.hpp>
#include <penstock/detail/workers/warned.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>

namespace penstock::detail {

/// Which records of a slot's part a Decoder kept: how many, and which of the slot's came first.
struct Kept {
  std::size_t count{};
  std::size_t first{};
};

/// What the nodes of a Decoder have in common. Its callable has the parameters P.
template <class F, class From, class To> class DecodingNode : public CallingNode<F> {
 protected:
  using Item = Node::Item;
  using P = called_parameters<F>;
  using InView = BatchView<typename From::schema>;
  using OutView = BatchView<typename To::schema>;

 public:
  DecodingNode(const NodeSetup& setup, const Shared<HostLink>& in, const Shared<HostLink>& out,
               const F& f, const OnError& on_error)
      : CallingNode<F>{setup, f}, on_error_{on_error}, in_{in}, out_{out} {
    this->fills(out_->memory, out_->ring.slots());
  }

  [[gnu::cold]] void report(double seconds, StageReport& stage) const final {
    Node::report(seconds, stage);
    if constexpr (is_warned) {
      warned_.tell(stage.note);
    }
  }

 protected:
  void reset() override {
    out_->reset();
    warned_.reset();
  }
  void make(unsigned worker) final {
    CallingNode<F>::make(worker);
    if constexpr (is_warned) {
      this->call_of(worker).tell_of_warnings(warned_);
    }
  }

  /// Calls `call` for record `i` of a slot, to fill record `at` of another.
  template <class Call>
  void call_for(Call& call, const HostSlot& given, const InView& in, std::size_t i,
                const OutView& out, std::size_t at) const {
    auto&& from = record_at<parameter_t<0, P>>(in, i);
    auto&& to = record_at<parameter_t<1, P>>(out, at);
    if constexpr (P::count == 3) {
      std::invoke(call, from, to, in_->visit(given, i));
    } else {
      std::invoke(call, from, to);
    }
  }

  /// Calls one(i, at) for each record i among a slot's `units`, to make record `at` of those kept:
  /// the next record takes the place of one that is left out. Gives `numbers` those kept. Returns
  /// false if the run is to end. May throw std::bad_alloc.
  template <class One>
  bool each_record(const HostSlot& given, PartOf units, Kept& kept, SourceNumbers& numbers,
                   Meter& meter, One one) {
    kept = {};
    std::size_t i = units.begin;
    std::size_t unbroken = i; // from here to before i all are kept
    const auto keep = [&] {
      if (i != unbroken) {
        kept.first = kept.count == 0 ? unbroken : kept.first;
        numbers.go_on(kept.count, given.source, unbroken, i - unbroken);
        kept.count += i - unbroken;
      }
    };
    unsigned tries = 0;
    while (i != units.end) {
      try {
        // One try block for many records: a cheap callable's loop is then as fast as its own.
        for (; i != units.end; ++i, tries = 0) {
          one(i, kept.count + (i - unbroken));
        }
      } catch (const ThreadEnd&) {
        fail_of_thread_end(
            [&] { this->thrown(on_error_, meter, 0, in_->visit(given, i).record, 1); });
        throw;
      } catch (...) {
        const Item item = this->thrown(on_error_, meter, tries++, in_->visit(given, i).record, 1);
        if (item == Item::failed) {
          return false;
        }
        if (item == Item::skipped) {
          keep();
          unbroken = ++i;
          tries = 0;
        }
      }
    }
    keep();
    return true;
  }

  const OnError on_error_;
  const Shared<HostLink> in_;
  const Shared<HostLink> out_;

 private:
  static constexpr bool is_warned = IsWarned<typename called<F>::type>;

  Warned<> warned_;
};

} // namespace penstock::detail
