// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/config.hpp>
#include <penstock/run/options.hpp>
#include <penstock/sources/source.hpp>

namespace penstock::detail {

/// Opens sources one after the other, and counts their files over all.
class OpeningInTurn {
 public:
  /// `preparing` must outlive this.
  explicit OpeningInTurn(const PrepareOptions& preparing);
  OpeningInTurn(const OpeningInTurn&) = delete;
  OpeningInTurn& operator=(const OpeningInTurn&) = delete;

  template <Source S> void open(S& source) {
    open_source(source, each_is_told_);
    before_ = so_far_;
  }

 private:
  PrepareOptions each_is_told_;
  Preparation before_; // files of the sources that are open
  Preparation so_far_;
};

#if PENSTOCK_BODIES
PENSTOCK_INLINE OpeningInTurn::OpeningInTurn(const PrepareOptions& preparing)
    : each_is_told_{.every = preparing.every} {
  if (preparing.progress) {
    each_is_told_.progress = [this, &preparing](const Preparation& now) {
      so_far_ = {before_.files + now.files, before_.files_in_all + now.files_in_all};
      preparing.progress(so_far_);
    };
  }
}
#endif

} // namespace penstock::detail
