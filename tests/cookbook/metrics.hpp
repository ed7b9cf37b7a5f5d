// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/penstock.hpp>
#include <penstock/run/report_prometheus.hpp>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

namespace ps = penstock;

/// Writes what a run has done into a file, which is whole whenever somebody reads it.
struct WriteMetrics {
  void operator()(const ps::Report& so_far) const {
    const std::string unfinished = path + ".new";
    std::ofstream{unfinished} << ps::to_prometheus(so_far, "train");
    std::filesystem::rename(unfinished, path);
  }

  std::string path;
};

/// Runs a pipeline, and writes its metrics every five seconds and at its end.
template <class Pipeline> void run_with_metrics(Pipeline& pipeline, const std::string& path) {
  const WriteMetrics write{path};
  write(pipeline.run({.progress = write, .every = std::chrono::seconds{5}}));
}
