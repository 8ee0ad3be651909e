#include "core/trust/genesis.h"

#include "absl/strings/str_cat.h"
#include "core/base/byte_io.h"
#include "core/base/name.h"
#include "core/base/status_macros.h"

namespace gdf::trust {
namespace {

constexpr std::string_view kMagic = "GDFGEN1";
constexpr std::string_view kLabel = "gdf genesis 1";
constexpr uint32_t kMaxMembers = 100'000;
constexpr uint64_t kMinTtlMs = 1000;
constexpr uint64_t kMaxTtlMs = uint64_t{3650} * 24 * 3600 * 1000;
constexpr int64_t kMaxUnixMs = int64_t{1} << 47;

absl::Status Check(const Genesis& genesis) {
  GDF_RETURN_IF_ERROR(CheckName("network name", genesis.name));
  if (genesis.created_unix_ms < 0 || genesis.created_unix_ms > kMaxUnixMs) {
    return absl::InvalidArgumentError(
        absl::StrCat("the network's time of creation is ", genesis.created_unix_ms,
                     ", expected milliseconds since 1970, at most ", kMaxUnixMs));
  }
  const NetworkPolicy& policy = genesis.policy;
  if (policy.max_members < 1 || policy.max_members > kMaxMembers) {
    return absl::InvalidArgumentError(absl::StrCat("the policy's max_members is ", policy.max_members,
                                                   ", expected 1 to ", kMaxMembers));
  }
  if (policy.max_invite_ttl_ms < kMinTtlMs || policy.max_invite_ttl_ms > kMaxTtlMs) {
    return absl::InvalidArgumentError(absl::StrCat("the policy's max_invite_ttl_ms is ", policy.max_invite_ttl_ms,
                                                   ", expected ", kMinTtlMs, " to ", kMaxTtlMs));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> Genesis::Sign(const NodeKey& key) const {
  GDF_RETURN_IF_ERROR(Check(*this));
  if (key.public_key() != coordinator_key) {
    return absl::InvalidArgumentError(absl::StrCat("the genesis of ", name, " names coordinator ",
                                                   coordinator().Short(), " but is signed by ", key.id().Short()));
  }
  ByteWriter out;
  out.Bytes(kMagic).U8(static_cast<uint8_t>(name.size())).Bytes(name);
  out.U64(static_cast<uint64_t>(created_unix_ms)).Bytes(coordinator_key);
  out.U32(policy.max_members).U64(policy.max_invite_ttl_ms);
  const Signature signature = key.Sign(kLabel, out.str());
  return out.Bytes(signature).Take();
}

absl::StatusOr<Genesis> Genesis::Parse(std::string_view record) {
  ByteReader in(record);
  const std::string_view magic = in.Bytes(kMagic.size());
  Genesis genesis;
  genesis.name = std::string(in.Bytes(in.U8()));
  genesis.created_unix_ms = static_cast<int64_t>(in.U64());
  genesis.coordinator_key = in.Array<32>();
  genesis.policy.max_members = in.U32();
  genesis.policy.max_invite_ttl_ms = in.U64();
  const size_t body_size = record.size() - in.left();
  const Signature signature = in.Array<64>();
  if (!in.Done() || magic != kMagic) {
    return absl::InvalidArgumentError(
        absl::StrCat(record.size(), " bytes are not a genesis record (docs/formats/genesis.md)"));
  }
  GDF_RETURN_IF_ERROR(Check(genesis));
  GDF_RETURN_IF_ERROR(Verify(genesis.coordinator_key, kLabel, record.substr(0, body_size), signature));
  return genesis;
}

NetworkId NetworkIdOf(std::string_view record) { return NetworkId(HashBytes(record)); }

}  // namespace gdf::trust
