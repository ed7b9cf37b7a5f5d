// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <penstock/detail/base/text.hpp>
#include <penstock/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

namespace penstock::detail {

/// By which right requests are signed. No error shows any of it.
struct AwsCredentials {
  std::string key_id;
  std::string secret;
  std::string token; // of a session; perhaps empty
  bool operator==(const AwsCredentials&) const = default;
};

inline std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

/// A file of sections and "name = value" lines, as AWS's tools keep.
class AwsFile {
 public:
  /// A file that is not there has nothing. Throws OptionError for one that has too much.
  explicit AwsFile(std::string path) : path_{std::move(path)} {
    constexpr std::size_t most = std::size_t{1} << 20;
    std::ifstream in{path_, std::ios::binary};
    text_.resize(most + 1);
    in.read(text_.data(), static_cast<std::streamsize>(text_.size()));
    text_.resize(in.is_open() ? static_cast<std::size_t>(in.gcount()) : 0);
    if (text_.size() > most) {
      throw_error<OptionError>({"penstock: S3Io: ", path_, " has more than ", most,
                                " bytes: it is no file of AWS's settings."});
    }
  }
  const std::string& path() const noexcept { return path_; }

  /// Returns a value of a section: the last, or an empty one.
  std::string value(std::string_view section, std::string_view name) const {
    bool inside = false;
    std::string found;
    for (std::string_view rest = text_; !rest.empty();) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      const std::string_view line = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      const std::string_view words = trimmed(line);
      if (words.empty() || words.front() == '#' || words.front() == ';') {
        continue;
      }
      if (words.front() == '[') {
        inside = words.back() == ']' && trimmed(words.substr(1, words.size() - 2)) == section;
        continue;
      }
      const std::size_t equals = words.find('=');
      // An indented line belongs to the setting above it.
      const bool indented = line.front() == ' ' || line.front() == '\t';
      if (inside && !indented && equals != std::string_view::npos &&
          trimmed(words.substr(0, equals)) == name) {
        found = trimmed(words.substr(equals + 1));
      }
    }
    return found;
  }

 private:
  static std::string_view trimmed(std::string_view text) {
    constexpr std::string_view spaces = " \t\r";
    text.remove_prefix(std::min(text.find_first_not_of(spaces), text.size()));
    text.remove_suffix(text.size() - (text.find_last_not_of(spaces) + 1));
    return text;
  }

  std::string path_;
  std::string text_;
};

/// Where AWS's tools look for credentials, region and endpoint: the environment first, then their
/// two files.
class AwsSettings {
 public:
  /// `profile` is that of AWS_PROFILE if it is empty; then the environment's credentials count
  /// first.
  explicit AwsSettings(const std::string& profile)
      : from_environment_{profile.empty()},
        profile_{first_of({profile, environment("AWS_PROFILE"), "default"})},
        credentials_path_{
            first_of({environment("AWS_SHARED_CREDENTIALS_FILE"), home("/.aws/credentials")})},
        config_path_{first_of({environment("AWS_CONFIG_FILE"), home("/.aws/config")})} {}

  /// Returns those of the environment, or of the file as it is now. Throws OptionError if there are
  /// none.
  AwsCredentials credentials() const {
    AwsCredentials found;
    if (from_environment_) {
      found = {environment("AWS_ACCESS_KEY_ID"), environment("AWS_SECRET_ACCESS_KEY"),
               environment("AWS_SESSION_TOKEN")};
    }
    if (found.key_id.empty() && found.secret.empty()) {
      const AwsFile file{credentials_path_};
      found = {file.value(profile_, "aws_access_key_id"),
               file.value(profile_, "aws_secret_access_key"),
               file.value(profile_, "aws_session_token")};
    }
    if (found.key_id.empty() || found.secret.empty()) {
      throw_error<OptionError>(
          {"penstock: S3Io: there are no credentials in the environment, nor for profile [",
           profile_, "] in ", credentials_path_.empty() ? "~/.aws/credentials" : credentials_path_,
           ": set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or .sign = false "
           "for what all may read."});
    }
    for (const std::string* const word : {&found.key_id, &found.secret, &found.token}) {
      if (std::any_of(word->begin(), word->end(), [](char c) { return c <= ' ' || c > '~'; })) {
        throw_error<OptionError>({"penstock: S3Io: the credentials have a character that none "
                                  "has, such as a space: copy them anew."});
      }
    }
    return found;
  }
  /// Returns whether credentials() reads a file, which another program may write anew.
  bool reads_file() const { return !from_environment_ || environment("AWS_ACCESS_KEY_ID").empty(); }
  std::string region() const {
    return first_of({environment("AWS_REGION"), environment("AWS_DEFAULT_REGION"),
                     configured("region"), "us-east-1"});
  }
  std::string endpoint() const {
    return first_of({environment("AWS_ENDPOINT_URL_S3"), environment("AWS_ENDPOINT_URL"),
                     configured("endpoint_url")});
  }

 private:
  static std::string first_of(std::initializer_list<std::string> texts) {
    const auto at =
        std::find_if(texts.begin(), texts.end(), [](const auto& text) { return !text.empty(); });
    return at == texts.end() ? std::string{} : *at;
  }
  static std::string home(const char* file) {
    const std::string folder = environment("HOME");
    return folder.empty() ? "" : folder + file;
  }
  std::string configured(std::string_view name) const {
    return AwsFile{config_path_}.value(
        profile_ == "default" ? profile_ : joined({"profile ", profile_}), name);
  }

  bool from_environment_;
  std::string profile_;
  std::string credentials_path_;
  std::string config_path_;
};

} // namespace penstock::detail
