// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/device/device.hpp>
#include <penstock/host/device.hpp>

#include <concepts>

namespace transformer {

/// A second stream beside a first one, for work that need not hold up what the first does next. The
/// host device cannot capture what goes from one stream to another: there, in graphs, the second is
/// the first.
template <penstock::AnyDevice D> class SideStream {
 public:
  using S = typename D::stream_type;

  /// `captured`: whether graphs are made of the work.
  SideStream(D& device, S& first, bool captured)
      : device_{device}, first_{first}, own_{device.stream()}, reached_{device.event()},
        apart_{!captured || !std::same_as<D, penstock::HostDevice>} {}

  S& stream() noexcept { return apart_ ? own_ : first_; }
  /// Makes later work here wait for all that is enqueued on the first stream.
  void follow() { after(first_, own_); }
  /// Makes later work on the first stream wait for all that is enqueued here.
  void join() { after(own_, first_); }

 private:
  void after(S& earlier, S& later) {
    if (apart_) {
      device_.record(reached_, earlier);
      device_.wait(later, reached_);
    }
  }

  D& device_;
  S& first_;
  S own_;
  typename D::event_type reached_;
  bool apart_;
};

} // namespace transformer
