// A version: a checkpoint for people, which stays when the rounds go on. Its record says what it is, by the commit that made
// it, and what it is made of: up to three manifests of chunks (docs/formats/checkpoint.md). Signed by the node that keeps it.
#ifndef GDF_CORE_CHECKPOINT_VERSION_H_
#define GDF_CORE_CHECKPOINT_VERSION_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/base/hash.h"
#include "core/base/ids.h"
#include "core/trust/node_key.h"
#include "core/wire/round_messages.h"

namespace gdf::checkpoint {

inline constexpr uint64_t kMaxVersionBytes = uint64_t{1} << 20;  // of a record

struct Version {
  wire::Commit commit;        // of the state that it keeps; not checked against the network's record here
  uint64_t num_params = 0;    // values of θ
  uint64_t num_momentum = 0;  // and of what outer steps carry on beside it
  // Manifests of its parts. What every member has alike, and some of them keep (holders.h), zero where others do: θ with the
  // files of an export; the momentum, zero also where there is none. And this node's own: the worker's inner state, zero
  // where it was not saved. All zero: the node was to keep it, and its owner removed it.
  Digest model;
  Digest outer;
  Digest inner;
  uint64_t new_bytes = 0;      // of chunks that were not on the node before
  int64_t written_unix_ms = 0;
  NodeId node;                 // that wrote it

  JobId job() const { return commit.receipt.tag.job; }
  RoundId round() const { return commit.receipt.result.round; }
  const wire::StateId& state() const { return commit.receipt.result; }
  bool holds() const { return !model.zero(); }  // what every member has alike
  bool given_up() const { return model.zero() && inner.zero(); }
  bool operator==(const Version&) const = default;
};

// Its record; `node` becomes the key's.
std::string EncodeVersion(const Version& version, const trust::NodeKey& key);
// Any bytes. kInvalidArgument naming what is wrong; kPermissionDenied when the signature does not hold.
absl::StatusOr<Version> DecodeVersion(std::string_view bytes);

}  // namespace gdf::checkpoint

#endif  // GDF_CORE_CHECKPOINT_VERSION_H_
