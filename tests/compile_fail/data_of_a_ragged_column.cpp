// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// refused: a Ragged column has records of any length: column.values\(\)
#include <penstock/penstock.hpp>

namespace ps = penstock;

struct Note : ps::Columns<ps::Field<"text", ps::Ragged<char>>> {};
const char* text(ps::Batch<const Note, ps::Pageable> notes) {
#ifdef PENSTOCK_REFUSED
  return ps::get<"text">(notes).data();
#else
  return ps::get<"text">(notes).values();
#endif
}

int main() {
  return text({}) != nullptr;
}
