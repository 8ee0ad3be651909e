#include "core/wire/artifact_messages.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "core/base/encoding.h"
#include "core/base/status_macros.h"
#include "core/wire/parse.h"
#include "proto/artifacts.pb.h"

namespace gdf::wire {
namespace {

bool IsPlainName(const std::string& name) {
  return !name.empty() && name.size() <= 255 && name[0] != '.' &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
}

}  // namespace

std::string Encode(const ArtifactCall& message) {
  v1::ArtifactCall out;
  out.set_job(message.job.value);
  out.set_checkpoint(message.checkpoint.value);
  return out.SerializeAsString();
}

std::string Encode(const ArtifactHeader& message) {
  v1::ArtifactHeader out;
  for (const ArtifactFile& file : message.files) {
    v1::ArtifactHeader::File* added = out.add_files();
    added->set_name(file.name);
    added->set_size(file.size);
  }
  out.set_num_params(message.num_params);
  out.set_round(message.round.value);
  out.set_theta(Raw(message.theta));
  if (message.commit) out.set_commit(EncodeCommit(*message.commit));
  return out.SerializeAsString();
}

absl::StatusOr<ArtifactCall> DecodeArtifactCall(std::string_view bytes) {
  GDF_ASSIGN_OR_RETURN(v1::ArtifactCall in, ParseMessage<v1::ArtifactCall>(bytes, "artifact call"));
  return ArtifactCall{JobId{in.job()}, RoundId{in.checkpoint()}};
}

absl::StatusOr<ArtifactHeader> DecodeArtifactHeader(std::string_view bytes) {
  GDF_ASSIGN_OR_RETURN(v1::ArtifactHeader in, ParseMessage<v1::ArtifactHeader>(bytes, "artifact header"));
  if (static_cast<size_t>(in.files_size()) > kMaxArtifactFiles) {
    return absl::InvalidArgumentError(absl::StrCat("artifact header with ", in.files_size(),
                                                   " files, at most ", kMaxArtifactFiles,
                                                   " are accepted"));
  }
  ArtifactHeader out;
  uint64_t total = 0;
  std::set<std::string_view> names;
  for (const v1::ArtifactHeader::File& file : in.files()) {
    if (!IsPlainName(file.name()))
      return absl::InvalidArgumentError("artifact header: a name is no plain file name");
    if (file.size() > kMaxArtifactFileBytes - total) {
      return absl::InvalidArgumentError("artifact header: the side files are too large");
    }
    total += file.size();
    if (!names.insert(file.name()).second) {
      return absl::InvalidArgumentError("artifact header: a file is named twice");
    }
    out.files.push_back({file.name(), file.size()});
  }
  if (in.num_params() > kMaxArtifactParams) {
    return absl::InvalidArgumentError(
        absl::StrCat("artifact header: ", in.num_params(), " parameters"));
  }
  out.num_params = in.num_params();
  out.round = RoundId{in.round()};
  GDF_ASSIGN_OR_RETURN(out.theta, Digest::FromBytes(in.theta()));
  if (!in.commit().empty()) {
    GDF_ASSIGN_OR_RETURN(out.commit, DecodeCommit(AsBytes(std::string_view(in.commit()))));
  }
  return out;
}

}  // namespace gdf::wire
