// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <functional>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace transformer {

/// What a number may be.
template <class N> struct Range {
  N least;
  N most;
};

/// The options of a program: you name each one with the variable that takes its value, and then
/// parse. A value follows its option, `--steps 100`, or is part of it, `--steps=100`, as it must be
/// if it reads like an option. Of an option that stands twice the last one counts. Variables must
/// outlive it; numbers are whole or not, or optional ones.
class CommandLine {
 public:
  /// `purpose` is the usage's first line.
  CommandLine(std::string program, std::string purpose)
      : program_{std::move(program)}, purpose_{std::move(purpose)} {}

  /// An option without a value, which sets `to`.
  void flag(std::string name, bool& to, std::string help) {
    options_.push_back({std::move(name), {}, std::move(help), [&to](const auto&, std::string_view) {
                          to = true;
                        }});
  }
  /// An option whose value is any text but an empty one: a `what`, such as "FILE".
  void text(std::string name, std::string& to, std::string what, std::string help) {
    options_.push_back({name, std::move(what), std::move(help),
                        [&to, name](const CommandLine& line, std::string_view value) {
                          if (value.empty()) {
                            line.fail(name + " has nothing behind it");
                          }
                          to = value;
                        }});
  }
  /// An option whose value is one of several words.
  void choice(std::string name, std::string& to, const std::vector<std::string>& words,
              std::string help) {
    std::string what;
    for (const std::string& word : words) {
      what += (what.empty() ? "" : "|") + word;
    }
    options_.push_back(
        {name, what, std::move(help), [=, &to](const CommandLine& line, std::string_view value) {
           if (std::ranges::find(words, value) == words.end()) {
             line.fail(name + " is \"" + std::string{value} + "\": give " + what);
           }
           to = value;
         }});
  }
  /// An option whose value is a number in a range, both ends of which may be.
  template <class To> void number(std::string name, To& to, auto range, std::string help) {
    using N = Number<To>;
    const Range<N> within{static_cast<N>(range.least), static_cast<N>(range.most)};
    options_.push_back({name, std::integral<N> ? "N" : "X", std::move(help),
                        [name, &to, within](const CommandLine& line, std::string_view value) {
                          to = line.number_in<N>(name, value, within);
                        }});
  }

  /// Takes the arguments behind the program's name. Returns false if they ask for help, which is
  /// then all that counts. Throws std::invalid_argument, whose text is one line, for an option that
  /// is none and for a value that cannot be.
  bool parse(int argc, char** argv) {
    const std::vector<std::string_view> arguments(argv + std::min(argc, 1), argv + argc);
    if (std::ranges::find(arguments, "--help") != arguments.end()) {
      return false;
    }
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const std::string_view argument = arguments[i];
      const std::size_t equals = argument.find('=');
      const Option* const option = named(argument);
      if (option == nullptr) {
        fail("there is no option \"" + std::string{argument.substr(0, equals)} + '"');
      }
      given_.push_back(option->name);
      if (option->what.empty()) {
        if (equals != argument.npos) {
          fail(option->name + " takes no value");
        }
        option->take(*this, "");
      } else if (equals != argument.npos) {
        option->take(*this, argument.substr(equals + 1));
      } else if (++i == arguments.size() || named(arguments[i]) != nullptr) {
        fail(option->name + " has nothing behind it");
      } else {
        option->take(*this, arguments[i]);
      }
    }
    return true;
  }

  /// Returns the names of the options that parse() has found.
  const std::vector<std::string>& given() const noexcept { return given_; }

  /// Throws std::invalid_argument with this text, and a word on where to find help.
  [[noreturn]] void fail(const std::string& what) const {
    throw std::invalid_argument{what + ": see " + program_ + " --help"};
  }

  /// Returns a line for each option.
  std::string usage() const {
    std::ostringstream text;
    text << purpose_ << "\n\n";
    std::size_t longest = 0;
    for (const Option& option : options_) {
      longest = std::max(longest, option.shown().size());
    }
    for (const Option& option : options_) {
      const std::string shown = option.shown();
      text << "  " << shown << std::string(longest + 2 - shown.size(), ' ') << option.help << '\n';
    }
    return text.str();
  }

 private:
  struct Option {
    std::string name;
    std::string what; // empty if it takes no value
    std::string help;
    std::function<void(const CommandLine&, std::string_view)> take;

    std::string shown() const { return what.empty() ? name : name + ' ' + what; }
  };

  /// Returns the option that an argument names, before any "="; null if none.
  const Option* named(std::string_view argument) const {
    const auto option =
        std::ranges::find(options_, argument.substr(0, argument.find('=')), &Option::name);
    return option != options_.end() ? &*option : nullptr;
  }

  template <class To> struct NumberOf {
    using type = To;
  };
  template <class N> struct NumberOf<std::optional<N>> {
    using type = N;
  };
  template <class To> using Number = typename NumberOf<To>::type;

  template <class N>
  N number_in(const std::string& name, std::string_view text, Range<N> range) const {
    N number{};
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc{} || rest != end || !(range.least <= number && number <= range.most)) {
      std::ostringstream bounds; // as a person writes them: 0.9, not 0.899999976
      bounds << name << " is \"" << text << "\": give a " << (std::integral<N> ? "whole " : "")
             << "number from " << range.least << " to " << range.most;
      fail(bounds.str());
    }
    return number;
  }

  std::string program_;
  std::string purpose_;
  std::vector<Option> options_;
  std::vector<std::string> given_;
};

} // namespace transformer
