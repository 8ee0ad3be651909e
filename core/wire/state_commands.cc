#include "core/wire/state_commands.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "absl/strings/str_cat.h"
#include "core/base/name.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"

namespace gdf::wire {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 60;   // of memory, disks, traffic; sums stay below 2^63
constexpr uint64_t kMaxCount = uint64_t{1} << 48;   // of jobs, epochs, rounds, tokens per round
constexpr int64_t kMaxUnixMs = int64_t{1} << 47;    // the year 6429
constexpr uint32_t kRoleBits = 7;                   // trust::RoleSet::kAllBits
constexpr uint32_t kMaxCpuThreads = 65'536;
constexpr size_t kMaxGenesisBytes = 1024;
constexpr size_t kMaxRotationBytes = 512;
constexpr size_t kMaxVersionBytes = 64;
constexpr size_t kMaxGpuNameBytes = 128;

absl::Status Invalid(std::string_view field, uint64_t value, std::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(ToAbsl(field), " is ", value, ", expected ", ToAbsl(expected)));
}

absl::Status CheckAtMost(std::string_view field, uint64_t value, uint64_t max) {
  if (value <= max) return absl::OkStatus();
  return Invalid(field, value, absl::StrCat("at most ", max));
}

absl::Status CheckTime(std::string_view field, int64_t unix_ms) {
  if (unix_ms >= 0 && unix_ms <= kMaxUnixMs) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(ToAbsl(field), " is ", unix_ms,
                                                 ", expected milliseconds since 1970, at most ", kMaxUnixMs));
}

absl::Status CheckRoles(uint32_t roles) {
  if (roles != 0 && (roles & ~kRoleBits) == 0) return absl::OkStatus();
  return Invalid("roles", roles, "a set of at least one known role (bits 1 to 7)");
}

absl::Status CheckNode(std::string_view field, const NodeId& node) {
  if (!node.zero()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(ToAbsl(field), " is missing"));
}

absl::Status CheckJob(JobId job) {
  if (job.value >= 1 && job.value <= kMaxCount) return absl::OkStatus();
  return Invalid("job", job.value, "a job id");
}

absl::Status CheckAmount(std::string_view field, double value) {
  if (std::isfinite(value) && value >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(ToAbsl(field), " is ", value, ", expected a finite number that is not negative"));
}

absl::Status CheckLoss(std::string_view field, const std::optional<double>& loss) {
  if (!loss || std::isfinite(*loss)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(ToAbsl(field), " is ", *loss, ", expected a finite number"));
}

}  // namespace

absl::Status CheckJobInputs(const std::vector<JobInput>& inputs) {
  GDF_RETURN_IF_ERROR(CheckAtMost("number of inputs", inputs.size(), kMaxInputs));
  std::set<std::string_view> names;
  for (const JobInput& input : inputs) {
    // Members make a folder of this name: it is one of these, never a path.
    if (std::find(std::begin(kJobInputNames), std::end(kJobInputNames), input.name) == std::end(kJobInputNames)) {
      return absl::InvalidArgumentError(
          absl::StrCat("input '", SafeText(input.name, kMaxNameBytes), "', expected data, valid, model or tokenizer"));
    }
    if (!names.insert(input.name).second) {
      return absl::InvalidArgumentError(absl::StrCat("input ", input.name, " is given twice"));
    }
    GDF_RETURN_IF_ERROR(CheckAtMost("input size_bytes", input.size_bytes, kMaxBytes));
    GDF_RETURN_IF_ERROR(CheckNode("input holder", input.holder));
  }
  return absl::OkStatus();
}

absl::Status CheckNodeProfile(const NodeProfile& profile) {
  GDF_RETURN_IF_ERROR(CheckName("node name", profile.name));
  if (NodeId::Parse(profile.name).ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("node name '", profile.name, "' is the id of a node, expected a name of its own"));
  }
  GDF_RETURN_IF_ERROR(CheckAtMost("number of addresses", profile.addresses.size(), kMaxAddresses));
  for (const std::string& address : profile.addresses) {
    GDF_RETURN_IF_ERROR(CheckText("address", address, kMaxAddressBytes));
    if (address.empty()) return absl::InvalidArgumentError("an address is empty, expected host:port");
  }
  GDF_RETURN_IF_ERROR(CheckAtMost("cpu_threads", profile.resources.cpu_threads, kMaxCpuThreads));
  GDF_RETURN_IF_ERROR(CheckAtMost("memory_bytes", profile.resources.memory_bytes, kMaxBytes));
  GDF_RETURN_IF_ERROR(CheckAtMost("disk_cap_bytes", profile.resources.disk_cap_bytes, kMaxBytes));
  GDF_RETURN_IF_ERROR(CheckAtMost("number of GPUs", profile.resources.gpus.size(), kMaxGpus));
  for (const GpuResource& gpu : profile.resources.gpus) {
    GDF_RETURN_IF_ERROR(CheckText("GPU name", gpu.name, kMaxGpuNameBytes));
    GDF_RETURN_IF_ERROR(CheckAtMost("GPU memory_bytes", gpu.memory_bytes, kMaxBytes));
  }
  return CheckText("version", profile.version, kMaxVersionBytes);
}

absl::Status CheckRoundMetrics(const RoundMetrics& m) {
  GDF_RETURN_IF_ERROR(CheckLoss("train_loss", m.train_loss));
  GDF_RETURN_IF_ERROR(CheckLoss("valid_loss", m.valid_loss));
  GDF_RETURN_IF_ERROR(CheckAtMost("tokens", m.tokens, kMaxCount));
  GDF_RETURN_IF_ERROR(CheckAmount("tokens_per_sec", m.tokens_per_sec));
  GDF_RETURN_IF_ERROR(CheckAtMost("bytes_sent", m.bytes_sent, kMaxBytes));
  GDF_RETURN_IF_ERROR(CheckAtMost("bytes_received", m.bytes_received, kMaxBytes));
  GDF_RETURN_IF_ERROR(CheckAmount("compute_sec", m.compute_sec));
  GDF_RETURN_IF_ERROR(CheckAmount("compress_sec", m.compress_sec));
  GDF_RETURN_IF_ERROR(CheckAmount("exchange_sec", m.exchange_sec));
  GDF_RETURN_IF_ERROR(CheckAmount("aggregate_sec", m.aggregate_sec));
  GDF_RETURN_IF_ERROR(CheckAmount("utilisation", m.utilisation));
  if (m.utilisation > 1) {
    return absl::InvalidArgumentError(absl::StrCat("utilisation is ", m.utilisation, ", expected at most 1"));
  }
  return CheckAtMost("contributors", m.contributors, kMaxEpochMembers);
}

namespace {

absl::Status CheckBody(const CreateNetwork& c) {
  GDF_RETURN_IF_ERROR(CheckAtMost("genesis length", c.genesis.size(), kMaxGenesisBytes));
  return CheckNodeProfile(c.node);
}

absl::Status CheckBody(const CreateInvite& c) {
  GDF_RETURN_IF_ERROR(CheckRoles(c.roles));
  GDF_RETURN_IF_ERROR(CheckTime("expires_unix_ms", c.expires_unix_ms));
  if (c.uses < 1 || c.uses > kMaxInviteUses) return Invalid("uses", c.uses, "1 to 1000000");
  return absl::OkStatus();
}

absl::Status CheckBody(const RevokeInvite&) { return absl::OkStatus(); }

absl::Status CheckBody(const Join& c) { return CheckNodeProfile(c.node); }

absl::Status CheckBody(const SetRole& c) {
  GDF_RETURN_IF_ERROR(CheckNode("node", c.node));
  return CheckRoles(c.roles);
}

absl::Status CheckBody(const RemoveNode& c) {
  GDF_RETURN_IF_ERROR(CheckNode("node", c.node));
  return CheckText("reason", c.reason, kMaxTextBytes);
}

absl::Status CheckBody(const BanNode& c) {
  GDF_RETURN_IF_ERROR(CheckNode("node", c.node));
  return CheckText("reason", c.reason, kMaxTextBytes);
}

absl::Status CheckBody(const UnbanNode& c) { return CheckNode("node", c.node); }

absl::Status CheckBody(const RotateKey& c) {
  return CheckAtMost("rotation record length", c.record.size(), kMaxRotationBytes);
}

absl::Status CheckBody(const UpdateNode& c) { return CheckNodeProfile(c.node); }

absl::Status CheckBody(const SubmitJob& c) {
  GDF_RETURN_IF_ERROR(CheckName("job name", c.name));
  GDF_RETURN_IF_ERROR(CheckText("submit_token", c.submit_token, kMaxTokenBytes));
  if (c.submit_token.empty()) return absl::InvalidArgumentError("submit_token is empty");
  GDF_RETURN_IF_ERROR(CheckText("spec_yaml", c.spec_yaml, kMaxSpecBytes));
  if (c.planned_rounds < 1 || c.planned_rounds > kMaxCount) {
    return Invalid("planned_rounds", c.planned_rounds, "1 to 2^48");
  }
  return CheckJobInputs(c.inputs);
}

absl::Status CheckBody(const OpenEpoch& c) {
  GDF_RETURN_IF_ERROR(CheckJob(c.job));
  if (c.epoch.value < 1 || c.epoch.value > kMaxCount) return Invalid("epoch", c.epoch.value, "1 to 2^48");
  if (c.members.empty() || c.members.size() > kMaxEpochMembers) {
    return Invalid("number of members", c.members.size(), "1 to 1024");
  }
  std::set<NodeId> distinct;
  for (const NodeId& member : c.members) {
    GDF_RETURN_IF_ERROR(CheckNode("member", member));
    if (!distinct.insert(member).second) {
      return absl::InvalidArgumentError(absl::StrCat("member ", member.Short(), " is listed twice"));
    }
  }
  if (!distinct.contains(c.lead)) {
    return absl::InvalidArgumentError(absl::StrCat("lead ", c.lead.Short(), " is not one of the members"));
  }
  return CheckText("reason", c.reason, kMaxTextBytes);
}

absl::Status CheckBody(const ReportJob& c) {
  GDF_RETURN_IF_ERROR(CheckJob(c.job));
  GDF_RETURN_IF_ERROR(CheckAtMost("epoch", c.epoch.value, kMaxCount));
  GDF_RETURN_IF_ERROR(CheckAtMost("round", c.round.value, kMaxCount));
  GDF_RETURN_IF_ERROR(CheckRoundMetrics(c.metrics));
  return CheckText("message", c.message, kMaxTextBytes);
}

absl::Status CheckBody(const FinishJob& c) {
  GDF_RETURN_IF_ERROR(CheckJob(c.job));
  GDF_RETURN_IF_ERROR(CheckAtMost("epoch", c.epoch.value, kMaxCount));
  GDF_RETURN_IF_ERROR(CheckAtMost("rounds_done", c.rounds_done, kMaxCount));
  if (c.verdict < Verdict::kSucceeded || c.verdict > Verdict::kCancelled) {
    return Invalid("verdict", static_cast<uint64_t>(c.verdict), "1 (succeeded), 2 (failed) or 3 (cancelled)");
  }
  return CheckText("reason", c.reason, kMaxTextBytes);
}

absl::Status CheckBody(const CancelJob& c) {
  GDF_RETURN_IF_ERROR(CheckJob(c.job));
  return CheckText("reason", c.reason, kMaxTextBytes);
}

absl::Status CheckBody(const JobEvent& c) {
  GDF_RETURN_IF_ERROR(CheckAtMost("job", c.job.value, kMaxCount));
  GDF_RETURN_IF_ERROR(CheckNode("node", c.node));
  if (c.severity < Severity::kInfo || c.severity > Severity::kError) {
    return Invalid("severity", static_cast<uint64_t>(c.severity), "0 (info), 1 (warning) or 2 (error)");
  }
  return CheckText("text", c.text, kMaxTextBytes);
}
absl::Status CheckBody(const AddCoordinator& c) { return CheckNode("node", c.node); }
absl::Status CheckBody(const RemoveCoordinator& c) { return CheckNode("node", c.node); }
absl::Status CheckBody(const RecoverNetwork&) { return absl::OkStatus(); }

absl::Status CheckBody(const RollBackJob& c) {
  GDF_RETURN_IF_ERROR(CheckJob(c.job));
  GDF_RETURN_IF_ERROR(CheckAtMost("round", c.round.value, kMaxCount));
  if (c.round.value == 0) return Invalid("round", 0, "a round that was committed, from 1 on");
  if (c.theta.zero()) return absl::InvalidArgumentError("theta is zero, expected a digest");
  GDF_RETURN_IF_ERROR(CheckAtMost("epoch", c.epoch.value, kMaxCount));
  return CheckText("reason", c.reason, kMaxTextBytes);
}

absl::Status CheckBody(const Recruit& c) {
  GDF_RETURN_IF_ERROR(CheckJob(c.job));
  GDF_RETURN_IF_ERROR(CheckNode("node", c.node));
  if (c.action < RecruitAction::kCall || c.action > RecruitAction::kExclude) {
    return Invalid("action", static_cast<uint64_t>(c.action), "0 (call), 1 (dismiss) or 2 (exclude)");
  }
  return CheckText("reason", c.reason, kMaxTextBytes);
}

}  // namespace

absl::Status CheckCommand(const Command& command) {
  GDF_RETURN_IF_ERROR(CheckNode("actor", command.actor));
  GDF_RETURN_IF_ERROR(CheckTime("at_unix_ms", command.at_unix_ms));
  return Annotate(std::visit([](const auto& body) { return CheckBody(body); }, command.body),
                  CommandName(command.body));
}

std::string_view CommandName(const CommandBody& body) {
  static constexpr std::string_view kNames[] = {
      "create_network", "create_invite", "revoke_invite", "join",       "set_role",   "remove_node",
      "ban_node",       "unban_node",    "rotate_key",    "update_node", "submit_job", "open_epoch",
      "report_job",     "finish_job",    "cancel_job",    "job_event",  "recruit",        "roll_back_job",
      "add_coordinator", "remove_coordinator", "recover_network"};
  static_assert(std::size(kNames) == std::variant_size_v<CommandBody>);
  return kNames[body.index()];
}

std::string_view ToString(Verdict verdict) {
  switch (verdict) {
    case Verdict::kNone: return "none";
    case Verdict::kSucceeded: return "succeeded";
    case Verdict::kFailed: return "failed";
    case Verdict::kCancelled: return "cancelled";
  }
  return "unknown";
}

std::string_view ToString(Severity severity) {
  switch (severity) {
    case Severity::kInfo: return "info";
    case Severity::kWarning: return "warning";
    case Severity::kError: return "error";
  }
  return "unknown";
}

}  // namespace gdf::wire
