// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/formats/detail/json_text.hpp>
#include <penstock/formats/detail/safetensors_header.hpp>
#include <penstock/formats/tensor_info.hpp>
#include <penstock/io/file.hpp>
#include <penstock/sources/detail/foreign_kind.hpp>
#include <penstock/sources/detail/record_files.hpp>
#include <penstock/sources/detail/utf8.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::detail {

/// Reads a header. Use it once: it holds what it has read so far.
class SafetensorsParser {
 public:
  /// Reads `header`, which lies behind the length in a file of `size` bytes.
  SafetensorsParser(std::span<const std::byte> header, std::uint64_t size, const std::string& path)
      : data_{safetensors_length_bytes + header.size()}, size_{size}, path_{path},
        json_{{reinterpret_cast<const char*>(header.data()), header.size()},
              path,
              safetensors_length_bytes,
              "its safetensors header",
              safetensors_damaged} {}

  SafetensorsHeader parse() {
    each_json_member(json_, [&](std::string& name, std::size_t at) {
      name == "__metadata__" ? metadata(at) : tensor(name, at);
    });
    json_.expect_end();
    check_names();
    check_places();
    header_.data = data_;
    return std::move(header_);
  }

 private:
  template <class F> void each_number(F f) {
    json_.expect('[');
    for (bool more = !json_.take(']'); more; more = json_.next_of(']')) {
      f(json_.number());
    }
  }

  void metadata(std::size_t at) {
    if (std::exchange(has_metadata_, true)) {
      json_.fail(at, {"a second __metadata__"});
    }
    if (json_.take("null")) {
      return;
    }
    each_json_member(json_, [&](const std::string& name, std::size_t where) {
      if (header_.metadata.size() == most_tensor_metadata) {
        json_.fail(where, {"more than ", most_tensor_metadata, " members of __metadata__"},
                   "write the file with fewer.");
      }
      if (!header_.metadata.emplace(name, json_.string()).second) {
        json_.fail(where, {"\"", shown(name), "\" twice in __metadata__"});
      }
    });
  }

  void tensor(const std::string& name, std::size_t at) {
    TensorInfo tensor{.name = name, .shape = {}};
    std::optional<TensorType> type;
    std::optional<std::vector<std::uint64_t>> shape;
    std::vector<std::uint64_t> places;
    each_json_member(json_, [&](const std::string& member, std::size_t where) {
      const auto once = [&](bool first) {
        if (!first) {
          json_.fail(where, {"\"", shown(member), "\" twice in the tensor \"", shown(name), "\""});
        }
      };
      if (member == "dtype") {
        once(!type);
        type = this->type(name, where);
      } else if (member == "shape") {
        once(!shape);
        shape.emplace();
        each_number([&](std::uint64_t extent) { add(*shape, extent, most_tensor_extents, at); });
      } else if (member == "data_offsets") {
        once(places.empty());
        each_number([&](std::uint64_t place) { add(places, place, 2, at); });
        refuse_unless(places.size() == 2, at, name, "whose data_offsets are not two numbers");
      } else {
        skip_json(json_); // as the format's own reader does
      }
    });
    refuse_unless(type && shape && !places.empty(), at, name,
                  "without a dtype, a shape or data_offsets");
    tensor.type = *type;
    tensor.shape = std::move(*shape);
    refuse_unless(places[0] <= places[1], at, name, "whose data_offsets end before they begin");
    refuse_unless(places[1] <= size_ - data_, at, name,
                  "whose data_offsets end behind the end of the file");
    tensor.offset = data_ + places[0];
    tensor.bytes = places[1] - places[0];
    check_bytes(tensor, at);
    header_.tensors.push_back(std::move(tensor));
  }
  TensorType type(const std::string& name, std::size_t at) {
    const std::string found = json_.string();
    for (std::size_t i = 0; i != tensor_types.size(); ++i) {
      if (tensor_types[i].name == found) {
        return static_cast<TensorType>(i);
      }
    }
    json_.fail(at,
               {"the unknown dtype \"", shown(found), "\" for the tensor \"", shown(name), "\""},
               "write it as one of the types that ps::TensorType lists.");
  }
  void add(std::vector<std::uint64_t>& numbers, std::uint64_t number, std::size_t most,
           std::size_t at) const {
    if (numbers.size() == most) {
      json_.fail(at, {"a tensor with more than ", most, " numbers in one list"});
    }
    numbers.push_back(number);
  }
  void check_bytes(const TensorInfo& tensor, std::size_t at) const {
    // As the format's own reader counts: what stands behind a 0 may be as large as it likes.
    constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t bits = 1;
    const auto times = [&](std::uint64_t factor) {
      refuse_unless(factor == 0 || bits <= most / factor, at, tensor.name,
                    "whose shape has more elements than memory can hold");
      bits *= factor;
    };
    std::for_each(tensor.shape.begin(), tensor.shape.end(), times);
    times(bits_of(tensor.type));
    refuse_unless(bits % 8 == 0, at, tensor.name, "whose last byte is not full");
    if (bits / 8 != tensor.bytes) {
      json_.fail(at, {"the tensor \"", shown(tensor.name), "\", whose dtype and shape make ",
                      bits / 8, " bytes and whose data_offsets make ", tensor.bytes, ","});
    }
  }

  void check_names() const {
    std::vector<const std::string*> names;
    names.reserve(header_.tensors.size());
    for (const TensorInfo& tensor : header_.tensors) {
      names.push_back(&tensor.name);
    }
    const auto less = [](const std::string* a, const std::string* b) { return *a < *b; };
    const auto same = [](const std::string* a, const std::string* b) { return *a == *b; };
    std::sort(names.begin(), names.end(), less);
    const auto twice = std::adjacent_find(names.begin(), names.end(), same);
    if (twice != names.end()) {
      json_.fail(0, {"the tensor \"", shown(**twice), "\" twice"});
    }
  }
  // Sorts the tensors as they lie: each begins where the one before it ends.
  void check_places() {
    std::vector<TensorInfo>& all = header_.tensors;
    std::sort(all.begin(), all.end(), [](const TensorInfo& a, const TensorInfo& b) {
      return a.offset != b.offset ? a.offset < b.offset
             : a.bytes != b.bytes ? a.bytes < b.bytes
                                  : a.name < b.name;
    });
    std::uint64_t end = data_;
    for (const TensorInfo& tensor : all) {
      if (tensor.offset != end) {
        misplaced(end, {"should begin the tensor \"", shown(tensor.name),
                        "\", which begins at byte ", tensor.offset});
      }
      end += tensor.bytes;
    }
    if (end != size_) {
      misplaced(end, {"ends the last tensor, and the file ends at byte ", size_});
    }
  }
  [[noreturn, gnu::cold]] void misplaced(std::uint64_t at,
                                         std::initializer_list<TextPart> how) const {
    const std::string text = joined(how);
    throw_source_error({"penstock: ", path_, " at byte ", at, " ", text,
                        ", and tensors neither overlap nor leave gaps: ", safetensors_damaged},
                       path_, at);
  }
  void refuse_unless(bool right, std::size_t at, const std::string& name, const char* how) const {
    if (!right) {
      json_.fail(at, {"a tensor \"", shown(name), "\" ", how, ","});
    }
  }

  std::uint64_t data_; // where the tensors' bytes begin in the file
  std::uint64_t size_;
  const std::string& path_;
  JsonText json_;
  SafetensorsHeader header_{};
  bool has_metadata_ = false;
};

/// Reads the header of an open file. Throws SourceError.
template <class Io> SafetensorsHeader read_safetensors_header(const File<Io>& file) {
  if (file.path().ends_with(".json")) {
    throw_source_error({"penstock: ", file.path(),
                        " is no safetensors file by its name, but may be "
                        "an index of some: give the directory that they "
                        "lie in."},
                       file.path(), 0);
  }
  std::vector<std::byte> bytes(std::min<std::uint64_t>(file.size(), foreign_bytes));
  read_full(file, 0, bytes);
  const std::string_view first{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  if (!is_safetensors(first, file.size())) {
    if (const std::string kind = foreign_kind(bytes, file.size()); !kind.empty()) {
      throw_source_error({"penstock: ", file.path(), " at byte 0 ", kind}, file.path(), 0);
    }
  }
  const std::uint64_t length = safetensors_header_bytes(bytes, file.size(), file.path());
  bytes.resize(length);
  read_full(file, safetensors_length_bytes, bytes);
  return SafetensorsParser{bytes, file.size(), file.path()}.parse();
}

/// All that the headers of safetensors files say, file after file.
class TensorList {
 public:
  /// Takes a file's tensors, whose bytes are those from byte `at` of the source on; returns where
  /// in the file they lie.
  RecordsAt add(SafetensorsHeader header, const std::string& path, std::uint64_t size,
                std::uint64_t at) {
    for (TensorInfo& tensor : header.tensors) {
      tensor.file = files_.size();
      tensor.at = at + (tensor.offset - header.data);
      tensors_.push_back(std::move(tensor));
    }
    files_.push_back(path);
    metadata_.push_back(std::move(header.metadata));
    return {header.data, size - header.data};
  }
  /// To be called once, behind all. Throws SourceError for a name that two files have.
  void sort() {
    for (std::size_t i = 0; i != tensors_.size(); ++i) {
      by_name_.push_back(i);
    }
    const auto less = [this](std::size_t a, std::size_t b) {
      return tensors_[a].name != tensors_[b].name ? tensors_[a].name < tensors_[b].name : a < b;
    };
    const auto same = [this](std::size_t a, std::size_t b) {
      return tensors_[a].name == tensors_[b].name;
    };
    std::sort(by_name_.begin(), by_name_.end(), less);
    const auto twice = std::adjacent_find(by_name_.begin(), by_name_.end(), same);
    if (twice != by_name_.end()) {
      const TensorInfo& first = tensors_[twice[0]];
      const TensorInfo& second = tensors_[twice[1]];
      throw_source_error({"penstock: safetensors: two files have a tensor \"", shown(first.name),
                          "\": ", files_[first.file], " and ", files_[second.file],
                          ". The shards of a model have each name once: give those of one model."},
                         files_[second.file], second.offset);
    }
  }

  const std::vector<TensorInfo>& tensors() const noexcept { return tensors_; }
  const std::vector<std::string>& files() const noexcept { return files_; }
  /// What each file says besides its tensors.
  const std::vector<std::map<std::string, std::string>>& metadata() const noexcept {
    return metadata_;
  }
  /// Returns the tensor of this name; null if there is none.
  const TensorInfo* look_up(std::string_view name) const {
    const auto at = place_of(name);
    return at == by_name_.end() || tensors_[*at].name != name ? nullptr : &tensors_[*at];
  }
  /// Returns the tensor of this name. Throws OptionError if there is none.
  const TensorInfo& find(std::string_view name) const {
    const auto at = place_of(name);
    if (at == by_name_.end() || tensors_[*at].name != name) {
      const bool last = at == by_name_.end();
      throw_error<OptionError>(
          {"penstock: safetensors: there is no tensor \"", shown(name), "\" among the ",
           tensors_.size(), last ? "" : ", and the next in the order of names is \"",
           last ? std::string{} : shown(tensors_[*at].name),
           last ? ": give a name that tensors() lists." : "\": give a name that tensors() lists."});
    }
    return tensors_[*at];
  }

 private:
  std::vector<std::size_t>::const_iterator place_of(std::string_view name) const {
    return std::lower_bound(
        by_name_.begin(), by_name_.end(), name,
        [this](std::size_t i, std::string_view than) { return tensors_[i].name < than; });
  }

  std::vector<TensorInfo> tensors_;
  std::vector<std::size_t> by_name_; // their numbers
  std::vector<std::string> files_;
  std::vector<std::map<std::string, std::string>> metadata_;
};

} // namespace penstock::detail
