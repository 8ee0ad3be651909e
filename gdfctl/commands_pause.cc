#include <memory>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/config/units.h"
#include "gdfctl/commands.h"
#include "gdfctl/json_values.h"

namespace gdf::ctl {
namespace {

constexpr absl::Duration kAskEvery = absl::Milliseconds(200);

struct PauseOptions {
  std::string time;  // empty: until it is resumed
  bool now = false;
  bool wait = false;  // until nothing runs here
};

absl::StatusOr<ExitCode> Pause(Session& session, const PauseOptions& options) {
  absl::Duration time;
  if (!options.time.empty()) {
    const absl::StatusOr<absl::Duration> parsed = config::ParseDuration(options.time);
    GDF_RETURN_IF_ERROR(Annotate(parsed.status(), "the time to pause"));
    if (*parsed < absl::Seconds(1)) return absl::InvalidArgumentError("the time to pause: at least 1s");
    time = *parsed;
  }
  GDF_ASSIGN_OR_RETURN(control::Client * client, session.client());
  GDF_ASSIGN_OR_RETURN(const uint32_t running, client->Pause(time, options.now));
  GDF_ASSIGN_OR_RETURN(control::NodeStatus status, client->Status());
  const std::string until = time == absl::ZeroDuration() ? "until gdfctl resume" : absl::StrCat("for ", HumanDuration(time));
  session.Say(absl::StrCat("this node takes no work ", until, running == 0 ? "" : options.now ? "; what ran here is stopped"
                                                                   : "; what runs here goes on until its round has ended"));
  while (options.wait && status.running_here > 0) {
    if (!session.environment().wait(kAskEvery)) return absl::CancelledError("what reads this program's output has gone");
    GDF_ASSIGN_OR_RETURN(status, client->Status());
    if (!status.paused) return absl::CancelledError("the pause was ended meanwhile");
  }
  if (options.wait) session.Say("nothing runs here");
  if (session.json()) session.PrintJson(ToJson(status));
  return kExitOk;
}

absl::StatusOr<ExitCode> Resume(Session& session) {
  GDF_ASSIGN_OR_RETURN(control::Client * client, session.client());
  GDF_RETURN_IF_ERROR(client->Resume());
  session.Say("this node takes work");
  if (session.json()) {
    GDF_ASSIGN_OR_RETURN(const control::NodeStatus status, client->Status());
    session.PrintJson(ToJson(status));
  }
  return kExitOk;
}

}  // namespace

void AddPauseCommands(CLI::App& app, Command& chosen) {
  auto options = std::make_shared<PauseOptions>();
  CLI::App* pause = app.add_subcommand("pause", "This node takes no work, and hands over what runs when its round has ended");
  pause->add_option("TIME", options->time, "For so long, such as 2h (default: until resume)");
  pause->add_flag("--now", options->now, "Stop what runs at once: its round goes on without this node");
  pause->callback([&chosen, options] { chosen = [options](Session& s) { return Pause(s, *options); }; });
  CLI::App* drain = app.add_subcommand("drain", "As pause, and wait until nothing runs here");
  drain->callback([&chosen, options] {
    options->wait = true;
    chosen = [options](Session& s) { return Pause(s, *options); };
  });
  app.add_subcommand("resume", "This node takes work again")->callback([&chosen] { chosen = Resume; });
}

}  // namespace gdf::ctl
