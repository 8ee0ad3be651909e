#include <memory>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/config/units.h"
#include "gdfctl/commands.h"
#include "gdfctl/json_values.h"
#include "gdfctl/render/table.h"

namespace gdf::ctl {
namespace {

constexpr absl::Duration kRestartWithin = absl::Seconds(30);
constexpr absl::Duration kAskEvery = absl::Milliseconds(100);

absl::StatusOr<ExitCode> CreateNetwork(Session& session, const std::string& name) {
  GDF_ASSIGN_OR_RETURN(control::Client * client, session.client());
  GDF_ASSIGN_OR_RETURN(const std::string id, client->CreateNetwork(name));
  if (session.json()) {
    session.PrintJson({{"network_id", id}, {"network_name", name}});
  } else {
    session.Print(id + "\n");
    session.Say(absl::StrCat("network ", name, " exists; this node is its coordinator. Invite others: ", session.CommandText("invite")));
  }
  return kExitOk;
}

struct InviteOptions {
  std::string roles = "contributor";
  std::string ttl = "24h";
  uint32_t uses = 1;
};

absl::StatusOr<ExitCode> CreateInvite(Session& session, const InviteOptions& options) {
  absl::StatusOr<absl::Duration> ttl = config::ParseDuration(options.ttl);
  if (!ttl.ok()) return absl::InvalidArgumentError(absl::StrCat("--ttl: ", ttl.status().message()));
  GDF_ASSIGN_OR_RETURN(control::Client * client, session.client());
  GDF_ASSIGN_OR_RETURN(const control::Invite invite, client->CreateInvite(options.roles, *ttl, options.uses));
  if (session.json()) {
    session.PrintJson(ToJson(invite));
  } else {
    session.Print(invite.text + "\n");
  }
  if (const absl::Status shown = session.output(); !shown.ok()) {
    return Annotate(shown, absl::StrCat("invite ", invite.id, " was made but not seen, and cannot be shown again (to be revoked with ",
                                        session.CommandText("invite revoke " + invite.id), ")"));
  }
  if (!session.json()) {
    session.Say(absl::StrCat("lets ", Counted(invite.uses_left, "node"), " join as ", invite.roles,
                             " until ", UtcText(invite.expires), ": gdfctl join gdf1:…  It cannot be shown again."));
  }
  return kExitOk;
}

absl::StatusOr<ExitCode> ListInvites(Session& session) {
  GDF_ASSIGN_OR_RETURN(control::Client * client, session.client());
  GDF_ASSIGN_OR_RETURN(const std::vector<control::Invite> invites, client->ListInvites());
  if (session.json()) {
    session.PrintJson({{"invites", ToJsonList(invites)}});
    return kExitOk;
  }
  Table table{{{"ID"}, {"ROLES"}, {"USES LEFT", true}, {"EXPIRES"}, {"STATE"}}, {}};
  for (const control::Invite& invite : invites) {
    const char* state = invite.revoked               ? "revoked"
                        : invite.uses_left == 0      ? "used up"
                        : invite.expires < session.Now() ? "expired"
                                                     : "open";
    table.rows.push_back({invite.id, invite.roles, absl::StrCat(invite.uses_left), UtcText(invite.expires), state});
  }
  session.Print(RenderTable(table, session.out_style()));
  return kExitOk;
}

absl::StatusOr<ExitCode> RevokeInvite(Session& session, const std::string& id) {
  GDF_ASSIGN_OR_RETURN(control::Client * client, session.client());
  GDF_RETURN_IF_ERROR(client->RevokeInvite(id));
  session.Say(absl::StrCat("invite ", id, " lets nobody in any more"));
  return kExitOk;
}

absl::StatusOr<ExitCode> Join(Session& session, const std::string& invite, const std::string& name) {
  GDF_ASSIGN_OR_RETURN(control::Client * client, session.client());
  GDF_ASSIGN_OR_RETURN(const control::NodeStatus status, client->Join(invite, name));
  if (session.json()) {
    session.PrintJson(ToJson(status));
  } else {
    session.Print(status.network_id + "\n");
    session.Say(absl::StrCat("joined ", Printable(status.network_name), " as ", Printable(status.node_name), " (", status.roles, ")"));
  }
  return kExitOk;
}

absl::Status ConfirmLeaving(Session& session) {
  constexpr char kLoss[] = "leaving deletes what this node knows of its network and its jobs, with their unexported results";
  if (!session.environment().ask) {
    return absl::InvalidArgumentError(absl::StrCat(kLoss, "; there is no terminal to ask on: confirm with --yes"));
  }
  GDF_ASSIGN_OR_RETURN(const std::string answer,
                       session.environment().ask(absl::StrCat(kLoss, ".\nLeave? (yes/no) "), /*secret=*/false));
  return answer == "yes" ? absl::OkStatus() : absl::CancelledError("this node stays in its network");
}

// A call that ended with gdfd.
bool WentDown(const absl::Status& status) { return absl::IsUnavailable(status) || absl::IsCancelled(status); }

// Until gdfd has begun anew, without a network.
absl::Status AwaitNoNetwork(Session& session, control::Client& client) {
  const Clock& clock = session.environment().clock;
  const absl::Duration end = clock.Monotonic() + kRestartWithin;
  while (true) {
    const absl::StatusOr<control::NodeStatus> status = client.Status();
    if (status.ok() && status->network_id.empty()) return absl::OkStatus();
    if (!status.ok() && !WentDown(status.status())) return status.status();
    if (clock.Monotonic() >= end || !session.environment().wait(kAskEvery)) break;
  }
  return absl::DeadlineExceededError(
      absl::StrCat("this node leaves, but gdfd has not come back within ", HumanDuration(kRestartWithin), "; see its log"));
}

absl::StatusOr<ExitCode> Leave(Session& session, bool yes) {
  GDF_ASSIGN_OR_RETURN(control::Client * client, session.client());
  if (!yes) GDF_RETURN_IF_ERROR(ConfirmLeaving(session));
  const absl::Status runs = client->Status().status();  // one that does not is told of at once
  if (!runs.ok() && !absl::IsCancelled(runs)) return runs;
  const absl::StatusOr<std::string> answer = runs.ok() ? client->Leave() : runs;
  if (WentDown(answer.status())) {
    if (!AwaitNoNetwork(session, *client).ok()) {
      return absl::UnavailableError(absl::StrCat("gdfd went down before it answered, and is not back without a network within ",
                                                 HumanDuration(kRestartWithin), "; see its log, and ask again when it runs"));
    }
    if (session.json()) session.PrintJson({{"told", nullptr}, {"not_told", nullptr}});
    session.Say("this node has left its network, as somebody else asked at the same time");
    return kExitOk;
  }
  GDF_ASSIGN_OR_RETURN(const std::string not_told, answer);
  GDF_RETURN_IF_ERROR(AwaitNoNetwork(session, *client));
  if (session.json()) session.PrintJson({{"told", not_told.empty()}, {"not_told", not_told.empty() ? Json(nullptr) : Json(not_told)}});
  session.Say(not_told.empty() ? "this node has left its network"
                               : absl::StrCat("this node has left its network, which could not be told and still lists it: ",
                                              Printable(not_told), "\nAn admin can remove it there: gdfctl node remove"));
  return kExitOk;
}

}  // namespace

void AddNetworkCommands(CLI::App& app, Command& chosen) {
  CLI::App* network = app.add_subcommand("network", "Make a network");
  network->require_subcommand(1);
  CLI::App* create = network->add_subcommand("create", "This node becomes the coordinator of a new network");
  auto name = std::make_shared<std::string>();
  create->add_option("NAME", *name, "Its name")->required();
  create->callback([&chosen, name] { chosen = [name](Session& s) { return CreateNetwork(s, *name); }; });

  CLI::App* invite = app.add_subcommand("invite", "Make an invite; list or revoke invites");
  auto options = std::make_shared<InviteOptions>();
  invite->add_option("--role", options->roles, "What its bearers may do: admin, submitter, contributor, with commas between")
      ->capture_default_str();
  invite->add_option("--ttl", options->ttl, "How long it is good for")->capture_default_str();
  invite->add_option("--uses", options->uses, "How many nodes it lets in")->check(CLI::Range(1, 100000))->capture_default_str();
  invite->require_subcommand(0, 1);
  CLI::App* list = invite->add_subcommand("list", "All invites of the network");
  CLI::App* revoke = invite->add_subcommand("revoke", "Makes an invite worthless");
  auto id = std::make_shared<std::string>();
  revoke->add_option("ID", *id, "As `invite list` shows it")->required();
  invite->callback([&chosen, list, revoke, options, id] {
    if (list->parsed()) {
      chosen = ListInvites;
    } else if (revoke->parsed()) {
      chosen = [id](Session& s) { return RevokeInvite(s, *id); };
    } else {
      chosen = [options](Session& s) { return CreateInvite(s, *options); };
    }
  });

  CLI::App* join = app.add_subcommand("join", "Join the network of an invite");
  auto text = std::make_shared<std::string>();
  auto node_name = std::make_shared<std::string>();
  join->add_option("INVITE", *text, "gdf1:…")->required();
  join->add_option("--name", *node_name, "Of this node in the network (default: the host's)");
  join->callback([&chosen, text, node_name] { chosen = [=](Session& s) { return Join(s, *text, *node_name); }; });

  CLI::App* leave = app.add_subcommand("leave", "This node forgets its network, which is told");
  auto yes = std::make_shared<bool>(false);
  leave->add_flag("--yes", *yes, "Do not ask");
  leave->callback([&chosen, yes] { chosen = [yes](Session& s) { return Leave(s, *yes); }; });
}

}  // namespace gdf::ctl
