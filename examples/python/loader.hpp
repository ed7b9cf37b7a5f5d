// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ctrl_c.hpp"
#include "options.hpp"
#include "tensor.hpp"

#include <penstock/penstock.hpp>
#include <penstock/run/report_json.hpp>

#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

/// A pipeline, where it brings its batches, and one run of it. Tensors keep it, so it dies with the
/// last.
template <class Where, class Make> struct Session {
  Session(const LoaderOptions& options, Make make) : where{options}, pipeline{make(where)} {}

  Where where;
  decltype(std::declval<Make&>()(std::declval<Where&>())) pipeline;
  decltype(where.run(pipeline, {})) run;
};

/// An iterator over one run. Waits without the GIL.
class Loader {
  struct Run {
    virtual ~Run() = default;
    virtual void begin(ps::RunOptions options) = 0;
    virtual std::vector<Tensor> next(ps::Position& stands) = 0;
    virtual void stop() noexcept = 0;
    virtual ps::Report report() const = 0;
  };
  template <class S, class G> struct Model final : Run {
    Model(std::shared_ptr<S> s, G g) : session{std::move(s)}, tensors{std::move(g)} {}
    ~Model() override { session->run = {}; } // with the iterator, whatever tensors are out
    void begin(ps::RunOptions options) override {
      session->run = session->where.run(session->pipeline, std::move(options));
    }
    std::vector<Tensor> next(ps::Position& stands) override {
      auto batch = session->run.next();
      if (!batch) {
        return {};
      }
      stands = batch.position();
      return tensors(batch.share(), session);
    }
    void stop() noexcept override { session->pipeline.stop(); }
    ps::Report report() const override { return session->pipeline.report(); }
    std::shared_ptr<S> session;
    G tensors;
  };

 public:
  /// `make(where)` makes the pipeline, and `tensors(shared, session)` the tensors of a batch.
  template <class Where, class F, class G>
  static Loader of(const LoaderOptions& options, F make, G tensors) {
    using S = Session<Where, F>;
    Loader loader;
    loader.run_ = std::make_unique<Model<S, G>>(std::make_shared<S>(options, std::move(make)),
                                                std::move(tensors));
    loader.lease_wait_ = options.lease_wait;
    loader.into_ = options.into;
    return loader;
  }

  nb::object next() {
    if (ended_) {
      throw ps::Error{"penstock: Ctrl-C ended this run: go on from its position, with another "
                      "iterator."};
    }
    std::vector<Tensor> tensors;
    bool interrupted = false;
    const bool raises = CtrlC::raises_here();
    {
      const nb::gil_scoped_release unlocked;
      // Two threads at a first batch would both begin the run: the later one is to get its error.
      const std::lock_guard one{*asking_};
      std::optional<CtrlC> ctrl_c;
      if (raises) {
        ctrl_c.emplace([](void* run) { static_cast<Run*>(run)->stop(); }, run_.get());
      }
      if (!begun_) {
        run_->begin({.from = stands_, .lease_wait = lease_wait_});
        begun_ = true;
      }
      tensors = run_->next(stands_);
      interrupted = ctrl_c && ctrl_c->came();
    }
    ended_ = interrupted;
    if (interrupted && PyErr_CheckSignals() != 0) {
      throw nb::python_error{};
    }
    if (tensors.empty()) {
      throw nb::stop_iteration();
    }
    nb::list all;
    for (Tensor& tensor : tensors) {
      nb::object given = nb::cast(std::move(tensor));
      all.append(into_.is_none() ? given : into_(given));
    }
    return nb::len(all) == 1 ? nb::object{all[0]} : nb::object{nb::tuple(all)};
  }

  /// Where the run stands behind the batch that it gave last, as a line of text.
  std::string position() const { return stands_.text(); }
  void go_on_from(const std::string& position) {
    if (begun_) {
      throw ps::Error{"penstock: this run has begun: set the position of a new iterator, before "
                      "its first batch."};
    }
    stands_ = ps::Position{position};
  }

  /// For Python's collector of cycles: `into` may be a method of what has the loader.
  /// @{
  static int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (nb::inst_ready(self)) {
      Py_VISIT(nb::inst_ptr<Loader>(self)->into_.ptr());
    }
    return 0;
  }
  static int clear(PyObject* self) {
    nb::inst_ptr<Loader>(self)->into_ = nb::none();
    return 0;
  }
  /// @}

  std::string report() const {
    std::ostringstream text;
    text << run_->report();
    return text.str();
  }
  nb::object report_dict() const {
    return nb::module_::import_("json").attr("loads")(ps::to_json(run_->report()).text());
  }

 private:
  std::unique_ptr<std::mutex> asking_ = std::make_unique<std::mutex>();
  std::unique_ptr<Run> run_;
  std::chrono::milliseconds lease_wait_{};
  nb::object into_;
  ps::Position stands_;
  bool begun_ = false;
  bool ended_ = false;
};
