#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "gdfctl/commands.h"
#include "gdfctl/export.h"
#include "gdfctl/json_values.h"
#include "gdfctl/render/table.h"

namespace gdf::ctl {
namespace {

constexpr size_t kShortDigest = 12;

// Those that keep its parameters: "2 of 3: amber, birch".
std::string KeptBy(const control::Checkpoint& checkpoint) {
  std::vector<std::string> names;
  for (const control::CheckpointCopy& copy : checkpoint.copies) {
    if (copy.parameters) names.push_back(Printable(copy.node_name));
  }
  return absl::StrCat(names.size(), " of ", checkpoint.wanted, names.empty() ? "" : ": ", absl::StrJoin(names, ", "));
}

absl::Time WrittenAt(const control::Checkpoint& checkpoint) {
  absl::Time first = absl::InfiniteFuture();
  for (const control::CheckpointCopy& copy : checkpoint.copies) first = std::min(first, copy.written);
  return first;
}

// What a list may lack.
void SayGaps(Session& session, const control::CheckpointList& list) {
  for (const std::string& name : list.silent_names) {
    session.Say(absl::StrCat(Printable(name), " did not say what it keeps"));
  }
  for (const std::string& damage : list.passed_over) session.SayWarning(absl::StrCat("passed over: ", Printable(damage)));
}

absl::StatusOr<ExitCode> List(Session& session, const std::string& job) {
  GDF_ASSIGN_OR_RETURN(control::Client * client, session.client());
  GDF_ASSIGN_OR_RETURN(const control::CheckpointList list, client->ListCheckpoints(job));
  if (session.json()) {
    session.PrintJson(ToJson(list));
    return kExitOk;
  }
  Table table{{{"ROUND", true}, {"WRITTEN"}, {"DIGEST"}, {"NEW", true}, {"KEPT BY"}}, {}};
  for (const control::Checkpoint& checkpoint : list.checkpoints) {
    uint64_t most = 0;
    for (const control::CheckpointCopy& copy : checkpoint.copies) most = std::max(most, copy.new_bytes);
    table.rows.push_back({absl::StrCat(checkpoint.round), FormatAge(WrittenAt(checkpoint), session.Now()),
                          Printable(checkpoint.digest.substr(0, kShortDigest)), HumanBytes(most), KeptBy(checkpoint)});
  }
  if (!table.rows.empty()) session.Print(RenderTable(table, session.out_style()));
  if (table.rows.empty()) {
    session.Say(absl::StrCat(job, " has no checkpoint that is kept; checkpoints.every in job.yaml says how often one is"));
  }
  SayGaps(session, list);
  return kExitOk;
}

absl::StatusOr<ExitCode> Show(Session& session, const std::string& job, uint64_t round) {
  GDF_ASSIGN_OR_RETURN(control::Client * client, session.client());
  GDF_ASSIGN_OR_RETURN(const control::CheckpointList list, client->ListCheckpoints(job));
  const auto found = std::find_if(list.checkpoints.begin(), list.checkpoints.end(),
                                  [&](const control::Checkpoint& c) { return c.round == round; });
  if (found == list.checkpoints.end()) {
    SayGaps(session, list);
    return absl::NotFoundError(absl::StrCat("no node that answers keeps a checkpoint of round ", round, " of ", job, "; see ",
                                            session.CommandText("checkpoint list " + job)));
  }
  if (session.json()) {
    session.PrintJson({{"checkpoint", ToJson(*found)}});
    return kExitOk;
  }
  std::vector<std::string> signers;
  for (const std::string& name : found->signer_names) signers.push_back(Printable(name));
  session.Print(RenderFields(
      {{"checkpoint", absl::StrCat("of ", job, " after ", Counted(round, "round"))},
       {"parameters", absl::StrCat(found->parameters, ", digest ", Printable(found->digest))},
       {"momentum", found->momentum_digest.empty() ? "none" : absl::StrCat("digest ", Printable(found->momentum_digest))},
       {"data", absl::StrCat("position ", found->data_position, " of epoch ", found->data_epoch)},
       {"committed", absl::StrCat("in epoch ", found->epoch, " by ", absl::StrJoin(signers, ", "))},
       {"kept by", KeptBy(*found)}},
      session.out_style()));
  Table table{{{"NODE"}, {"WRITTEN"}, {"NEW", true}, {"PARAMETERS"}, {"INNER STATE"}}, {}};
  for (const control::CheckpointCopy& copy : found->copies) {
    table.rows.push_back({Printable(copy.node_name), FormatAge(copy.written, session.Now()), HumanBytes(copy.new_bytes),
                          copy.parameters ? "kept" : "kept by others", copy.inner_state ? "saved" : "not saved"});
  }
  session.Print(RenderTable(table, session.out_style()));
  SayGaps(session, list);
  return kExitOk;
}

std::string ChunkTexts(const std::vector<control::CheckpointCheck::Chunk>& chunks) {
  std::vector<std::string> texts;
  for (const control::CheckpointCheck::Chunk& chunk : chunks) {
    texts.push_back(absl::StrCat(Printable(chunk.id.substr(0, kShortDigest)), " (", Printable(chunk.part), ")"));
  }
  return absl::StrJoin(texts, "\n");
}

absl::StatusOr<ExitCode> Verify(Session& session, const std::string& job, uint64_t round) {
  GDF_ASSIGN_OR_RETURN(control::Client * client, session.client());
  GDF_ASSIGN_OR_RETURN(const control::CheckpointCheck check, client->VerifyCheckpoint(job, round));
  const ExitCode code = check.whole() ? kExitOk : kExitJobFailed;
  if (session.json()) {
    session.PrintJson(ToJson(check));
    return code;
  }
  std::vector<std::string> parts;
  if (check.parameters) parts.push_back("parameters");
  if (check.outer_state) parts.push_back("outer state");
  if (check.inner_state) parts.push_back("inner state");
  std::vector<std::pair<std::string, std::string>> fields = {
      {"checkpoint", absl::StrCat("of ", job, " after ", Counted(round, "round"), ", as this node keeps it: ", absl::StrJoin(parts, ", "))},
      {"whole", absl::StrCat(Counted(check.chunks, "chunk"), ", ", HumanBytes(check.bytes))}};
  if (!check.repaired.empty()) fields.emplace_back("repaired", ChunkTexts(check.repaired));
  if (!check.missing.empty()) {
    fields.emplace_back("missing", ChunkTexts(check.missing));
    fields.emplace_back("why", Printable(check.why_not));
  }
  if (!check.wrong.empty()) fields.emplace_back("wrong", Printable(check.wrong));
  session.Print(RenderFields(fields, session.out_style()));
  if (!check.whole()) session.SayError("the checkpoint is not whole on this node");
  return code;
}

absl::StatusOr<ExitCode> Remove(Session& session, const std::string& job, uint64_t round) {
  GDF_ASSIGN_OR_RETURN(control::Client * client, session.client());
  GDF_RETURN_IF_ERROR(client->RemoveCheckpoint(job, round));
  session.Say(absl::StrCat("this node no longer keeps the checkpoint of ", job, " after ", Counted(round, "round")));
  return kExitOk;
}

absl::StatusOr<ExitCode> RollBack(Session& session, const std::string& job, uint64_t round, const std::string& reason) {
  GDF_ASSIGN_OR_RETURN(control::Client * client, session.client());
  GDF_RETURN_IF_ERROR(client->RollBackJob(job, round, reason));
  session.Say(absl::StrCat(job, " goes back to what ", Counted(round, "round"), " had made; follow it with: ",
                           session.CommandText("job logs -f " + job)));
  return kExitOk;
}

}  // namespace

void AddCheckpointCommands(CLI::App& app, Command& chosen) {
  CLI::App* group = app.add_subcommand("checkpoint", "What a job's nodes keep of its way");
  group->require_subcommand(1);
  auto job = std::make_shared<std::string>();
  auto round = std::make_shared<uint64_t>(0);
  const auto add = [&](const char* name, const char* what, bool of_round) {
    CLI::App* command = group->add_subcommand(name, what);
    command->add_option("JOB", *job, "Such as j17")->required();
    if (of_round) {
      command->add_option("N", *round, "After so many rounds")->required()->check(CLI::Range(uint64_t{1}, uint64_t{1} << 40));
    }
    return command;
  };
  add("list", "All of them, and who keeps them", false)->callback([&chosen, job] {
    chosen = [job](Session& s) { return List(s, *job); };
  });
  add("show", "One of them, with each node's copy", true)->callback([&chosen, job, round] {
    chosen = [=](Session& s) { return Show(s, *job, *round); };
  });
  add("verify", "Read all of this node's copy, and mend it from the others'", true)->callback([&chosen, job, round] {
    chosen = [=](Session& s) { return Verify(s, *job, *round); };
  });
  add("remove", "Delete this node's copy of one", true)->callback([&chosen, job, round] {
    chosen = [=](Session& s) { return Remove(s, *job, *round); };
  });
  CLI::App* back = add("rollback", "Send the running job back to one", false);
  auto reason = std::make_shared<std::string>();
  back->add_option("--to", *round, "After so many rounds")->required()->check(CLI::Range(uint64_t{1}, uint64_t{1} << 40));
  back->add_option("--reason", *reason, "For the job's events");
  back->callback([&chosen, job, round, reason] {
    chosen = [=](Session& s) { return RollBack(s, *job, *round, *reason); };
  });
  CLI::App* exported = add("export", "Write its parameters as a Hugging Face folder", true);
  auto folder = std::make_shared<std::string>();
  auto force = std::make_shared<bool>(false);
  exported->add_option("DIR", *folder, "Made when it is not there")->required();
  exported->add_flag("--force", *force, "Into a folder that is not empty");
  exported->callback([&chosen, job, round, folder, force] {
    chosen = [=](Session& s) { return ExportTo(s, *job, *round, *folder, *force); };
  });
}

}  // namespace gdf::ctl
