// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/formats/detail/array_header.hpp>
#include <penstock/sources/detail/foreign_kind.hpp>
#include <penstock/sources/detail/header_file.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>

namespace penstock::detail {

/// Reads the header of an IDX file, the format of the MNIST data sets, as
/// http://yann.lecun.com/exdb/mnist/ describes it: two zero bytes, one for the type, one for the
/// number of dimensions; then each extent in 4 bytes, the most significant one first, as in the
/// values. Throws SourceError.
[[gnu::cold]] inline ArrayHeader idx_header(const HeaderFile& file) {
  std::byte magic[4];
  file.read(0, magic);
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0}) {
    refuse_foreign(file);
    file.refuse(0, {"does not begin with two zero bytes, as an IDX file does: it is damaged, or of "
                    "another format. Name an IDX file, such as train-images-idx3-ubyte."});
  }
  ArrayHeader header;
  const auto code = std::to_integer<unsigned>(magic[2]);
  switch (code) {
  case 0x08:
    header.type = {'u', 1};
    break;
  case 0x09:
    header.type = {'i', 1};
    break;
  case 0x0B:
    header.type = {'i', 2};
    break;
  case 0x0C:
    header.type = {'i', 4};
    break;
  case 0x0D:
    header.type = {'f', 4};
    break;
  case 0x0E:
    header.type = {'f', 8};
    break;
  default:
    file.refuse(2, {"has ", code,
                    " for the type of its values, and IDX files have 8, 9 or 11 to 14 there: the "
                    "file is damaged, or of another format. Write or fetch it again."});
  }
  header.dims = std::to_integer<std::size_t>(magic[3]);
  if (header.dims > ArrayHeader::most_extents) {
    file.refuse(
        3, {"has ", header.dims, " dimensions, more than the ", ArrayHeader::most_extents,
            " that are read: the file is damaged, or of another format. Write or fetch it again."});
  }
  for (std::size_t i = 0; i != header.dims; ++i) {
    header.extents[i] = file.number<std::uint32_t>(4 + 4 * i, true);
  }
  header.offset = 4 + 4 * header.dims;
  header.swapped = std::endian::native == std::endian::little && header.type.bytes != 1;
  return header;
}

} // namespace penstock::detail
