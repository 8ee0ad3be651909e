#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "gdfctl/commands.h"
#include "gdfctl/job_view.h"
#include "gdfctl/json_values.h"
#include "gdfctl/live_area.h"
#include "gdfctl/render/bar.h"
#include "gdfctl/render/table.h"

namespace gdf::ctl {
namespace {

constexpr absl::Duration kRedrawEvery = absl::Seconds(1);

std::string Role(const control::NodeStatus& status, const Style& style) {
  if (status.coordinators <= 1) return status.coordinator ? "coordinator" : "connected to a coordinator";
  std::string role = status.coordinator ? absl::StrCat("one of ", status.coordinators, " coordinators")
                                        : absl::StrCat("connected to one of ", status.coordinators, " coordinators");
  if (status.leader.empty()) {
    const std::string since = status.coordinator ? absl::StrCat(" for ", HumanDuration(status.leaderless)) : "";
    return absl::StrCat(role, " (", Paint(style, Color::kRed, "none leads" + since), ", and nothing is decided)");
  }
  const bool itself = status.coordinator && status.leader == status.node_name;
  return absl::StrCat(role, itself ? " (leads)" : absl::StrCat(" (", Printable(status.leader), " leads)"));
}

std::string NetworkLine(const control::NodeStatus& status, const Style& style) {
  if (status.network_id.empty()) return "none; gdfctl network create NAME, or gdfctl join gdf1:…";
  const std::string name = Printable(status.network_name);
  if (!status.coordinator && !status.coordinator_connected) {
    return absl::StrCat(name, "  ", Paint(style, Color::kRed, "not connected to a coordinator"),
                        "; which nodes are online is not known here");
  }
  return absl::StrCat(name, "  ", Role(status, style), ", ", status.members_online, " of ", status.members,
                      " nodes online");
}

std::string JobLine(const control::Job& job, absl::Time now, const Style& style) {
  const double share = job.rounds_total > 0 ? static_cast<double>(job.rounds_done) / static_cast<double>(job.rounds_total) : 0;
  std::string line = absl::StrCat(job.id, " ", Printable(job.name), "  ", RenderBar(share, 20, style), "  round ",
                                  job.rounds_done, "/", job.rounds_total);
  if (job.last_round) {
    absl::StrAppend(&line, "  loss ", FormatLoss(job.last_round->loss), "  ", HumanCount(job.last_round->tokens_per_sec),
                    " tokens/s");
  }
  absl::StrAppend(&line, "  ", RenderLastProgress(job, now));
  if (!job.reason.empty()) absl::StrAppend(&line, "  ", Printable(job.reason));
  return line;
}

std::string Render(const control::NodeStatus& status, absl::Time now, const Style& style) {
  std::vector<std::pair<std::string, std::string>> fields = {
      {"node", absl::StrCat(Printable(status.node_name), "  ", status.node_id.substr(0, 12),
                            status.roles.empty() ? "" : "  " + status.roles)},
      {"network", NetworkLine(status, style)},
      {"listens on", absl::StrJoin(status.listen, ", ")},
      {"known as", absl::StrJoin(status.advertise, ", ")},
      {"cache", absl::StrCat(HumanBytes(status.chunk_bytes), " of ", HumanBytes(status.chunk_cap_bytes))},
      {"sandbox", status.sandbox.empty() ? "not tried yet: the first job here does" : absl::StrJoin(status.sandbox, ", ")},
      {"gdfd", absl::StrCat(status.version, ", started ", FormatAge(status.started, now))},
      {"jobs", absl::StrCat(status.jobs_running, " running, ", status.jobs_pending, " waiting")}};
  if (status.paused) {
    const bool resumes = status.paused_until != absl::InfinitePast();
    fields.emplace_back("paused", absl::StrCat(resumes ? "until " + UtcText(status.paused_until) : "until gdfctl resume",
                                               status.running_here > 0 ? ", once the round has ended" : ": takes no work"));
  }
  for (const control::Gpu& gpu : status.gpus) {
    fields.emplace_back("GPU", absl::StrCat(Printable(gpu.name), "  ", HumanBytes(gpu.memory_bytes)));
  }
  for (const control::Job& job : status.running) fields.emplace_back("", JobLine(job, now, style));
  for (const std::string& warning : status.warnings) {
    fields.emplace_back("warning", Paint(style, Color::kYellow, Printable(warning)));
  }
  return RenderFields(fields, style);
}

std::vector<std::string> Lines(const std::string& text, const Style& style) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    lines.push_back(Truncate(text.substr(at, end - at), style.width, style));
    at = end + 1;
  }
  return lines;
}

absl::StatusOr<ExitCode> Status(Session& session, bool watch) {
  GDF_ASSIGN_OR_RETURN(control::Client * client, session.client());
  LiveArea area(session.environment().out);
  std::string last;
  while (true) {
    GDF_ASSIGN_OR_RETURN(const control::NodeStatus status, client->Status());
    const Style style = session.out_style();
    const bool draw_over = watch && session.environment().out_is_terminal && !session.json();
    if (draw_over) {
      area.Draw(Lines(Render(status, session.Now(), style), style));
    } else if (std::string now = ToJson(status).dump(-1, ' ', true, Json::error_handler_t::replace); now != last) {
      if (session.json()) {
        session.PrintJson(ToJson(status));
      } else {
        session.Print(Render(status, session.Now(), style));
      }
      last = std::move(now);
    }
    GDF_RETURN_IF_ERROR(session.output());
    if (!watch || !session.environment().wait(kRedrawEvery)) return kExitOk;
  }
}

}  // namespace

void AddStatusCommand(CLI::App& app, Command& chosen) {
  CLI::App* status = app.add_subcommand("status", "This node, its network and what runs");
  auto watch = std::make_shared<bool>(false);
  status->add_flag("-w,--watch", *watch, "Until interrupted: on a terminal drawn again every second, else printed again when it has changed");
  status->callback([&chosen, watch] { chosen = [watch](Session& s) { return Status(s, *watch); }; });
}

}  // namespace gdf::ctl
