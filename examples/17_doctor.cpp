// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// 17_doctor: what this machine allows, what a pipeline reaches on it, whether that is worth it, and
// which settings to take. In less than a minute it measures the disk, the page cache, copies in
// memory, and of a GPU its bus, launches and page-locked memory. Then it runs a pipeline over the
// data, and a loop without one.
//
//   17_doctor [FILE_OR_FOLDER] [--batch BYTES] [--kernel-ms T] [--json] [--device auto|cuda|host]
//   17_doctor [--json] --run PROGRAM ARGS...
//   17_doctor --help
//
// It reads a sample of the file, or of the folder's files, and never writes there. To see how fast
// the disk is, it drops the sample from the page cache first. Without FILE_OR_FOLDER it makes a
// file in TMPDIR, or /tmp, which is gone afterwards. --batch and --kernel-ms say how many bytes
// your kernels take at a time, and for how long: a kernel that does nothing stands for them. With
// --json it prints one object and nothing else. --run watches another program. docs/doctor.md
// explains the figures. nvcc compiles this source for both devices, any other compiler for the host
// device alone.

#include "doctor/advice.hpp"
#include "doctor/arguments.hpp"
#include "doctor/data.hpp"
#include "doctor/device.hpp"
#include "doctor/disk.hpp"
#include "doctor/findings.hpp"
#include "doctor/limits.hpp"
#include "doctor/made_file.hpp"
#include "doctor/memory.hpp"
#include "doctor/print.hpp"
#include "doctor/trial.hpp"
#include "doctor/workload.hpp"

#include <penstock/penstock.hpp>
#include <penstock/with_device.hpp>
#if __has_include("support/run_watched.hpp")
#include "support/run_watched.hpp"
#define DOCTOR_CAN_WATCH
#endif

#include <algorithm>
#include <exception>
#include <iostream>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>

namespace ps = penstock;

int watch(const doctor::Arguments& args) {
#if defined(DOCTOR_CAN_WATCH)
  return run_watched(args.program, args.json);
#else
  throw std::runtime_error{"cannot watch " + std::string{args.program.front()} +
                           ": this was built without what --run needs, support/run_watched.hpp"};
#endif
}

void flush_output() {
  if (!std::cout.flush()) {
    throw std::runtime_error{"cannot write to standard output: it is closed, or its disk is full"};
  }
}

/// Says what the data are, with the sample of them that is measured.
std::string described(const doctor::Data& data, const std::string& name) {
  const std::uint64_t sample = data.bytes_of(data.pieces.size());
  std::string text = name + ", " +
                     (data.all_files == 1 ? "" : std::to_string(data.all_files) + " files, ") +
                     doctor::bytes_in_words(data.all_bytes);
  if (sample != data.all_bytes) {
    text += " (a sample of " +
            (data.all_files == 1 ? "" : std::to_string(data.paths.size()) + " files, ") +
            doctor::bytes_in_words(sample) + ')';
  }
  return text;
}

template <ps::AnyDevice D> doctor::Findings examine(D& device, const doctor::Arguments& args) {
  const doctor::Progress progress;
  doctor::Findings found;
  found.device = device.name();
  doctor::check_memory();
  const std::size_t batch = doctor::batch_for(device, args);

  progress.show("finding or making the data");
  std::optional<doctor::MadeFile> made;
  doctor::Data data = doctor::find_data(args.path.empty() ? made.emplace().path() : args.path);
  found.data =
      described(data, made ? "a file of noise in " + made->folder() + ", now gone" : args.path);

  found.small_files = data.small_files;

  {
    const doctor::Readings readings{data,
                                    std::max(doctor::several_threads(), doctor::disk_threads)};
    progress.show("measuring the disk");
    doctor::measure_disk(readings, data, found.limits);
    progress.show("measuring the page cache");
    doctor::measure_page_cache(readings, data, found.limits);
  }
  progress.show("measuring copies in memory");
  doctor::measure_copies(found.limits);
  progress.show("measuring the device");
  doctor::measure_device(device, found.limits);
  doctor::measure_each_batch(device, found.limits);

  found.work = doctor::workload_on(data, found.limits, batch, args.kernel_ms);
  progress.show("running a loop without a pipeline");
  found.plain_loop = doctor::run_plain_loop(device, data, found.work);
  progress.show("running a pipeline");
  found.first = doctor::run_pipeline(device, data, found.limits, found.work, {});
  found.diagnosis = doctor::diagnose(found.first, found.limits, found.work);
  if (found.diagnosis.to_try != doctor::Settings{}) {
    progress.show("running it with other settings");
    found.tried = found.diagnosis.to_try;
    found.second = doctor::run_pipeline(device, data, found.limits, found.work, *found.tried);
  }
  if (found.limits["disk_cold_1_thread_gb_per_s"] > 0 && !found.work.from_disk &&
      !found.work.is_one_batch()) {
    progress.show("running both once more, with an empty page cache");
    doctor::Workload first = found.work;
    first.from_disk = true;
    found.first_pass = {
        .pipeline = doctor::gb_per_s(doctor::run_pipeline(device, data, found.limits, first, {})),
        .plain_loop = doctor::run_plain_loop(device, data, first)};
  }
  return found;
}

int main(int argc, char** argv) try {
  const doctor::Arguments args{argc, argv};
  if (args.help) {
    std::cout << doctor::usage;
    flush_output();
    return 0;
  }
  if (!args.program.empty()) {
    return watch(args);
  }
  return ps::with_device(args.device, [&](auto& device) {
    const auto attached = device.attach();
    const doctor::Findings found = examine(device, args);
    args.json ? doctor::print_json(std::cout, found) : doctor::print_text(std::cout, found);
    flush_output();
    return 0;
  });
} catch (const std::bad_alloc&) {
  std::cerr << "17_doctor: the system gives too little memory: end other programs, raise this "
               "one's limit (ulimit -v), or give a smaller --batch\n";
  return 1;
} catch (const std::exception& error) {
  std::cerr << "17_doctor: " << error.what() << '\n';
  return 1;
}
