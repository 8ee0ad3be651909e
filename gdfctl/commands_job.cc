#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/config/units.h"
#include "gdfctl/commands.h"
#include "gdfctl/export.h"
#include "gdfctl/job_follower.h"
#include "gdfctl/job_view.h"
#include "gdfctl/job_wait.h"
#include "gdfctl/json_values.h"
#include "gdfctl/path_expansion.h"
#include "gdfctl/render/table.h"

namespace gdf::ctl {
namespace {

// "loss 2.1004, validation loss 2.0123" of the newest rounds that have them.
std::string Losses(const control::Job& job, const JobView& view) {
  return absl::StrCat(FormatLoss(job.last_round ? job.last_round->loss : std::nullopt), ", validation ",
                      FormatLoss(view.validation_loss()));
}

// "began 3 min ago, ended 1 min ago, took 2 min 3 s"; empty before it has begun.
std::string Times(const control::Job& job, absl::Time now) {
  if (job.started == absl::InfinitePast()) return "";
  const std::string began = absl::StrCat("began ", FormatAge(job.started, now));
  if (job.ended == absl::InfinitePast()) return began;
  return absl::StrCat(began, ", ended ", FormatAge(job.ended, now), ", took ", HumanDuration(job.ended - job.started));
}

std::string Nodes(const control::Job& job) {
  std::vector<std::string> names;
  for (size_t i = 0; i < job.members.size() && i < job.member_names.size(); ++i) {
    names.push_back(Printable(job.member_names[i]) + (job.members[i] == job.lead ? " (lead)" : ""));
  }
  return absl::StrJoin(names, ", ");
}

absl::StatusOr<ExitCode> List(Session& session) {
  GDF_ASSIGN_OR_RETURN(control::Client * client, session.client());
  GDF_ASSIGN_OR_RETURN(const std::vector<control::Job> jobs, client->ListJobs());
  if (session.json()) {
    session.PrintJson({{"jobs", ToJsonList(jobs)}});
    return kExitOk;
  }
  Table table{{{"JOB"}, {"NAME"}, {"PHASE"}, {"ROUNDS", true}, {"LOSS", true}, {"VALIDATION", true}, {"NODES", true}, {"SUBMITTED"}, {"REASON"}}, {}};
  for (const control::Job& job : jobs) {
    const std::optional<control::Round> last = job.last_round;
    table.rows.push_back({job.id, Printable(job.name), control::ToString(job.phase),
                          absl::StrCat(job.rounds_done, "/", job.rounds_total), FormatLoss(last ? last->loss : std::nullopt),
                          FormatLoss(last ? last->validation_loss : std::nullopt), absl::StrCat(job.members.size()),
                          FormatAge(job.submitted, session.Now()), Printable(job.reason)});
  }
  session.Print(RenderTable(table, session.out_style()));
  return kExitOk;
}

absl::StatusOr<ExitCode> Show(Session& session, const std::string& id) {
  GDF_ASSIGN_OR_RETURN(control::Client * client, session.client());
  GDF_ASSIGN_OR_RETURN(const control::Job job, client->GetJob(id));
  JobView view;
  const std::unique_ptr<control::JobWatch> watch = client->WatchJob({.job = id});
  while (const std::optional<control::JobUpdate> update = watch->Next()) view.Update(*update);
  GDF_RETURN_IF_ERROR(watch->Finish());
  view.Update({.job = job});
  if (session.json()) {
    Json rounds = Json::array();
    for (const auto& [number, round] : view.rounds()) rounds.push_back(ToJson(round));
    session.PrintJson({{"job", ToJson(job)}, {"rounds", rounds}});
    return kExitOk;
  }
  const Style style = session.out_style();
  std::vector<std::pair<std::string, std::string>> fields = {
      {"job", absl::StrCat(job.id, "  ", Printable(job.name))},
      {"phase", absl::StrCat(control::ToString(job.phase), job.reason.empty() ? "" : ": ", Printable(job.reason))},
      {"submitted", absl::StrCat(FormatAge(job.submitted, session.Now()), " by ", Printable(job.submitter_name))},
      {"rounds", absl::StrCat(job.rounds_done, " of ", job.rounds_total, ", ", job.steps_total, " steps on each node")},
      {"nodes", Nodes(job)},
      {"loss", Losses(job, view)},
      {"sent", absl::StrCat(HumanBytes(view.bytes_sent()), " by all nodes")}};
  if (const std::string progress = RenderLastProgress(job, session.Now()); !progress.empty()) {
    fields.insert(fields.begin() + 2, {"progress", progress});
  }
  if (const std::string times = Times(job, session.Now()); !times.empty()) {
    fields.insert(fields.begin() + 2, {"time", times});
  }
  session.Print(RenderFields(fields, style));
  session.Print(RenderLossCurve(view, style));
  return kExitOk;
}

// Prints updates as lines of a log; in JSON one object a line.
void PrintUpdate(Session& session, const control::JobUpdate& update) {
  if (session.json()) {
    if (update.round) session.PrintJson({{"type", "round"}, {"round", ToJson(*update.round)}});
    if (update.event) session.PrintJson({{"type", "event"}, {"event", ToJson(*update.event)}});
    if (update.finished) session.PrintJson({{"type", "finished"}, {"job", ToJson(*update.finished)}});
    return;
  }
  const absl::TimeZone zone = session.environment().zone;
  if (update.round) session.Print(absl::StrCat(FormatClock(update.round->at, zone), "  ", RenderRound(*update.round), "\n"));
  if (update.event) {
    const Style style = session.out_style();
    const control::Event& event = *update.event;
    const Color color = event.severity == "error" ? Color::kRed : event.severity == "warning" ? Color::kYellow : Color::kNone;
    session.Print(absl::StrCat(FormatClock(event.at, zone), "  ", Paint(style, color, Printable(event.severity)), "  ",
                               event.node_name.empty() ? "" : Printable(event.node_name) + "  ", Printable(event.text), "\n"));
  }
  if (update.finished) {
    session.Print(absl::StrCat(FormatClock(update.finished->ended, zone), "  ", control::ToString(update.finished->phase),
                               update.finished->reason.empty() ? "" : ": ", Printable(update.finished->reason), "\n"));
  }
}

absl::StatusOr<ExitCode> Logs(Session& session, const std::string& id, bool follow) {
  GDF_ASSIGN_OR_RETURN(control::Client * client, session.client());
  if (!follow) {
    const std::unique_ptr<control::JobWatch> watch = client->WatchJob({.job = id});
    while (const std::optional<control::JobUpdate> update = watch->Next()) {
      PrintUpdate(session, *update);
      GDF_RETURN_IF_ERROR(session.output());
    }
    GDF_RETURN_IF_ERROR(watch->Finish());
    return kExitOk;
  }
  JobFollower follower(*client, id);
  while (true) {
    const JobFollower::Item item = follower.Next(absl::InfiniteDuration());
    if (item.reconnecting) session.Say("gdfd went away; waiting for it to come back");
    if (item.update) PrintUpdate(session, *item.update);
    GDF_RETURN_IF_ERROR(session.output());
    if (item.end && !item.end->ok()) return *item.end;
    if (item.end) return kExitOk;
  }
}

absl::StatusOr<ExitCode> Wait(Session& session, const std::string& id, const std::string& timeout) {
  absl::Duration limit = absl::InfiniteDuration();
  if (!timeout.empty()) {
    absl::StatusOr<absl::Duration> parsed = config::ParseDuration(timeout);
    if (!parsed.ok()) return absl::InvalidArgumentError(absl::StrCat("--timeout: ", parsed.status().message()));
    limit = *parsed;
  }
  return WaitForJob(session, id, limit);
}

absl::StatusOr<ExitCode> Cancel(Session& session, const std::string& id) {
  GDF_ASSIGN_OR_RETURN(control::Client * client, session.client());
  GDF_RETURN_IF_ERROR(client->CancelJob(id));
  session.Say(id + " is being cancelled");
  return kExitOk;
}

}  // namespace

void AddJobCommands(CLI::App& app, Command& chosen) {
  CLI::App* group = app.add_subcommand("job", "The network's jobs");
  group->require_subcommand(1);
  auto id = std::make_shared<std::string>();
  const auto add = [&](const char* name, const char* what) {
    CLI::App* command = group->add_subcommand(name, what);
    command->add_option("JOB", *id, "Such as j17")->required();
    return command;
  };
  group->add_subcommand("list", "All of them")->callback([&chosen] { chosen = List; });
  add("show", "One of them, with its loss curve")->callback([&chosen, id] {
    chosen = [id](Session& s) { return Show(s, *id); };
  });
  CLI::App* logs = add("logs", "Rounds and events so far");
  auto follow = std::make_shared<bool>(false);
  logs->add_flag("-f,--follow", *follow, "Go on until the job ends, across restarts of gdfd");
  logs->callback([&chosen, id, follow] { chosen = [id, follow](Session& s) { return Logs(s, *id, *follow); }; });
  CLI::App* wait = add("wait", "Show progress until the job ends; exit by its verdict");
  auto timeout = std::make_shared<std::string>();
  wait->add_option("--timeout", *timeout, "Longest time to wait, such as 30m");
  wait->callback([&chosen, id, timeout] { chosen = [id, timeout](Session& s) { return Wait(s, *id, *timeout); }; });
  add("cancel", "End it")->callback([&chosen, id] { chosen = [id](Session& s) { return Cancel(s, *id); }; });
  CLI::App* exported = add("export", "Write its newest parameters as a Hugging Face folder");
  auto folder = std::make_shared<std::string>();
  auto force = std::make_shared<bool>(false);
  exported->add_option("DIR", *folder, "Made when it is not there")->required();
  exported->add_flag("--force", *force, "Into a folder that is not empty");
  exported->callback([&chosen, id, folder, force] { chosen = [=](Session& s) { return ExportTo(s, *id, 0, *folder, *force); }; });
}

}  // namespace gdf::ctl
