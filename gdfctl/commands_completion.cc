// Completion of command lines: a script for each shell that asks `gdfctl complete` what may come next, and that command, which
// answers out of the same tree of commands that parses them. Ids of jobs, nodes and checkpoints come from the daemon.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/base/text.h"
#include "gdfctl/command_tree.h"
#include "gdfctl/commands.h"

namespace gdf::ctl {
namespace {

// Somebody waits with a finger on the key.
constexpr absl::Duration kTimeout = absl::Seconds(1);

constexpr char kBash[] = R"sh(# gdfctl's completion for bash: eval "$(gdfctl completion bash)", or this file in a completions folder.
_gdfctl() {
  local line IFS=$'\n'
  COMPREPLY=()
  for line in $("${COMP_WORDS[0]}" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2> /dev/null); do
    COMPREPLY+=("${line%%$'\t'*}")
  done
}
complete -o default -F _gdfctl gdfctl
)sh";

constexpr char kZsh[] = R"sh(#compdef gdfctl
# gdfctl's completion for zsh: eval "$(gdfctl completion zsh)", or this file as _gdfctl in a folder of $fpath.
_gdfctl() {
  local line
  local -a found
  for line in "${(@f)$("${words[1]}" complete -- "${(@)words[2,CURRENT]}" 2> /dev/null)}"; do
    [[ -n $line ]] && found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
  done
  if (( ${#found} )); then _describe gdfctl found; else _files; fi
}
if [[ $funcstack[1] == _gdfctl ]]; then _gdfctl "$@"; else compdef _gdfctl gdfctl; fi
)sh";

constexpr char kFish[] = R"sh(# gdfctl's completion for fish: gdfctl completion fish | source, or this file as completions/gdfctl.fish.
function __gdfctl_complete
  set -l words (commandline -opc)
  set -l program $words[1]
  set -e words[1]
  set -l found ($program complete -- $words (commandline -ct) 2> /dev/null)
  if test (count $found) -gt 0
    printf '%s\n' $found
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c gdfctl -f -a '(__gdfctl_complete)'
)sh";

constexpr char kPowerShell[] = R"sh(# gdfctl's completion for PowerShell: gdfctl completion powershell | Out-String | Invoke-Expression
Register-ArgumentCompleter -Native -CommandName gdfctl -ScriptBlock {
  param($current, $line, $cursor)
  $words = @($line.CommandElements | Select-Object -Skip 1 | ForEach-Object { $_.ToString() })
  if ($current -eq '') { $words += '""' }
  & $line.CommandElements[0].ToString() complete -- @words 2> $null | ForEach-Object {
    $value, $help = $_ -split "`t", 2
    [System.Management.Automation.CompletionResult]::new($value, $value, 'ParameterValue', $(if ($help) { $help } else { $value }))
  }
}
)sh";

const std::map<std::string, const char*>& Scripts() {
  static const auto* scripts = new std::map<std::string, const char*>{
      {"bash", kBash}, {"fish", kFish}, {"powershell", kPowerShell}, {"zsh", kZsh}};
  return *scripts;
}

struct Candidate {
  std::string word;
  std::string help;
};

// Its line: neither part has the end of a line in it, nor what parts the two.
std::string LineOf(const Candidate& candidate) {
  const auto plain = [](const std::string& text) { return absl::StrReplaceAll(Printable(text), {{"\n", " "}, {"\t", " "}}); };
  return absl::StrCat(plain(candidate.word), "\t", plain(candidate.help), "\n");
}

// Where the cursor is.
struct Place {
  const CLI::App* at = nullptr;
  std::vector<std::string> given;  // positional words of `at`
  bool in_value = false;           // of an option
  std::string current;             // the word that is being typed, perhaps empty
};

// An option of `root` takes effect on the way: it says which daemon is asked.
Place Walk(CLI::App& root, const std::vector<std::string>& words) {
  Place place{&root, {}, false, words.empty() ? "" : words.back()};
  bool options_over = false;
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (!options_over && word.size() > 1 && word[0] == '-') {
      options_over = word == "--";
      const CLI::Option* option = FindOption(root, *place.at, word);
      if (!TakesNextWord(option, word)) continue;
      if (++i + 1 == words.size()) {
        place.in_value = true;
      } else if (CLI::Option* own = root.get_option_no_throw(word); own == option) {
        own->clear();
        own->add_result(words[i]);
        own->run_callback();
      }
      continue;
    }
    const CLI::App* next = place.given.empty() ? FindCommand(*place.at, word) : nullptr;
    if (next != nullptr) {
      place.at = next;
    } else {
      place.given.push_back(word);
    }
  }
  return place;
}

std::vector<Candidate> Options(const CLI::App& app) {
  std::vector<Candidate> found;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    for (const std::string& name : option->get_lnames()) found.push_back({"--" + name, option->get_description()});
  }
  return found;
}

std::vector<Candidate> Commands(const CLI::App& app) {
  std::vector<Candidate> found;
  for (const CLI::App* command : CommandsOf(app)) found.push_back({command->get_name(), command->get_description()});
  return found;
}

std::vector<Candidate> Jobs(control::Client& client) {
  std::vector<Candidate> found;
  const absl::StatusOr<std::vector<control::Job>> jobs = client.ListJobs();
  if (!jobs.ok()) return found;
  for (const control::Job& job : *jobs) {
    found.push_back({job.id, absl::StrCat(job.name, ", ", control::ToString(job.phase))});
  }
  return found;
}

std::vector<Candidate> Nodes(control::Client& client) {
  std::vector<Candidate> found;
  const absl::StatusOr<std::vector<control::Node>> nodes = client.ListNodes();
  if (!nodes.ok()) return found;
  for (const control::Node& node : *nodes) found.push_back({node.name, node.id.substr(0, 12)});
  return found;
}

std::vector<Candidate> CheckpointsOf(control::Client& client, const std::string& job) {
  std::vector<Candidate> found;
  const absl::StatusOr<control::CheckpointList> list = client.ListCheckpoints(job);
  if (!list.ok()) return found;
  for (const control::Checkpoint& checkpoint : list->checkpoints) {
    found.push_back({absl::StrCat(checkpoint.round), absl::StrCat("after ", checkpoint.round, " rounds")});
  }
  return found;
}

// What the positional that comes next may be, by the name that its help shows.
std::vector<Candidate> Values(Session& session, const Place& place) {
  const std::vector<const CLI::Option*> positionals =
      place.at->get_options([](const CLI::Option* option) { return option->get_positional(); });
  if (place.given.size() >= positionals.size()) return {};
  const absl::StatusOr<control::Client*> client = session.client();
  if (!client.ok()) return {};
  const std::string name = positionals[place.given.size()]->get_name(/*positional=*/true);
  if (name == "JOB") return Jobs(**client);
  if (name == "NODE") return Nodes(**client);
  if (name == "N" && !place.given.empty()) return CheckpointsOf(**client, place.given[0]);
  if (name != "WHAT") return {};
  std::vector<Candidate> both = Jobs(**client);
  for (Candidate& node : Nodes(**client)) both.push_back(std::move(node));
  return both;
}

// Nothing where a file is expected, or anything: the shell offers files then.
std::vector<Candidate> Next(Session& session, const CLI::App& root, const Place& place) {
  if (place.in_value) return {};
  std::vector<Candidate> found;
  if (absl::StartsWith(place.current, "-")) {
    found = Options(*place.at);
    for (Candidate& option : Options(root)) {
      const auto same = [&](const Candidate& other) { return other.word == option.word; };
      if (absl::c_none_of(found, same)) found.push_back(std::move(option));
    }
  } else {
    found = Commands(*place.at);
    if (found.empty()) found = Values(session, place);
  }
  std::erase_if(found, [&](const Candidate& candidate) { return !absl::StartsWith(candidate.word, place.current); });
  return found;
}

}  // namespace

void AddCompletionCommands(CLI::App& app, Globals& globals, Command& chosen) {
  CLI::App* completion = app.add_subcommand("completion", "A script that completes command lines, for a shell to read");
  auto shell = std::make_shared<std::string>();
  std::vector<std::string> shells;
  for (const auto& [name, script] : Scripts()) shells.push_back(name);
  completion->add_option("SHELL", *shell, "bash, fish, powershell or zsh")->required()->check(CLI::IsMember(shells));
  completion->callback([&chosen, shell] {
    chosen = [shell](Session& s) -> absl::StatusOr<ExitCode> {
      s.Print(Scripts().at(*shell));
      return kExitOk;
    };
  });
  CLI::App* complete = app.add_subcommand("complete", "What may come next, for the scripts of `completion`")->group("");
  auto words = std::make_shared<std::vector<std::string>>();
  complete->add_option("WORDS", *words, "After --, the words behind gdfctl, the last of them up to the cursor");
  complete->callback([&app, &globals, &chosen, words] {
    chosen = [&app, &globals, words](Session& s) -> absl::StatusOr<ExitCode> {
      globals.timeout = kTimeout;
      const Place place = Walk(app, *words);
      std::string lines;
      for (const Candidate& candidate : Next(s, app, place)) lines += LineOf(candidate);
      s.Print(lines);
      return kExitOk;
    };
  });
}

}  // namespace gdf::ctl
