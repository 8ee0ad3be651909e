// The commands of gdfctl by group. Each function adds its subcommands to `app`; parsing a command line that names one
// puts it into `chosen`, to be run afterwards.
#ifndef GDF_GDFCTL_COMMANDS_H_
#define GDF_GDFCTL_COMMANDS_H_

#include <functional>

#include <CLI/CLI.hpp>

#include "absl/status/statusor.h"
#include "gdfctl/session.h"

namespace gdf::ctl {

using Command = std::function<absl::StatusOr<ExitCode>(Session&)>;

void AddNetworkCommands(CLI::App& app, Command& chosen);  // network create, invite, join, leave
void AddNodeCommands(CLI::App& app, Command& chosen);     // node list, show, remove, ban, unban, role; coordinator; ping
void AddStatusCommand(CLI::App& app, Command& chosen);    // status
void AddSubmitCommands(CLI::App& app, Command& chosen);   // submit, validate, plan
void AddJobCommands(CLI::App& app, Command& chosen);      // job list, show, logs, wait, cancel, export
void AddExplainCommand(CLI::App& app, Command& chosen);   // explain
void AddCheckpointCommands(CLI::App& app, Command& chosen);  // checkpoint list, show, verify, remove, rollback, export
void AddGenerateCommand(CLI::App& app, Command& chosen);  // generate
void AddPauseCommands(CLI::App& app, Command& chosen);    // pause, drain, resume
void AddKeyCommands(CLI::App& app, Command& chosen);      // key rotate, backup
// completion, complete; `globals`: what the options of `app` are read into.
void AddCompletionCommands(CLI::App& app, Globals& globals, Command& chosen);

}  // namespace gdf::ctl

#endif  // GDF_GDFCTL_COMMANDS_H_
