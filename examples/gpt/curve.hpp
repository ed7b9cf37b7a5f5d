// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../support/whole_text.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace transformer {

/// The losses of a step.
struct CurvePoint {
  std::uint64_t step{};
  double loss{};                    ///< On what is trained.
  std::optional<double> val_loss{}; ///< On what is held out, where a validation followed the step.
  double rate{};
  double seconds{}; ///< Since the beginning.
  bool operator==(const CurvePoint&) const = default;
};

/// The losses of a training, and a CSV file of them that has each row as soon as it is there. A
/// training that goes on from a checkpoint goes on with the file.
class Curve {
 public:
  static constexpr std::string_view header = "step,train_loss,val_loss,rate,seconds\n";

  /// Begins a file, in place of what lies at `path`; none if that is empty. If the training goes on
  /// behind step `resumed`, goes on with the file instead: rows of later steps, which come again,
  /// are cut off with the first row added, and so is a last row that is not whole. Throws
  /// std::runtime_error if the file cannot be written, is none of a Curve's, or ends too early.
  explicit Curve(std::string path, std::uint64_t resumed = 0) : path_{std::move(path)} {
    if (path_.empty()) {
      return;
    }
    const bool goes_on = resumed != 0 && std::filesystem::exists(path_);
    errno = 0;
    file_.open(path_, goes_on ? std::ios::binary | std::ios::app : std::ios::binary);
    if (!goes_on) {
      file_ << header;
    }
    flush();
    if (goes_on) {
      keep(resumed);
    }
  }

  /// Adds a row, whose seconds count from this run's beginning. Throws std::runtime_error if it
  /// cannot be written.
  void add(CurvePoint point) {
    point.seconds += seconds_before_;
    points_.push_back(point);
    if (!path_.empty()) {
      if (const auto end = std::exchange(cut_at_, std::nullopt)) {
        std::filesystem::resize_file(path_, *end);
      }
      errno = 0;
      file_ << point.step << ',' << written(point.loss) << ','
            << (point.val_loss ? written(*point.val_loss) : "") << ',' << written(point.rate) << ','
            << written(point.seconds) << '\n';
      flush();
    }
  }

  /// Returns all rows, with those of runs before this one.
  const std::vector<CurvePoint>& points() const noexcept { return points_; }

 private:
  /// The shortest text that is read back as the same float, as losses and rates are.
  static std::string written(double value) {
    std::array<char, 32> text;
    return {text.data(),
            std::to_chars(text.data(), text.data() + text.size(), static_cast<float>(value)).ptr};
  }
  void flush() {
    if (!file_.flush()) {
      throw std::runtime_error{"cannot write " + path_ + ": " +
                               std::generic_category().message(errno != 0 ? errno : EIO) +
                               ". Check its folder and the space there, or give --csv another "
                               "file."};
    }
  }

  /// Takes the rows up to step `last` from the file, to cut off the rest when another one comes: a
  /// training may still fail to go on.
  void keep(std::uint64_t last) {
    std::ifstream file{path_, std::ios::binary};
    const std::string text = whole_text(file);
    if (!file) {
      throw std::runtime_error{"cannot read " + path_ + ": let this user read it."};
    }
    if (!text.starts_with(header)) {
      refuse(1);
    }
    std::size_t at = header.size();
    for (std::size_t line = 2;; ++line) {
      const std::size_t end = text.find('\n', at);
      if (end == text.npos) {
        break;
      }
      const std::optional<CurvePoint> point = parsed(std::string_view{text}.substr(at, end - at));
      if (!point || (!points_.empty() && point->step <= points_.back().step)) {
        refuse(line);
      }
      if (point->step > last) {
        break;
      }
      points_.push_back(*point);
      at = end + 1;
    }
    // A file without rows is that of a run that went on and did not get far.
    if (!points_.empty() && points_.back().step != last) {
      throw std::runtime_error{path_ + " ends at step " + std::to_string(points_.back().step) +
                               ", and the training goes on behind step " + std::to_string(last) +
                               ": rows would be missing. Give --csv the file of this training, or "
                               "another one."};
    }
    cut_at_ = at;
    seconds_before_ = points_.empty() ? 0 : points_.back().seconds;
  }
  [[noreturn]] void refuse(std::size_t line) const {
    throw std::runtime_error{path_ + ", line " + std::to_string(line) +
                             ": this is no row of losses in a row of steps, so the file cannot go "
                             "on. Give --csv another file, or move this one away."};
  }

  static std::optional<CurvePoint> parsed(std::string_view line) {
    std::array<std::string_view, 5> fields;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const std::size_t comma = line.find(',');
      if ((comma == line.npos) != (i + 1 == fields.size())) {
        return {};
      }
      fields[i] = line.substr(0, comma);
      line.remove_prefix(comma == line.npos ? line.size() : comma + 1);
    }
    CurvePoint point;
    double val_loss = 0;
    const bool whole = read(fields[0], point.step) && read(fields[1], point.loss) &&
                       (fields[2].empty() || read(fields[2], val_loss)) &&
                       read(fields[3], point.rate) && read(fields[4], point.seconds);
    if (!fields[2].empty()) {
      point.val_loss = val_loss;
    }
    return whole ? std::optional{point} : std::nullopt;
  }
  static bool read(std::string_view text, auto& to) {
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), to);
    return error == std::errc{} && rest == text.data() + text.size();
  }

  std::string path_;
  std::ofstream file_;
  std::vector<CurvePoint> points_;
  double seconds_before_ = 0;
  std::optional<std::size_t> cut_at_;
};

} // namespace transformer
