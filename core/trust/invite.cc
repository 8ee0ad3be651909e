#include "core/trust/invite.h"

#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/byte_io.h"
#include "core/base/encoding.h"
#include "core/base/name.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"

namespace gdf::trust {
namespace {

constexpr std::string_view kPrefix = "gdf1:";
constexpr uint8_t kVersion = 1;
constexpr size_t kCheckBytes = 4;  // against typing errors; forgery is met by the secret
constexpr size_t kMaxAddresses = 8;
constexpr size_t kMaxAddressBytes = 255;
constexpr size_t kMaxTextBytes = 20'000;  // 5 coordinators with 8 addresses of 255 bytes
constexpr std::string_view kSecretLabel = "gdf-invite-secret-1";
constexpr int64_t kMaxUnixMs = int64_t{1} << 47;

std::string Checksum(std::string_view bytes) {
  return std::string(AsString(HashBytes(bytes).span().first(kCheckBytes)));
}

absl::Status Bad(std::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("this is not a usable invite: ", ToAbsl(why)));
}

absl::Status Check(const Invite& invite) {
  if (invite.roles.empty()) return Bad("it gives no role");
  if (invite.expires_unix_ms < 0 || invite.expires_unix_ms > kMaxUnixMs) {
    return Bad("its expiry is not a date");
  }
  if (invite.coordinators.empty() || invite.coordinators.size() > Invite::kMaxCoordinators) {
    return Bad(absl::StrCat("it names ", invite.coordinators.size(), " coordinators, expected 1 to ",
                            Invite::kMaxCoordinators));
  }
  for (const InviteCoordinator& coordinator : invite.coordinators) {
    if (coordinator.id.zero()) return Bad("a coordinator has no id");
    if (coordinator.addresses.empty() || coordinator.addresses.size() > kMaxAddresses) {
      return Bad(absl::StrCat("a coordinator has ", coordinator.addresses.size(),
                              " addresses, expected 1 to ", kMaxAddresses));
    }
    for (const std::string& address : coordinator.addresses) {
      if (address.empty()) return Bad("an address of a coordinator is empty");
      GDF_RETURN_IF_ERROR(CheckText("a coordinator's address in the invite", address, kMaxAddressBytes));
    }
  }
  return absl::OkStatus();
}

std::string Encode(const Invite& invite) {
  ByteWriter out;
  out.U8(kVersion).Bytes(invite.network.digest().bytes).Bytes(invite.id).Bytes(invite.secret);
  out.U8(static_cast<uint8_t>(invite.roles.bits())).U64(static_cast<uint64_t>(invite.expires_unix_ms));
  out.U8(static_cast<uint8_t>(invite.coordinators.size()));
  for (const InviteCoordinator& coordinator : invite.coordinators) {
    out.Bytes(coordinator.id.digest().bytes).U8(static_cast<uint8_t>(coordinator.addresses.size()));
    for (const std::string& address : coordinator.addresses) {
      out.U8(static_cast<uint8_t>(address.size())).Bytes(address);
    }
  }
  return out.Take();
}

absl::StatusOr<Invite> Decode(std::string_view bytes) {
  ByteReader in(bytes);
  Invite invite;
  in.U8();  // the version, checked by the caller
  invite.network = NetworkId(in.Digest());
  invite.id = in.Array<16>();
  invite.secret = in.Array<20>();
  const uint8_t roles = in.U8();
  invite.expires_unix_ms = static_cast<int64_t>(in.U64());
  const size_t coordinators = in.U8();
  for (size_t i = 0; i < coordinators && in.ok(); ++i) {
    InviteCoordinator& coordinator = invite.coordinators.emplace_back();
    coordinator.id = NodeId(in.Digest());
    const size_t addresses = in.U8();
    for (size_t k = 0; k < addresses && in.ok(); ++k) {
      coordinator.addresses.emplace_back(in.Bytes(in.U8()));
    }
  }
  if (!in.Done()) return Bad("its parts do not add up");
  GDF_ASSIGN_OR_RETURN(invite.roles, RoleSet::FromBits(roles));
  GDF_RETURN_IF_ERROR(Check(invite));
  return invite;
}

}  // namespace

std::string ToString(const InviteId& id) { return HexEncode(id); }

absl::StatusOr<InviteId> ParseInviteId(std::string_view text) {
  const absl::StatusOr<std::string> raw = HexDecode(text);
  InviteId id;
  if (!raw.ok() || raw->size() != id.size()) {
    return absl::InvalidArgumentError(absl::StrCat("'", ToAbsl(text.substr(0, 64)),
                                                   "' is not the id of an invite: expected 32 hexadecimal digits"));
  }
  std::memcpy(id.data(), raw->data(), id.size());
  return id;
}

void Invite::Randomize(Rng& rng) {
  rng.Fill(absl::MakeSpan(id));
  rng.Fill(absl::MakeSpan(secret));
}

absl::StatusOr<std::string> Invite::ToText() const {
  GDF_RETURN_IF_ERROR(Check(*this));
  std::string bytes = Encode(*this);
  bytes += Checksum(bytes);
  return absl::StrCat(ToAbsl(kPrefix), Base32Encode(AsBytes(bytes)));
}

absl::StatusOr<Invite> Invite::Parse(std::string_view text) {
  std::string line(absl::StripAsciiWhitespace(ToAbsl(text)));
  if (line.size() > kMaxTextBytes) return Bad("it is too long");
  absl::AsciiStrToLower(&line);
  if (line.compare(0, kPrefix.size(), kPrefix) != 0) {
    if (line.compare(0, 3, "gdf") == 0 && line.size() > 4 && line[4] == ':') {
      return Bad(absl::StrCat("it is of version ", line.substr(3, 1),
                              ", this program knows version 1. Install the newest release"));
    }
    return Bad("it does not start with 'gdf1:'. Copy the whole line that 'gdfctl invite' printed");
  }
  const absl::StatusOr<std::string> raw = Base32Decode(std::string_view(line).substr(kPrefix.size()));
  constexpr std::string_view kDamaged = "it was damaged or cut short in copying. Copy the whole line again";
  if (!raw.ok() || raw->size() <= kCheckBytes) return Bad(kDamaged);
  const std::string_view bytes = std::string_view(*raw).substr(0, raw->size() - kCheckBytes);
  if (Checksum(bytes) != std::string_view(*raw).substr(bytes.size())) return Bad(kDamaged);
  if (static_cast<uint8_t>(bytes[0]) != kVersion) return Bad("its content is of a version this program does not know");
  return Decode(bytes);
}

Digest InviteSecretHash(const InviteId& id, const InviteSecret& secret) {
  return Sha256().Update(kSecretLabel).Update(absl::MakeConstSpan(id)).Update(absl::MakeConstSpan(secret)).Finish();
}

}  // namespace gdf::trust
