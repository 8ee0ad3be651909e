// A network's first record: its name, policy and first coordinator, signed by that coordinator.
// NetworkId = SHA-256 of the signed record, so that two networks never share an id and nobody can
// present another genesis for one. Bytes: docs/formats/genesis.md.
#ifndef GDF_CORE_TRUST_GENESIS_H_
#define GDF_CORE_TRUST_GENESIS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/ids.h"
#include "core/trust/node_key.h"

namespace gdf::trust {

struct NetworkPolicy {
  uint32_t max_members = 1000;                              // active ones; 1 to 100,000
  uint64_t max_invite_ttl_ms = uint64_t{90} * 24 * 3600 * 1000;  // 1 s to 10 years

  bool operator==(const NetworkPolicy&) const = default;
};

struct Genesis {
  std::string name;            // CheckName of core/base/name.h
  int64_t created_unix_ms = 0;
  PublicKey coordinator_key{};  // of the first coordinator
  NetworkPolicy policy;

  NodeId coordinator() const { return NodeIdOf(coordinator_key); }
  bool operator==(const Genesis&) const = default;

  // The signed record. kInvalidArgument when a field is out of range or `key` is not
  // coordinator_key's.
  absl::StatusOr<std::string> Sign(const NodeKey& key) const;
  // Parses a signed record and checks the signature. kInvalidArgument on bad bytes or values,
  // kPermissionDenied on a bad signature.
  static absl::StatusOr<Genesis> Parse(std::string_view record);
};

// The id of the network that `record` (signed genesis bytes) founds.
NetworkId NetworkIdOf(std::string_view record);

}  // namespace gdf::trust

#endif  // GDF_CORE_TRUST_GENESIS_H_
