#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "gdfctl/commands.h"
#include "gdfctl/json_values.h"
#include "gdfctl/render/table.h"

namespace gdf::ctl {
namespace {

constexpr size_t kShortIdLength = 12;
constexpr size_t kMinPrefixLength = 6;  // as the daemon takes it

std::string Machine(const control::Node& node) {
  std::string text = absl::StrCat(node.cpu_threads, " threads, ", HumanBytes(node.memory_bytes));
  for (const control::Gpu& gpu : node.gpus) {
    absl::StrAppend(&text, ", ", Printable(gpu.name), " ", HumanBytes(gpu.memory_bytes));
  }
  return text;
}

std::string Presence(const control::Node& node, const Style& style) {
  if (node.state != "active") return Paint(style, Color::kRed, node.state);
  if (node.online && node.paused) return Paint(style, Color::kYellow, "paused");
  return node.online ? Paint(style, Color::kGreen, "online") : Paint(style, Color::kDim, "offline");
}

std::string Milliseconds(absl::Duration time) { return absl::StrFormat("%.1f ms", absl::ToDoubleMilliseconds(time)); }

std::string Rtt(const control::Node& node) { return node.rtt > absl::ZeroDuration() ? Milliseconds(node.rtt) : "-"; }

absl::StatusOr<ExitCode> List(Session& session) {
  GDF_ASSIGN_OR_RETURN(control::Client * client, session.client());
  GDF_ASSIGN_OR_RETURN(const std::vector<control::Node> nodes, client->ListNodes());
  if (session.json()) {
    session.PrintJson({{"nodes", ToJsonList(nodes)}});
    return kExitOk;
  }
  const Style style = session.out_style();
  Table table{{{"NAME"}, {"ID"}, {"STATE"}, {"ROLES"}, {"RTT", true}, {"SENT", true}, {"RECEIVED", true}, {"MACHINE"}}, {}};
  for (const control::Node& node : nodes) {
    table.rows.push_back({Printable(node.name) + (node.coordinator ? " *" : ""), node.id.substr(0, kShortIdLength),
                          Presence(node, style), node.roles, Rtt(node), HumanBytes(node.bytes_sent),
                          HumanBytes(node.bytes_received), Machine(node)});
  }
  session.Print(RenderTable(table, style));
  session.Say("* coordinator; RTT, SENT and RECEIVED are between this node and that one");
  return kExitOk;
}

absl::StatusOr<ExitCode> ListCoordinators(Session& session) {
  GDF_ASSIGN_OR_RETURN(control::Client * client, session.client());
  GDF_ASSIGN_OR_RETURN(std::vector<control::Node> nodes, client->ListNodes());
  std::erase_if(nodes, [](const control::Node& node) { return !node.coordinator; });
  if (session.json()) {
    session.PrintJson({{"coordinators", ToJsonList(nodes)}});
    return kExitOk;
  }
  const Style style = session.out_style();
  Table table{{{"NAME"}, {"ID"}, {"STATE"}, {"LEADS"}, {"RTT", true}}, {}};
  for (const control::Node& node : nodes) {
    table.rows.push_back({Printable(node.name), node.id.substr(0, kShortIdLength), Presence(node, style),
                          node.leads ? "yes" : "", Rtt(node)});
  }
  session.Print(RenderTable(table, style));
  return kExitOk;
}

// The node that `key` names: its id, a beginning of one, or a name.
absl::StatusOr<control::Node> Find(const std::vector<control::Node>& nodes, const std::string& key) {
  const control::Node* found = nullptr;
  for (const control::Node& node : nodes) {
    const bool prefix = key.size() >= kMinPrefixLength && absl::StartsWith(node.id, key);
    if (node.name != key && !prefix) continue;
    if (found != nullptr) return absl::InvalidArgumentError(absl::StrCat("'", key, "' names several nodes; give more of the id"));
    found = &node;
  }
  if (found == nullptr) return absl::NotFoundError(absl::StrCat("no node '", key, "'; `gdfctl node list` shows them"));
  return *found;
}

absl::StatusOr<ExitCode> Show(Session& session, const std::string& key) {
  GDF_ASSIGN_OR_RETURN(control::Client * client, session.client());
  GDF_ASSIGN_OR_RETURN(const std::vector<control::Node> nodes, client->ListNodes());
  GDF_ASSIGN_OR_RETURN(const control::Node node, Find(nodes, key));
  if (session.json()) {
    session.PrintJson({{"node", ToJson(node)}});
    return kExitOk;
  }
  const Style style = session.out_style();
  session.Print(RenderFields({{"name", Printable(node.name)},
                              {"id", node.id},
                              {"state", Presence(node, style)},
                              {"roles", node.roles + (node.coordinator ? ", coordinator" : "")},
                              {"addresses", Printable(absl::StrJoin(node.addresses, ", "))},
                              {"machine", Machine(node)},
                              {"version", Printable(node.version)},
                              {"joined", absl::StrCat(UtcText(node.joined), ", ", FormatAge(node.joined, session.Now()))},
                              {"round trip", Rtt(node)},
                              {"sent to it", HumanBytes(node.bytes_sent)},
                              {"received", HumanBytes(node.bytes_received)}},
                             style));
  return kExitOk;
}

// One line a message, as it is answered; what the last one told of the path at the end.
absl::StatusOr<ExitCode> Ping(Session& session, const std::string& key, int count) {
  GDF_ASSIGN_OR_RETURN(control::Client * client, session.client());
  control::PingResult last;
  for (int i = 0; i < count; ++i) {
    GDF_ASSIGN_OR_RETURN(last, client->Ping(key));
    if (session.json()) {
      session.PrintJson({{"ping", ToJson(last)}});
    } else {
      session.Print(absl::StrCat(Printable(last.name), " at ", last.remote, last.dialled ? ": " : " (it dialled): ",
                                 Milliseconds(last.round_trip), "\n"));
    }
  }
  if (session.json()) return kExitOk;
  const std::string rate = last.rate_bytes_per_sec == 0
                               ? std::string("too little bulk data went there yet to tell its rate")
                               : absl::StrCat("bulk data last arrived there at ", HumanBytes(last.rate_bytes_per_sec), "/s");
  const std::string way = last.relay.empty() ? "directly" : absl::StrCat("by way of ", Printable(last.relay));
  session.Say(absl::StrCat(way, ", over ", Counted(last.connections, "connection"), "; TCP's round trip ",
                           Milliseconds(last.tcp_rtt), "; ", rate, last.bulk_in_clear ? ", without TLS" : ""));
  return kExitOk;
}

absl::StatusOr<ExitCode> Change(Session& session, const std::string& node, control::NodeChange change,
                                const std::string& roles) {
  GDF_ASSIGN_OR_RETURN(control::Client * client, session.client());
  GDF_RETURN_IF_ERROR(client->ChangeNode(node, change, roles));
  switch (change) {
    case control::NodeChange::kRemove: session.Say(node + " is no member any more"); break;
    case control::NodeChange::kBan: session.Say(node + " is banned"); break;
    case control::NodeChange::kUnban: session.Say(node + " may join again, with an invite"); break;
    case control::NodeChange::kRole: session.Say(absl::StrCat(node, " is now ", roles)); break;
    case control::NodeChange::kAddCoordinator: session.Say(node + " is a coordinator now"); break;
    case control::NodeChange::kRemoveCoordinator: session.Say(node + " is no coordinator any more"); break;
  }
  return kExitOk;
}

}  // namespace

void AddNodeCommands(CLI::App& app, Command& chosen) {
  CLI::App* group = app.add_subcommand("node", "The network's nodes");
  group->require_subcommand(1);
  auto node = std::make_shared<std::string>();
  const auto add = [&](const char* name, const char* what) {
    CLI::App* command = group->add_subcommand(name, what);
    command->add_option("NODE", *node, "A name, an id or the first 6 or more characters of one")->required();
    return command;
  };
  group->add_subcommand("list", "All of them")->callback([&chosen] { chosen = List; });
  add("show", "One of them")->callback([&chosen, node] { chosen = [node](Session& s) { return Show(s, *node); }; });
  const auto add_change = [&](const char* name, const char* what, control::NodeChange change) {
    add(name, what)->callback([&chosen, node, change] {
      chosen = [node, change](Session& s) { return Change(s, *node, change, ""); };
    });
  };
  CLI::App* ping = app.add_subcommand("ping", "Messages to a node and back: their time, the path, the rate");
  auto count = std::make_shared<int>(4);
  ping->add_option("NODE", *node, "A name, an id or the first 6 or more characters of one")->required();
  ping->add_option("--count,-c", *count, "Messages, one after the other")->check(CLI::Range(1, 1000))->capture_default_str();
  ping->callback([&chosen, node, count] { chosen = [node, count](Session& s) { return Ping(s, *node, *count); }; });
  CLI::App* coordinators = app.add_subcommand("coordinator", "The nodes that keep the network's record");
  coordinators->require_subcommand(1);
  coordinators->add_subcommand("list", "All of them, and which one leads")->callback([&chosen] {
    chosen = ListCoordinators;
  });
  const auto add_choice = [&](const char* name, const char* what, control::NodeChange change) {
    CLI::App* command = coordinators->add_subcommand(name, what);
    command->add_option("NODE", *node, "A name, an id or the first 6 or more characters of one")->required();
    command->callback([&chosen, node, change] {
      chosen = [node, change](Session& s) { return Change(s, *node, change, ""); };
    });
  };
  add_choice("add", "It keeps the record too from now on; use 3 or 5 of them", control::NodeChange::kAddCoordinator);
  add_choice("remove", "It is an ordinary member from now on", control::NodeChange::kRemoveCoordinator);
  add_change("remove", "Takes it out of the network; it may be invited again", control::NodeChange::kRemove);
  add_change("ban", "Takes it out and refuses its key from now on", control::NodeChange::kBan);
  add_change("unban", "Lifts a ban", control::NodeChange::kUnban);
  CLI::App* role = add("role", "Sets what it may do");
  auto roles = std::make_shared<std::string>();
  role->add_option("ROLES", *roles, "admin, submitter, contributor, with commas between")->required();
  role->callback([&chosen, node, roles] {
    chosen = [node, roles](Session& s) { return Change(s, *node, control::NodeChange::kRole, *roles); };
  });
}

}  // namespace gdf::ctl
