// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "meeting.hpp"

#include <penstock/cuda/nccl.hpp>

#include <span>

/// Returns what tells the ranks that meet from others: rank 0 has made it. Throws as share() does,
/// and penstock::NcclError.
inline ncclUniqueId nccl_id(Meeting& meeting) {
  ncclUniqueId id{};
  if (meeting.ranks().rank == 0) {
    id = penstock::Nccl::new_id();
  }
  meeting.share(std::as_writable_bytes(std::span{&id, 1}));
  return id;
}
