// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/order/order.hpp>
#include <penstock/run/options.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace penstock {

class ImageNotes;

/// Which part of a picture is resized to the extents that are wanted.
enum class Crop : std::uint8_t {
  centre, ///< The largest part of the wanted aspect ratio, from the middle.
  random, ///< As torchvision's RandomResizedCrop: another part each epoch, see ImageOptions.
  none    ///< All of it, squeezed.
};

/// Options of jpeg() and png().
struct ImageOptions {
  /// Threads that decode at once, each with a decoder of its own; 0: as many as there are
  /// processors that this process may use, shared with the host's other ranks, at most 32. A host
  /// of more feeds several GPUs, as a rule each from a process of its own, and each thread keeps
  /// memory for the largest picture that it decoded.
  unsigned workers = 0;
  /// Slots in flight, at least 2; 0: as many as 48 MiB hold.
  std::size_t depth = 0;
  /// Height and width in pixels, where the schema has `dynamic` extents; else leave it out.
  std::array<std::size_t, 2> size = {};
  /// Which part of the picture is taken.
  Crop crop = Crop::centre;
  /// The least and the most of the picture's area that Crop::random takes, above 0, at most 1.
  std::array<double, 2> area = {0.08, 1};
  /// The narrowest and the widest part that Crop::random takes, as width over height, before it is
  /// resized.
  std::array<double, 2> ratio = {3.0 / 4, 4.0 / 3};
  /// Mirrors every second picture, on average, left to right, at random.
  bool flip = false;
  /// What Crop::random and flip begin with. A record's part in an epoch is a function of this, the
  /// record's number and the epoch, whatever the number of workers.
  Seed seed = 0;
  /// Turns and mirrors pictures as EXIF's orientation says, of a JPEG or in a PNG's eXIf chunk,
  /// before a part is taken, so that it is one of the upright picture. Else pixels stay as they are
  /// stored.
  bool orient = false;
  /// JPEG only. Has the decoder itself shrink to a half, a quarter or an eighth, as far as the part
  /// that is taken does not become smaller than what is wanted. That is faster, and changes pixels.
  bool scaled = false;
  /// Makes an error of each warning, such as data that ends too early.
  bool strict = false;
  /// Pictures of more pixels are refused before memory is taken for them.
  std::uint64_t most_pixels = 89'478'485;
  /// Where pictures that were kept with a warning are noted; none: nowhere.
  ImageNotes* notes = nullptr;
  /// Bytes of each Ragged column that goes along that a slot holds; 0: 1 MiB.
  std::size_t value_bytes = 0;
  /// What becomes of records that cannot be decoded.
  OnError on_error = {};
};

} // namespace penstock
