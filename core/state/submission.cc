#include "core/state/submission.h"

#include <string_view>

namespace gdf::state {
namespace {

void AddText(Sha256& hash, std::string_view text) { hash.UpdateU64(text.size()).Update(text); }

}  // namespace

Digest SubmissionDigest(const NetworkId& network, const Job& job) {
  Sha256 hash;
  hash.Update("gdf submission v1").Update(network.digest().span()).UpdateU64(job.id.value);
  AddText(hash, job.submit_token);
  hash.UpdateU64(static_cast<uint64_t>(job.submitted_unix_ms));
  AddText(hash, job.spec_yaml);
  hash.UpdateU64(job.inputs.size());
  for (const wire::JobInput& input : job.inputs) {
    AddText(hash, input.name);
    hash.Update(input.manifest.span()).UpdateU64(input.size_bytes);
  }
  return hash.Finish();
}

}  // namespace gdf::state
