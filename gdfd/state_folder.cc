#include "gdfd/state_folder.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/trust/private_file.h"

namespace gdf {
namespace {

constexpr const char* kDatabaseFiles[] = {"/state.db", "/state.db-wal", "/state.db-shm"};

std::string WayOut(const std::string& state_dir) {
  return absl::StrCat(". gdfd does not start with it. With a backup: move ", state_dir,
                      " aside and run gdfd --restore. A member without one: run touch ", state_dir,
                      "/leave, which makes gdfd leave the network and remove its jobs, start gdfd and join again with a new "
                      "invite");
}

absl::Status ForgetNetwork(FileSystem& files, const std::string& state_dir) {
  for (const char* name : kDatabaseFiles) GDF_RETURN_IF_ERROR(files.RemoveTree(state_dir + name));
  return files.RemoveTree(state_dir + "/jobs");
}

// What FileSystem::Create leaves, "next.key.tmp-PID-N", when the process ends before Commit.
bool IsUnfinishedWrite(const std::string& name) {
  const size_t at = name.rfind(".tmp-");
  return at != std::string::npos && name.find_first_not_of("0123456789-", at + 5) == std::string::npos;
}

absl::Status RemoveUnfinishedWrites(FileSystem& files, const std::string& state_dir) {
  GDF_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(state_dir));
  for (const std::string& name : names) {
    if (IsUnfinishedWrite(name)) GDF_RETURN_IF_ERROR(files.Remove(absl::StrCat(state_dir, "/", name)));
  }
  return absl::OkStatus();
}

// The record is there, if empty, before the key is made: a key without it is of a node that has lost it.
absl::Status CheckRecordIsThere(FileSystem& files, const std::string& state_dir) {
  const std::string path = state_dir + "/state.db";
  const absl::StatusOr<FileInfo> info = files.Stat(path);
  if (!info.ok() && !absl::IsNotFound(info.status())) return info.status();
  if ((info.ok() && info->size > 0) || !files.Exists(state_dir + "/node.key")) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the network's record ", path, " is ", info.ok() ? "empty" : "gone", ", and ",
                                          state_dir, " has the key of a node", WayOut(state_dir)));
}

absl::StatusOr<std::unique_ptr<state::State>> OpenRecord(FileSystem& files, const std::string& state_dir) {
  for (const char* name : kDatabaseFiles) {
    const absl::Status closed = trust::CheckPrivate(files, state_dir + name, "the database", trust::OthersMay::kNothing);
    if (!absl::IsNotFound(closed)) GDF_RETURN_IF_ERROR(closed);
  }
  absl::StatusOr<std::unique_ptr<state::State>> state = state::State::Open(state_dir + "/state.db");
  if (!absl::IsDataLoss(state.status())) return state;
  return absl::DataLossError(absl::StrCat(state.status().message(), WayOut(state_dir)));
}

// A node without its key is none of the network's members, whatever its record says.
absl::Status CheckKeyIsThere(FileSystem& files, const std::string& state_dir, const state::State& state) {
  if (!state.has_network() || files.Exists(state_dir + "/node.key")) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "the key file ", state_dir, "/node.key is gone, and ", state_dir, "/state.db is of a node that is in a network. ",
      "Put the file back; or move the folder aside and restore a backup with gdfd --restore; or remove ", state_dir,
      "/state.db and ", state_dir, "/jobs to start as a new node"));
}

// Jobs are a network's: their folders beside a record of none say that it is not the record they were made with.
absl::Status CheckJobsHaveNetwork(FileSystem& files, const std::string& state_dir, const state::State& state) {
  if (state.has_network()) return absl::OkStatus();
  const absl::StatusOr<std::vector<std::string>> jobs = files.List(state_dir + "/jobs");
  if (absl::IsNotFound(jobs.status()) || (jobs.ok() && jobs->empty())) return absl::OkStatus();
  GDF_RETURN_IF_ERROR(jobs.status());
  return absl::DataLossError(absl::StrCat(state_dir, "/state.db is of a node in no network, and ", state_dir,
                                          "/jobs has a network's jobs", WayOut(state_dir)));
}

// Adopts next.key when the network knows it already (see RotateKey in gdfd/services/control_network.cc).
absl::Status AdoptNextKey(FileSystem& files, const std::string& state_dir, state::State& state) {
  const std::string next_path = state_dir + "/next.key";
  if (!files.Exists(next_path)) return absl::OkStatus();
  GDF_ASSIGN_OR_RETURN(trust::NodeKey next, trust::NodeKey::Load(files, next_path));
  if (!state.member(next.id()).ok()) return absl::OkStatus();
  GDF_RETURN_IF_ERROR(state.SetKeeper(next.id()));
  return files.Rename(next_path, state_dir + "/node.key");
}

// A record that another node kept and that does not know this one would have it wait for what does not come. One that knows
// it may take the place of its own (docs/cli.md).
absl::Status CheckKeyIsKeepers(FileSystem& files, const std::string& state_dir, state::State& state, const NodeId& node) {
  const absl::StatusOr<std::optional<NodeId>> read = state.keeper();
  if (!read.ok()) {
    return absl::Status(read.status().code(),
                        absl::StrCat("the network's record ", state_dir, "/state.db, table local, column keeper: ",
                                     read.status().message(), WayOut(state_dir)));
  }
  const std::optional<NodeId>& keeper = *read;
  if (keeper == node) return absl::OkStatus();
  if (!keeper || !state.has_network() || state.member(node).ok()) return state.SetKeeper(node);
  const std::string previous_path = state_dir + "/previous.key";
  if (files.Exists(previous_path)) {
    GDF_ASSIGN_OR_RETURN(trust::NodeKey previous, trust::NodeKey::Load(files, previous_path));
    if (previous.id() == *keeper) return absl::OkStatus();  // the record will say so once it is followed again
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "the key file ", state_dir, "/node.key is of node ", node.Short(), ", and the network's record ", state_dir,
      "/state.db was kept by node ", keeper->Short(), " and does not know it: they do not belong together. Put the other node's key or this "
      "one's record there; or move ", state_dir, " aside and restore a backup with gdfd --restore; or run touch ", state_dir,
      "/leave, which makes gdfd remove that record and its jobs"));
}

}  // namespace

absl::Status CheckStateFolder(FileSystem& files, const std::string& state_dir) {
  return trust::CheckPrivate(files, state_dir, "the state folder", trust::OthersMay::kRead);
}

absl::StatusOr<NodeRecords> OpenStateFolder(FileSystem& files, const std::string& state_dir, Rng& rng) {
  GDF_RETURN_IF_ERROR(RemoveUnfinishedWrites(files, state_dir));
  // A leave that was asked for is carried out when nothing of the network is open any more.
  const std::string leave = state_dir + "/leave";
  const bool leaving = files.Exists(leave);
  if (leaving) {
    GDF_RETURN_IF_ERROR(ForgetNetwork(files, state_dir));
  } else {
    GDF_RETURN_IF_ERROR(CheckRecordIsThere(files, state_dir));
  }
  GDF_ASSIGN_OR_RETURN(std::unique_ptr<state::State> state, OpenRecord(files, state_dir));
  if (leaving) GDF_RETURN_IF_ERROR(files.Remove(leave));
  GDF_RETURN_IF_ERROR(CheckJobsHaveNetwork(files, state_dir, *state));
  GDF_RETURN_IF_ERROR(AdoptNextKey(files, state_dir, *state));
  GDF_RETURN_IF_ERROR(CheckKeyIsThere(files, state_dir, *state));
  GDF_ASSIGN_OR_RETURN(trust::NodeKey key, trust::NodeKey::LoadOrCreate(files, state_dir + "/node.key", rng));
  GDF_RETURN_IF_ERROR(CheckKeyIsKeepers(files, state_dir, *state, key.id()));
  GDF_RETURN_IF_ERROR(files.SyncFolder(state_dir));
  return NodeRecords{std::move(state), std::move(key)};
}

absl::StatusOr<uint64_t> RecoverNetwork(FileSystem& files, const std::string& state_dir, Rng& rng, absl::Time now) {
  GDF_ASSIGN_OR_RETURN(const NodeRecords records, OpenStateFolder(files, state_dir, rng));
  state::State& state = *records.state;
  GDF_ASSIGN_OR_RETURN(const state::Ballot ballot, state.ballot());
  wire::Command command;
  rng.Fill(absl::MakeSpan(command.request));
  command.actor = records.key.id();
  command.body = wire::RecoverNetwork{};
  // Most may have had it, and somebody been told.
  for (const std::string& entry : ballot.tail) {
    GDF_RETURN_IF_ERROR(state.Apply(state.last_applied() + 1, entry).status());
  }
  command.at_unix_ms = std::max(state.last_time_unix_ms(), absl::ToUnixMillis(now));
  GDF_ASSIGN_OR_RETURN(const wire::CommandResult result, state.Append(command));
  GDF_RETURN_IF_ERROR(result.status);
  return state.last_applied();
}

absl::StatusOr<bool> TakeUnheardKey(FileSystem& files, const std::string& state_dir) {
  if (!files.Exists(state_dir + "/next.key")) return false;
  GDF_RETURN_IF_ERROR(trust::NodeKey::Load(files, state_dir + "/next.key").status());
  GDF_ASSIGN_OR_RETURN(trust::NodeKey old, trust::NodeKey::Load(files, state_dir + "/node.key"));
  GDF_RETURN_IF_ERROR(old.Save(files, state_dir + "/previous.key"));
  GDF_RETURN_IF_ERROR(files.Rename(state_dir + "/next.key", state_dir + "/node.key"));
  return true;
}

}  // namespace gdf
