// What `gdfctl complete` answers, and that bash understands what it is given to ask with.
#include <catch2/catch.hpp>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/support/fake_gdfd.h"
#include "tests/unit/gdfctl/run_command.h"

namespace gdf::ctl {
namespace {

using testing::FakeGdfd;
namespace v1 = control::v1;

// The words that may come where `line`, split at blanks, ends.
std::vector<std::string> After(const std::string& line) {
  std::vector<std::string> arguments = {"complete", "--"};
  for (const absl::string_view word : absl::StrSplit(line, ' ')) arguments.emplace_back(word);
  const Outcome outcome = RunWith(arguments);
  CHECK(outcome.code == 0);
  std::vector<std::string> words;
  for (const absl::string_view candidate : absl::StrSplit(outcome.out, '\n', absl::SkipEmpty())) {
    words.emplace_back(candidate.substr(0, candidate.find('\t')));
  }
  return words;
}

using Words = std::vector<std::string>;

TEST_CASE("Commands and options complete as far as they are typed, without a daemon") {
  CHECK(After("jo") == Words{"join", "job"});
  CHECK(After("job l") == Words{"list", "logs"});
  CHECK(After("compl") == Words{"completion"});  // and not what the scripts ask
  CHECK(After("job logs --fo") == Words{"--follow"});
  CHECK(After("job logs --he") == Words{"--help"});
  CHECK(After("--json job wa") == Words{"wait"});
  CHECK(After("--sock") == Words{"--socket"});
  CHECK(After("no-such-command x").empty());
  // Files, where one is expected.
  CHECK(After("--socket /run/g").empty());
  CHECK(After("submit job").empty());
}

TEST_CASE("Jobs, nodes and checkpoints complete by what the daemon has") {
  FakeGdfd gdfd;
  for (const char* id : {"j1", "j12", "j3"}) {
    v1::Job* job = gdfd.jobs_reply.add_jobs();
    job->set_id(id);
    job->set_name("a \x1b[31mname\nof two lines");
  }
  for (const char* name : {"attic", "garage"}) gdfd.nodes_reply.add_nodes()->set_name(name);
  const std::string with = absl::StrCat("--socket ", gdfd.socket(), " ");
  CHECK(After(with + "job logs ") == Words{"j1", "j12", "j3"});
  CHECK(After(with + "job logs j1") == Words{"j1", "j12"});
  CHECK(After(with + "job logs -f j3") == Words{"j3"});
  CHECK(After(with + "job logs j1 ").empty());
  CHECK(After(with + "node show g") == Words{"garage"});
  CHECK(After(with + "explain ") == Words{"j1", "j12", "j3", "attic", "garage"});
  // Whichever way the daemon is named.
  CHECK(After(absl::StrCat("job show --socket ", gdfd.socket(), " j3")) == Words{"j3"});
  gdfd.error = grpc::Status(grpc::StatusCode::INTERNAL, "no");
  CHECK(After(with + "job logs ").empty());
  gdfd.Stop();
  CHECK(After(with + "job logs ").empty());
}

TEST_CASE("There is a script for each shell, and no other") {
  for (const std::string shell : {"bash", "fish", "powershell", "zsh"}) {
    const Outcome outcome = RunWith({"completion", shell});
    CHECK(outcome.code == 0);
    CHECK(outcome.out.find(" complete -- ") != std::string::npos);
  }
  CHECK(RunWith({"completion", "csh"}).code == 4);
}

TEST_CASE("bash completes by the script") {
  testing::TemporaryFolder folder;
  PosixFileSystem files;
  REQUIRE(files.WriteAtomic(folder.path() + "/gdfctl.bash", RunWith({"completion", "bash"}).out).ok());
  // A gdfctl that gives back what it is asked.
  const std::string program =
      "gdfctl() { printf '%s\\tof help\\n' \"$1\" \"$2\" \"${@:3}\" 'two words'; }\n"
      "source '" + folder.path() + "/gdfctl.bash'\n"
      "COMP_WORDS=(gdfctl job 'logs' '' after) COMP_CWORD=3\n_gdfctl\nprintf '[%s]' \"${COMPREPLY[@]}\"\n";
  REQUIRE(files.WriteAtomic(folder.path() + "/try.bash", program).ok());
  FILE* pipe = popen(("bash '" + folder.path() + "/try.bash' 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  char text[512] = "";
  const size_t read = fread(text, 1, sizeof(text) - 1, pipe);
  CHECK(pclose(pipe) == 0);
  CHECK(std::string(text, read) == "[complete][--][job][logs][][two words]");
}

}  // namespace
}  // namespace gdf::ctl
