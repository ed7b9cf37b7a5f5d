// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/engine/node.hpp>
#include <penstock/error.hpp>
#include <penstock/run/options.hpp>
#include <penstock/sources/source.hpp>

#include <thread>

namespace penstock::detail {

/// Opens a copy of `source`, and another one if that fails, up to `retries` times, and returns it.
/// Blocks, and pauses in between. What progress throws is no failure of the source's, and what an
/// option forbids stays forbidden.
template <Source From>
[[gnu::cold]] From opened(const From& source, const PrepareOptions& preparing, unsigned retries) {
  for (unsigned failures = 0;; ++failures) {
    try {
      From copy = source;
      open_source(copy, preparing);
      return copy;
    } catch (const OptionError&) {
      throw;
    } catch (const ThreadEnd&) {
      throw;
    } catch (...) {
      if (preparing.progress.threw() || failures == retries) {
        throw;
      }
      std::this_thread::sleep_for(retry_pause(failures));
    }
  }
}

} // namespace penstock::detail
