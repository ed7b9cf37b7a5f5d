// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "curve.hpp"

#include <penstock/io/new_file.hpp>
#include <penstock/io/posix.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iomanip>
#include <limits>
#include <span>
#include <sstream>
#include <string>
#include <vector>

namespace transformer {

/// Draws losses over steps as an SVG picture: the trained one as a line, of which each place is the
/// mean of the steps that it stands for, and the held-out one as a line with a dot for each
/// validation. Losses that are no numbers are left out.
class CurvePicture {
 public:
  explicit CurvePicture(std::span<const CurvePoint> points) {
    for (const CurvePoint& point : points) {
      add(train_, point.step, point.loss);
      if (point.val_loss) {
        add(held_out_, point.step, *point.val_loss);
      }
    }
    thin(train_);
    for (const std::vector<Place>* line : {&train_, &held_out_}) {
      for (const Place& place : *line) {
        last_step_ = std::max(last_step_, place.step);
        least_ = std::min(least_, place.loss);
        most_ = std::max(most_, place.loss);
      }
    }
    if (least_ > most_) { // nothing to draw
      least_ = 0;
      most_ = 1;
    }
    // Of equal losses too, a tick is a step from one number to another.
    const double widest = std::max(std::abs(least_), std::abs(most_));
    const double tick = tick_of(std::max(most_ - least_, widest * 1e-6));
    least_ = std::floor(least_ / tick) * tick;
    most_ = std::max(std::ceil(most_ / tick) * tick, least_ + tick);
  }

  /// Returns the picture's text.
  std::string svg() const {
    std::ostringstream os;
    os << R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 )" << width << ' ' << height
       << R"(" font-family="sans-serif" font-size="12">)" << '\n'
       << R"(<rect width="100%" height="100%" fill="white"/>)" << '\n';
    axes(os);
    line(os, train_, train_colour, false);
    line(os, held_out_, held_out_colour, true);
    name(os, 0, train_colour, "train");
    if (!held_out_.empty()) {
      name(os, 1, held_out_colour, "validation");
    }
    os << "</svg>\n";
    return os.str();
  }

 private:
  struct Place {
    double step;
    double loss;
  };
  static constexpr double width = 720;
  static constexpr double height = 420;
  static constexpr double left = 60;
  static constexpr double right = 700;
  static constexpr double top = 20;
  static constexpr double bottom = 375;
  static constexpr std::size_t most_places = 640; // a place for each unit of width
  static constexpr const char* train_colour = "#1f77b4";
  static constexpr const char* held_out_colour = "#d62728";

  static void add(std::vector<Place>& to, std::uint64_t step, double loss) {
    if (std::isfinite(loss)) {
      to.push_back({static_cast<double>(step), loss});
    }
  }
  /// Puts the means of neighbours in their place if there are too many.
  static void thin(std::vector<Place>& places) {
    const std::size_t each = (places.size() + most_places - 1) / most_places;
    if (each < 2) {
      return;
    }
    std::vector<Place> means;
    for (std::size_t begin = 0; begin < places.size(); begin += each) {
      const std::size_t end = std::min(begin + each, places.size());
      Place mean{0, 0};
      for (std::size_t i = begin; i < end; ++i) {
        mean.step += places[i].step / static_cast<double>(end - begin);
        mean.loss += places[i].loss / static_cast<double>(end - begin);
      }
      means.push_back(mean);
    }
    places = std::move(means);
  }
  /// Returns the distance of ticks, 1, 2 or 5 times a power of 10, of which five or so span that.
  static double tick_of(double span) {
    const double about = std::max(span, 1e-6) / 5;
    const double power = std::pow(10, std::floor(std::log10(about)));
    const double times = about / power;
    return power * (times > 5 ? 10 : times > 2 ? 5 : times > 1 ? 2 : 1);
  }

  double x(double step) const { return left + (right - left) * step / std::max(last_step_, 1.0); }
  double y(double loss) const {
    return bottom - (bottom - top) * (loss - least_) / (most_ - least_);
  }

  void axes(std::ostream& os) const {
    const double loss_tick = tick_of(most_ - least_);
    for (int i = 0; least_ + i * loss_tick <= most_ + loss_tick / 2; ++i) {
      const double loss = least_ + i * loss_tick;
      stroke(os, left, y(loss), right, y(loss), "#ddd");
      text(os, left - 6, y(loss) + 4, "end", figure(loss));
    }
    const double step_tick = std::max(tick_of(last_step_), 1.0);
    for (int i = 0; i * step_tick <= std::max(last_step_, 1.0); ++i) {
      const double step = i * step_tick;
      stroke(os, x(step), bottom, x(step), bottom + 5, "#333");
      text(os, x(step), bottom + 18, "middle", figure(step));
    }
    stroke(os, left, bottom, right, bottom, "#333");
    stroke(os, left, top, left, bottom, "#333");
    text(os, (left + right) / 2, height - 8, "middle", "steps");
    os << R"svg(<text transform="translate(16 )svg" << (top + bottom) / 2
       << R"svg() rotate(-90)" text-anchor="middle">loss</text>)svg" << '\n';
  }
  void line(std::ostream& os, const std::vector<Place>& places, const char* colour,
            bool dots) const {
    if (places.empty()) {
      return;
    }
    os << R"(<polyline fill="none" stroke-width="1.5" stroke=")" << colour << R"(" points=")";
    const char* between = "";
    for (const Place& place : places) {
      os << between << at(x(place.step)) << ',' << at(y(place.loss));
      between = " ";
    }
    os << R"("/>)" << '\n';
    for (std::size_t i = 0; dots && i < places.size(); ++i) {
      os << R"(<circle r="2.5" fill=")" << colour << R"(" cx=")" << at(x(places[i].step))
         << R"(" cy=")" << at(y(places[i].loss)) << R"("/>)" << '\n';
    }
  }
  static void name(std::ostream& os, int number, const char* colour, const char* what) {
    const double height_of_it = top + 14 + 18 * number;
    stroke(os, right - 110, height_of_it - 4, right - 85, height_of_it - 4, colour);
    text(os, right - 80, height_of_it, "start", what);
  }
  static void stroke(std::ostream& os, double x1, double y1, double x2, double y2,
                     const char* colour) {
    os << R"(<line x1=")" << at(x1) << R"(" y1=")" << at(y1) << R"(" x2=")" << at(x2) << R"(" y2=")"
       << at(y2) << R"(" stroke=")" << colour << R"("/>)" << '\n';
  }
  static void text(std::ostream& os, double at_x, double at_y, const char* anchor,
                   const std::string& what) {
    os << R"(<text x=")" << at(at_x) << R"(" y=")" << at(at_y) << R"(" text-anchor=")" << anchor
       << R"(">)" << what << "</text>\n";
  }
  static std::string figure(double value) {
    std::ostringstream os;
    os << std::setprecision(10) << std::round(value * 1e6) / 1e6;
    return os.str();
  }
  /// A tenth of a unit is as fine as anyone can see.
  static std::string at(double place) {
    std::ostringstream os;
    os << std::fixed << std::setprecision(1) << place;
    return os.str();
  }

  std::vector<Place> train_;
  std::vector<Place> held_out_;
  double last_step_ = 0;
  double least_ = std::numeric_limits<double>::infinity();
  double most_ = -std::numeric_limits<double>::infinity();
};

/// Writes the picture of a curve to `path`, as a whole or not at all. Throws penstock::SinkError.
inline void write_picture(const std::string& path, std::span<const CurvePoint> points) {
  const std::string text = CurvePicture{points}.svg();
  penstock::NewFile<> file{penstock::PosixIo{}, path};
  file.write(0, std::as_bytes(std::span{text}));
  file.commit(false);
}

} // namespace transformer
