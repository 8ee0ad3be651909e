// An invite: one line of text that lets its bearer join a network. "gdf1:" + base32 of the bytes in
// docs/formats/invite.md. The network keeps only a hash of the secret.
#ifndef GDF_CORE_TRUST_INVITE_H_
#define GDF_CORE_TRUST_INVITE_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/ids.h"
#include "core/base/rng.h"
#include "core/trust/roles.h"

namespace gdf::trust {

using InviteId = std::array<uint8_t, 16>;
using InviteSecret = std::array<uint8_t, 20>;

std::string ToString(const InviteId& id);  // 32 hexadecimal digits
absl::StatusOr<InviteId> ParseInviteId(std::string_view text);

// Whom to dial, and which key must answer.
struct InviteCoordinator {
  NodeId id;
  std::vector<std::string> addresses;  // "host:port", "[v6]:port"; 1 to 8, each at most 255 bytes

  bool operator==(const InviteCoordinator&) const = default;
};

struct Invite {
  static constexpr size_t kMaxCoordinators = 5;

  NetworkId network;
  InviteId id{};
  InviteSecret secret{};
  RoleSet roles;
  int64_t expires_unix_ms = 0;  // what the joiner is told; the network's own record decides
  std::vector<InviteCoordinator> coordinators;  // 1 to 5

  bool operator==(const Invite&) const = default;

  // Fills id and secret.
  void Randomize(Rng& rng);
  // The text. kInvalidArgument when a field is out of range.
  absl::StatusOr<std::string> ToText() const;
  // Accepts either case and surrounding white space. kInvalidArgument says what is wrong: not an
  // invite, a newer version, damaged in copying (checksum), cut short.
  static absl::StatusOr<Invite> Parse(std::string_view text);
};

// What the network stores and a Join command carries instead of the secret.
Digest InviteSecretHash(const InviteId& id, const InviteSecret& secret);

}  // namespace gdf::trust

#endif  // GDF_CORE_TRUST_INVITE_H_
