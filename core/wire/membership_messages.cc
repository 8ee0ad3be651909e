#include "core/wire/membership_messages.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/encoding.h"
#include "core/base/name.h"
#include "core/base/status_macros.h"
#include "core/wire/parse.h"
#include "proto/membership.pb.h"

namespace gdf::wire {
namespace {

absl::StatusOr<std::vector<NodeId>> NodeIds(const google::protobuf::RepeatedPtrField<std::string>& raw) {
  std::vector<NodeId> ids;
  for (const std::string& one : raw) {
    GDF_ASSIGN_OR_RETURN(const Digest digest, Digest::FromBytes(one));
    ids.emplace_back(digest);
  }
  return ids;
}

}  // namespace

std::string Encode(const JoinCall& message) {
  v1::JoinCall out;
  out.set_network_id(Raw(message.network));
  out.set_command(message.command);
  return out.SerializeAsString();
}

std::string Encode(const JoinAnswer& message) {
  v1::JoinAnswer out;
  out.set_result(message.result);
  out.set_genesis(message.genesis);
  return out.SerializeAsString();
}

std::string Encode(const WatchCall& message) {
  v1::WatchCall out;
  out.set_from_index(message.from_index);
  return out.SerializeAsString();
}

std::string Encode(const WatchUpdate& message) {
  v1::WatchUpdate out;
  for (const LogEntryBytes& entry : message.entries) {
    v1::LogEntryMessage* added = out.add_entries();
    added->set_index(entry.index);
    added->set_command(entry.command);
  }
  out.set_log_digest(Raw(message.log_digest));
  if (message.online) {
    out.set_has_presence(true);
    for (const NodeId& id : *message.online) out.add_online(Raw(id));
  }
  if (message.changes) {
    out.set_has_changes(true);
    for (const NodeId& id : message.changes->came) out.add_came(Raw(id));
    for (const NodeId& id : message.changes->left) out.add_left(Raw(id));
  }
  if (message.leader) out.set_leader(Raw(*message.leader));
  return out.SerializeAsString();
}

std::string Encode(const ChunkCall& message) {
  v1::ChunkCall out;
  out.set_job(message.job.value);
  out.set_id(Raw(message.id));
  return out.SerializeAsString();
}

std::string Encode(const EpochCall& message) {
  v1::EpochCall out;
  out.set_job(message.job.value);
  out.set_current(message.current.value);
  for (const NodeId& id : message.lost) out.add_lost(Raw(id));
  out.set_reason(SafeText(message.reason, kMaxEpochReasonBytes));
  out.set_leaving(static_cast<uint32_t>(message.leaving));
  return out.SerializeAsString();
}

absl::StatusOr<JoinCall> DecodeJoinCall(std::string_view bytes) {
  GDF_ASSIGN_OR_RETURN(v1::JoinCall in, ParseMessage<v1::JoinCall>(bytes, "join call"));
  GDF_ASSIGN_OR_RETURN(Digest network, Digest::FromBytes(in.network_id()));
  return JoinCall{NetworkId(network), in.command()};
}

absl::StatusOr<JoinAnswer> DecodeJoinAnswer(std::string_view bytes) {
  GDF_ASSIGN_OR_RETURN(v1::JoinAnswer in, ParseMessage<v1::JoinAnswer>(bytes, "join answer"));
  return JoinAnswer{in.result(), in.genesis()};
}

absl::StatusOr<WatchCall> DecodeWatchCall(std::string_view bytes) {
  GDF_ASSIGN_OR_RETURN(v1::WatchCall in, ParseMessage<v1::WatchCall>(bytes, "watch call"));
  if (in.from_index() == 0)
    return absl::InvalidArgumentError("watch call: the log begins at index 1");
  return WatchCall{in.from_index()};
}

absl::StatusOr<WatchUpdate> DecodeWatchUpdate(std::string_view bytes) {
  GDF_ASSIGN_OR_RETURN(v1::WatchUpdate in, ParseMessage<v1::WatchUpdate>(bytes, "watch update"));
  const int nodes = std::max({in.online_size(), in.came_size(), in.left_size()});
  if (static_cast<size_t>(in.entries_size()) > kMaxEntriesPerUpdate || static_cast<size_t>(nodes) > kMaxOnlineNodes) {
    return absl::InvalidArgumentError(absl::StrCat("watch update with ", in.entries_size(), " entries and ", nodes, " nodes"));
  }
  WatchUpdate out;
  GDF_ASSIGN_OR_RETURN(out.log_digest, Digest::FromBytes(in.log_digest()));
  for (v1::LogEntryMessage& entry : *in.mutable_entries()) {
    out.entries.push_back({entry.index(), std::move(*entry.mutable_command())});
  }
  if (in.has_presence()) {
    GDF_ASSIGN_OR_RETURN(out.online, NodeIds(in.online()));
  }
  if (in.has_changes()) {
    out.changes.emplace();
    GDF_ASSIGN_OR_RETURN(out.changes->came, NodeIds(in.came()));
    GDF_ASSIGN_OR_RETURN(out.changes->left, NodeIds(in.left()));
  }
  if (!in.leader().empty()) {
    GDF_ASSIGN_OR_RETURN(Digest digest, Digest::FromBytes(in.leader()));
    out.leader.emplace(digest);
  }
  return out;
}

absl::StatusOr<ChunkCall> DecodeChunkCall(std::string_view bytes) {
  GDF_ASSIGN_OR_RETURN(v1::ChunkCall in, ParseMessage<v1::ChunkCall>(bytes, "chunk call"));
  GDF_ASSIGN_OR_RETURN(Digest id, Digest::FromBytes(in.id()));
  return ChunkCall{JobId{in.job()}, id};
}

absl::StatusOr<EpochCall> DecodeEpochCall(std::string_view bytes) {
  GDF_ASSIGN_OR_RETURN(v1::EpochCall in, ParseMessage<v1::EpochCall>(bytes, "epoch call"));
  if (static_cast<size_t>(in.lost_size()) > kMaxLostNodes ||
      in.reason().size() > kMaxEpochReasonBytes) {
    return absl::InvalidArgumentError(absl::StrCat("epoch call with ", in.lost_size(),
                                                   " lost nodes and a reason of ",
                                                   in.reason().size(), " bytes"));
  }
  EpochCall out{JobId{in.job()}, Epoch{in.current()}, {}, in.reason(),
                static_cast<Leaving>(in.leaving())};
  if (out.leaving < Leaving::kFailed || out.leaving > Leaving::kPaused) {
    return absl::InvalidArgumentError(absl::StrCat("epoch call with leaving ", in.leaving(), ", expected 0 to 2"));
  }
  GDF_ASSIGN_OR_RETURN(out.lost, NodeIds(in.lost()));
  return out;
}

}  // namespace gdf::wire
