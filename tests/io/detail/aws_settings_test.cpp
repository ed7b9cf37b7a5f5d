// SPDX-FileCopyrightText: The penstock authors
// SPDX-License-Identifier: Apache-2.0

// Credentials, region and endpoint come from where AWS's tools have them, and stand in no error.

#include "support/catch.hpp"
#include "support/caught.hpp"
#include "support/temp_dir.hpp"

#include <penstock/error.hpp>
#include <penstock/io/detail/aws_settings.hpp>

#include <cstdlib>
#include <string>

namespace {

namespace ps = penstock;
namespace tests = penstock::tests;
using namespace penstock::detail;

/// The environment without AWS's variables, but for two files.
struct Environment {
  explicit Environment(const tests::TempDir& dir) {
    for (const char* const name :
         {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE",
          "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"}) {
      ::unsetenv(name);
    }
    set("AWS_SHARED_CREDENTIALS_FILE", dir / "credentials");
    set("AWS_CONFIG_FILE", dir / "config");
  }
  static void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }
};

} // namespace

TEST_CASE("the environment counts first, then the file's profile") {
  const tests::TempDir dir;
  const Environment environment{dir};
  dir.write("credentials", std::string{"# mine\r\n[default]\r\naws_access_key_id = A1\r\n"
                                       "aws_secret_access_key=s/=1\n\n[ work ]\n"
                                       "aws_access_key_id=A2\naws_secret_access_key = s2\n"
                                       "aws_session_token = t2==\n  aws_access_key_id = nested\n"});
  dir.write("config",
            std::string{"[default]\nregion = eu-north-1\ns3 =\n  region = nested\n"
                        "[profile work]\nregion=auto\nendpoint_url = https://r2.example\n"});
  REQUIRE(AwsSettings{""}.credentials() == AwsCredentials{"A1", "s/=1", ""});
  REQUIRE(AwsSettings{""}.region() == "eu-north-1");
  REQUIRE(AwsSettings{""}.endpoint().empty());
  REQUIRE(AwsSettings{"work"}.credentials() == AwsCredentials{"A2", "s2", "t2=="});
  REQUIRE(AwsSettings{"work"}.region() == "auto");
  REQUIRE(AwsSettings{"work"}.endpoint() == "https://r2.example");
  Environment::set("AWS_PROFILE", "work");
  REQUIRE(AwsSettings{""}.credentials().key_id == "A2");
  REQUIRE(AwsSettings{""}.reads_file());
  Environment::set("AWS_ACCESS_KEY_ID", "E");
  Environment::set("AWS_SECRET_ACCESS_KEY", "e");
  Environment::set("AWS_SESSION_TOKEN", "t");
  Environment::set("AWS_REGION", "us-west-2");
  Environment::set("AWS_ENDPOINT_URL", "http://localhost:9000");
  REQUIRE(AwsSettings{""}.credentials() == AwsCredentials{"E", "e", "t"});
  REQUIRE(!AwsSettings{""}.reads_file());
  REQUIRE(AwsSettings{""}.region() == "us-west-2");
  REQUIRE(AwsSettings{""}.endpoint() == "http://localhost:9000");
  REQUIRE(AwsSettings{"work"}.credentials().key_id == "A2");
}

TEST_CASE("what is missing or wrong is told without a secret") {
  const tests::TempDir dir;
  const Environment environment{dir};
  const auto refused = [](const char* profile) {
    return tests::caught<ps::OptionError>([&] { AwsSettings{profile}.credentials(); });
  };
  REQUIRE(tests::has(refused(""), "nor for profile [default] in " + dir.path()));
  REQUIRE(AwsSettings{""}.region() == "us-east-1");
  dir.write("credentials", std::string{"[default]\naws_access_key_id = AK\n"
                                       "[bad]\naws_access_key_id = AK\n"
                                       "aws_secret_access_key = hush hush\n"});
  REQUIRE(tests::has(refused(""), "there are no credentials"));
  const ps::OptionError bad = refused("bad");
  REQUIRE(tests::has(bad, "a character that none has"));
  REQUIRE(std::string{bad.what()}.find("hush") == std::string::npos);
  dir.write("credentials", std::string((1 << 20) + 1, 'x'));
  REQUIRE(tests::has(refused(""), "has more than 1048576 bytes"));
}
