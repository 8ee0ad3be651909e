#include "gdfctl/run.h"

#include <algorithm>

#include "core/base/text.h"
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

// The first argument that is no flag where a command is expected; empty when that is one, or hidden behind a flag's value.
std::string UnknownCommand(const CLI::App& app, const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.front().empty() || arguments.front().front() == '-') return "";
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == arguments.front()) return "";
  }
  return arguments.front();
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
  AddGenerateCommand(app, chosen);
  AddKeyCommands(app, chosen);

  Session session(environment, globals);
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 takes them
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      app.exit(error, environment.out, environment.err);
      return kExitOk;
    }
    const std::string unknown = UnknownCommand(app, arguments);
    session.SayError((unknown.empty() ? std::string(error.what()) : "there is no command '" + unknown + "'") + "; see gdfctl --help");
    return kExitUsage;
  }
  absl::StatusOr<ExitCode> code = chosen(session);
  if (code.ok()) return *code;
  session.SayError(ToStd(code.status().message()));
  return ExitCodeOf(code.status().code());
}

}  // namespace gdf::ctl
