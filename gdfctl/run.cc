#include "gdfctl/run.h"

#include <algorithm>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/text.h"
#include "core/config/yaml_reader.h"
#include "gdfctl/command_tree.h"
#include "gdfctl/commands.h"

namespace gdf::ctl {
namespace {

constexpr char kDescription[] = "Trains models together over slow links: networks, nodes and jobs of GDF.";
constexpr char kFooter[] =
    "Exit codes: 0 ok, 1 job failed, 2 no connection or not allowed, 3 timeout, 4 usage or invalid input,\n"
    "5 internal error, 6 cannot be placed, 7 cancelled. More: docs/cli.md";

void AddGlobals(CLI::App& app, Globals& globals) {
  app.add_option("--socket", globals.socket, "Control socket of gdfd (default: $GDF_SOCKET, $XDG_RUNTIME_DIR/gdf/control.sock, "
                                             "/run/gdf/control.sock)")
      ->group("Connection");
  app.add_option("--remote", globals.remote, "HOST:PORT of a remote control API; needs --cert, --key and --ca")->group("Connection");
  app.add_option("--cert", globals.certificate, "PEM file of this client's certificate")->group("Connection");
  app.add_option("--key", globals.key, "PEM file of its key")->group("Connection");
  app.add_option("--ca", globals.ca, "PEM file of the daemon's certificate")->group("Connection");
  app.add_flag("--json", globals.json, "Data as JSON on standard output")->group("Output");
  app.add_flag("--no-color", globals.no_color, "No colours (also: NO_COLOR in the environment)")->group("Output");
  app.add_flag("-q,--quiet", globals.quiet, "Only data and errors")->group("Output");
}

// What to say of a command line that names no command where one is expected; empty when it names one.
std::string CommandProblem(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::App* at = &app;
  std::string path;  // "job "
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (!word.empty() && word.front() == '-') {
      i += TakesNextWord(FindOption(app, *at, word), word) ? 1 : 0;
      continue;
    }
    const std::vector<const CLI::App*> commands = CommandsOf(*at);
    if (commands.empty()) return "";
    const CLI::App* named = FindCommand(*at, word);
    if (named == nullptr) {
      std::vector<std::string> names;
      for (const CLI::App* command : commands) names.push_back(command->get_name());
      const std::vector<std::string_view> known(names.begin(), names.end());
      const std::string_view nearest = config::Nearest(word, known);
      return absl::StrCat("there is no command '", path, word, "'", nearest.empty() ? "" : "; did you mean '", nearest.empty() ? "" : path,
                          ToAbsl(nearest), nearest.empty() ? "" : "'?", "; see gdfctl ", path, "--help");
    }
    at = named;
    path += word + " ";
  }
  if (at->get_require_subcommand_min() == 0) return "";
  std::vector<std::string> names;
  for (const CLI::App* command : CommandsOf(*at)) names.push_back(command->get_name());
  return absl::StrCat("a command is missing: gdfctl ", path, "with one of ", absl::StrJoin(names, ", "));
}

// What CLI11 says, with the words that nothing takes in the order in which they were given.
std::string UsageProblem(const CLI::App& app, const CLI::ParseError& error) {
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr) return error.what();
  const std::vector<std::string> extra = app.remaining(/*recurse=*/true);
  return absl::StrCat(extra.size() == 1 ? "this was not expected: " : "these were not expected: ", absl::StrJoin(extra, " "));
}

// The code of a command that has done its work, unless what it printed went nowhere.
ExitCode EndOf(Session& session, ExitCode code) {
  const absl::Status written = session.output();
  if (written.ok()) return code;
  session.SayError(ToStd(written.message()));
  return code == kExitOk ? ExitCodeOf(written.code()) : code;
}

}  // namespace

int Run(const std::vector<std::string>& arguments, Environment& environment) {
  Globals globals;
  Command chosen;
  CLI::App app(kDescription, "gdfctl");
  app.footer(kFooter);
  app.fallthrough();
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("gdfctl ") + GDF_VERSION);
  AddGlobals(app, globals);
  AddNetworkCommands(app, chosen);
  AddNodeCommands(app, chosen);
  AddStatusCommand(app, chosen);
  AddSubmitCommands(app, chosen);
  AddJobCommands(app, chosen);
  AddCheckpointCommands(app, chosen);
  AddGenerateCommand(app, chosen);
  AddExplainCommand(app, chosen);
  AddPauseCommands(app, chosen);
  AddKeyCommands(app, chosen);
  AddCompletionCommands(app, globals, chosen);

  Session session(environment, globals);
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 takes them
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      std::ostringstream text;
      app.exit(error, text, text);
      session.Print(text.str());
      return EndOf(session, kExitOk);
    }
    const std::string problem = CommandProblem(app, arguments);
    session.SayError(problem.empty() ? UsageProblem(app, error) + "; see gdfctl --help" : problem);
    return kExitUsage;
  }
  absl::StatusOr<ExitCode> code = chosen(session);
  if (code.ok()) return EndOf(session, *code);
  session.SayError(ToStd(code.status().message()));
  return ExitCodeOf(code.status().code());
}

}  // namespace gdf::ctl
