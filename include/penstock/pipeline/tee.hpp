// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/data/memory.hpp>
#include <penstock/detail/base/callable.hpp>
#include <penstock/detail/base/text.hpp>
#include <penstock/detail/branches/fork_node.hpp>
#include <penstock/detail/branches/fork_step.hpp>
#include <penstock/detail/chain/assembly.hpp>
#include <penstock/detail/chain/chain.hpp>
#include <penstock/detail/chain/fit.hpp>
#include <penstock/detail/engine/build.hpp>
#include <penstock/device/device.hpp>
#include <penstock/error.hpp>
#include <penstock/pipeline/branch.hpp>
#include <penstock/pipeline/pipe_operator.hpp>
#include <penstock/pipeline/pipeline.hpp>
#include <penstock/run/report.hpp>
#include <penstock/stage.hpp>

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace penstock {

/// A branch of tee() without stages: your loop takes what comes to the tee, as it is.
struct to_loop_t {
  /// Takes a number, since {} would be taken for options.
  explicit constexpr to_loop_t(int) {}
};
/// The tag itself: see to_loop_t.
inline constexpr to_loop_t to_loop{0};

template <class... Branches> class Tee;

namespace detail {

template <class B> struct branch_of_tee {
  static constexpr bool good = false;
};
template <> struct branch_of_tee<to_loop_t> {
  static constexpr bool good = true;
  using type = Branch<>;
  static type from(to_loop_t) { return type{{}}; }
};
template <Stage S> struct branch_of_tee<S> {
  static constexpr bool good = true;
  using type = Branch<S>;
  static type from(S stage) { return type{{std::move(stage)}}; }
};
template <class... S> struct branch_of_tee<Branch<S...>> {
  static constexpr bool good = true;
  using type = Branch<S...>;
  static type from(type branch) { return branch; }
};

/// Returns whether stages give pinned memory, of which the first is given Given.
/// @{
template <class Given> consteval bool stages_pin() {
  return false;
}
template <class Given, class S, class... Others> consteval bool stages_pin() {
  using Gives = typename S::template gives<Given>;
  return std::is_same_v<typename batch_of<Gives>::space, Pinned> || S::template pins<Given>() ||
         stages_pin<Gives, Others...>();
}
/// @}

/// What is known of a branch from its stages' types.
template <class B> struct branch_traits;
template <class... S> struct branch_traits<Branch<S...>> {
  static constexpr std::size_t size = sizeof...(S);
  using device = typename device_of<S...>::type;
  template <class Given> using gives = typename given<Given, S...>::type;
  template <class Given, std::size_t At>
  using given_to = typename given_at<At, Given, S...>::type;
  static constexpr bool open = !std::is_void_v<gives<Anything>>;
  static constexpr bool refused = (S::refused || ...);

  template <class Given> static consteval bool pins() { return stages_pin<Given, S...>(); }
};
/// Whether a branch's first stage changes the batches that it is given.
template <class B> inline constexpr bool changes_batches = false;
template <class First, class... Others>
  requires requires { First::in_place; }
inline constexpr bool changes_batches<Branch<First, Others...>> = First::in_place;

/// Whether a branch names no device, or one of the kind that another names.
template <class D, class Other>
inline constexpr bool same_kind = std::is_same_v<D, NoDevice> || std::is_same_v<D, Other>;
/// The first device among types, or NoDevice.
template <class... D> struct first_device {
  using type = NoDevice;
};
template <class D, class... Others>
struct first_device<D, Others...>
    : std::conditional_t<std::is_same_v<D, NoDevice>, first_device<Others...>,
                         std::type_identity<D>> {};

} // namespace detail

/// Hands each batch on to several branches: what tee() gives. The last stage of a pipeline.
template <class... Branches> class Tee : public StageBase {
  template <class B> using Traits = detail::branch_traits<B>;
  static constexpr std::size_t count = sizeof...(Branches);
  // The open branch is built last, since its loop drives the run; else the last one.
  static constexpr std::size_t last = [] {
    const bool open[]{Traits<Branches>::open...};
    for (std::size_t i = 0; i != count; ++i) {
      if (open[i]) {
        return i;
      }
    }
    return count - 1;
  }();
  using Last = Traits<std::tuple_element_t<last, std::tuple<Branches...>>>;

 public:
  /// Whether a stage in a branch was refused already, so that `|` says no more of it.
  static constexpr bool refused = (Traits<Branches>::refused || ...);
  /// Whether nothing follows it: yes.
  static constexpr bool forks = true;
  /// The device that its branches name.
  using device_type = typename detail::first_device<typename Traits<Branches>::device...>::type;
  /// Any batch.
  template <class Given>
  using takes = std::conditional_t<std::is_void_v<Given>, detail::Anything, Given>;
  /// What the branch of your loop gives; void if all branches end by themselves.
  template <class Given> using gives = typename Last::template gives<Given>;
  /// Returns whether a branch has stages that give pinned memory.
  template <class Given> static consteval bool pins() {
    return (Traits<Branches>::template pins<Given>() || ...);
  }

  /// For tee().
  explicit Tee(std::tuple<Branches...> branches) : branches_{std::move(branches)} {}

  /// For `|`: refuses branches whose stages do not fit behind Left.
  template <class Left> static constexpr void check() {
    constexpr bool keeps_batches = !detail::batch_of<typename detail::chain<Left>::gives>::device ||
                                   !(detail::changes_batches<Branches> || ...);
    static_assert(keeps_batches,
                  "penstock: this Kernel changes batches in place, and other branches of the tee "
                  "see them too: let it fill a batch of its own, or put it before the tee.");
    // Not called: where one does not compile, | says why.
    (static_cast<void>(&Branches::template follow<Left>), ...);
  }
  /// For prepare(). Throws OptionError if its branches name two.
  device_type* device() const {
    device_type* found = nullptr;
    each_branch([&](const auto& branch, auto) {
      each_stage(branch, [&](const auto& stage, auto) {
        if constexpr (std::is_same_v<typename std::remove_cvref_t<decltype(stage)>::device_type,
                                     device_type> &&
                      !std::is_same_v<device_type, detail::NoDevice>) {
          found = detail::same_device(found, stage.device());
        }
      });
    });
    return found;
  }
  /// For prepare().
  template <class Given> void plan(detail::Plan& plan) const {
    const detail::Plan before = plan;
    each_branch([&](const auto& branch, auto at) {
      detail::Plan its = before;
      each_stage(branch, [&](const auto& stage, auto number) {
        using Its = Traits<std::remove_cvref_t<decltype(branch)>>;
        stage.template plan<typename Its::template given_to<Given, number>>(its);
      });
      if (its.recounts != before.recounts) {
        detail::throw_error<OptionError>(
            {"penstock: tee: a Decoder in branch ", at + 1,
             " gives another number of records than it takes, so that branches would have no "
             "position in common: put it before the tee."});
      }
      plan.join(its, at == 0);
    });
  }
  /// For prepare().
  template <class Given, class D> [[gnu::cold]] void build(detail::Build<D>& build) const {
    if (build.facts.ahead || build.facts.flush) {
      throw OptionError{"penstock: tee: .ahead and .flush tell how long a record may take to one "
                        "last stage, and here are several: leave them out of the Reader."};
    }
    auto setup = build.setup("tee", 1, StageKind::tee);
    if constexpr (detail::batch_of<Given>::device) {
      auto* const step = new detail::ForkStep<D>{setup, *build.device, build.device_input(),
                                                 build.device_thread().bell(), count};
      build.add(step);
      build.device_thread().add(*step, nullptr);
      build_branches<Given>(build, [step](std::size_t i, detail::Build<D>& branch) {
        branch.branch(i, step->out(i));
        step->tell(i, branch.keep_numbers());
      });
    } else {
      if (build.facts.drop_last && build.facts.plan.fills_up) {
        throw OptionError{"penstock: tee: .drop_last leaves out the short batches of an "
                          "AsyncCopier, and each branch may have its own: put the AsyncCopier "
                          "before the tee, or leave out .drop_last."};
      }
      auto& node =
          build.template add<detail::ForkNode<D>>(setup, build.device, build.host_input(), count);
      build_branches<Given>(build, [&node](std::size_t i, detail::Build<D>& branch) {
        branch.branch(i, node.out(i));
      });
    }
  }

 private:
  template <class F> void each_branch(F f) const {
    [&]<std::size_t... At>(std::index_sequence<At...>) {
      (f(std::get<At>(branches_), std::integral_constant<std::size_t, At>{}), ...);
    }(std::index_sequence_for<Branches...>{});
  }
  template <class B, class F> static void each_stage(const B& branch, F f) {
    [&]<std::size_t... At>(std::index_sequence<At...>) {
      (f(std::get<At>(branch.stages()), std::integral_constant<std::size_t, At>{}), ...);
    }(std::make_index_sequence<Traits<B>::size>{});
  }

  // Builds all branches, each from where the chain forks; enter(i, branch) gives it its link.
  template <class Given, class D, class F>
  void build_branches(detail::Build<D>& build, F enter) const {
    const detail::Build<D> fork = build;
    each_branch([&](const auto& branch, auto at) {
      if constexpr (at != last) {
        detail::Build<D> its = fork;
        enter(at, its);
        build_one<Given>(branch, its);
      }
    });
    enter(last, build);
    build_one<Given>(std::get<last>(branches_), build);
  }
  template <class Given, class B, class D>
  static void build_one(const B& branch, detail::Build<D>& build) {
    each_stage(branch, [&](const auto& stage, auto number) {
      stage.template build<typename Traits<B>::template given_to<Given, number>>(build);
    });
  }

  std::tuple<Branches...> branches_;
};

/// Hands each batch on to several branches, `Reader{...} | ... | tee(a, b)`: in host memory or on
/// the device, behind any stage. Each branch is a stage, or stages joined by `|`, and takes every
/// batch, in order, at its own pace: one may be ahead of another by as many batches as the ring
/// before the tee has. Nothing is copied. A batch's place is filled again when all branches have
/// given it back.
///
/// A branch ends in a Consumer, a Writer, or a tee() of its own. One may be open: your loop takes
/// from it, as from any open pipeline. It is `to_loop` if it has no stages. Without one, run()
/// calls the callable of the last branch on its own thread, and other threads those of the others.
///
/// The first error, or a stop, ends all branches. Writers give their files their names when all
/// branches have come to the end. In the Report the stages of the second branch are "2/Kernel" and
/// so on, and its position is behind what all branches have used up; a lease's is that of its loop.
///
/// prepare() throws OptionError if the Reader has .ahead or .flush, if a Decoder in a branch gives
/// another number of records than it takes, and if .drop_last meets an AsyncCopier in a branch.
template <class... B> [[nodiscard]] auto tee(B... branches) {
  constexpr bool silent = (std::is_same_v<B, Refused> || ...);
  constexpr bool no_readers = silent || !(detail::chain<B>::starts || ...);
  constexpr bool all_stages = silent || !no_readers || (detail::branch_of_tee<B>::good && ...);
  constexpr bool several = silent || !no_readers || !all_stages || sizeof...(B) > 1;
  static_assert(no_readers, "penstock: a branch of a tee takes what comes to the tee, and this one "
                            "begins with a Reader: leave the Reader out of it.");
  static_assert(all_stages, "penstock: a branch of a tee is a stage, stages joined by |, or "
                            "ps::to_loop: wrap a callable in a Kernel or a Consumer.");
  static_assert(several, "penstock: a tee has at least two branches, and this one has not: leave "
                         "out the tee, or give it ps::to_loop for your own loop.");
  if constexpr (!silent && no_readers && all_stages && several) {
    using detail::branch_of_tee, detail::branch_traits;
    constexpr int loops = (branch_traits<typename branch_of_tee<B>::type>::open + ... + 0);
    constexpr bool one_loop = loops < 2;
    constexpr bool one_device =
        (detail::same_kind<typename branch_traits<typename branch_of_tee<B>::type>::device,
                           typename detail::first_device<typename branch_traits<
                               typename branch_of_tee<B>::type>::device...>::type> &&
         ...);
    static_assert(one_loop, "penstock: two branches of this tee do not end, and only one loop can "
                            "take from a pipeline: end all but one in a Consumer or a Writer.");
    static_assert(one_device, "penstock: one device a pipeline, and the branches of this tee name "
                              "two kinds: give all of them the same.");
    if constexpr (one_loop && one_device) {
      return Tee<typename branch_of_tee<B>::type...>{
          std::tuple{branch_of_tee<B>::from(std::move(branches))...}};
    } else {
      return Refused{};
    }
  } else {
    return Refused{};
  }
}

} // namespace penstock
