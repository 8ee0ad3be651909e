#include "core/checkpoint/version.h"

#include "absl/strings/str_cat.h"
#include "core/base/byte_io.h"
#include "core/base/encoding.h"
#include "core/base/status_macros.h"

namespace gdf::checkpoint {
namespace {

constexpr std::string_view kMagic = "GDFCKP1\n";
constexpr char kLabel[] = "gdf checkpoint 1";
constexpr size_t kSignatureBytes = std::tuple_size_v<trust::Signature>;
// What a machine could hold, and no sum of two overflows.
constexpr uint64_t kMaxValues = uint64_t{1} << 48;

absl::Status Invalid(std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("record of a checkpoint: ", std::string(what)));
}

}  // namespace

std::string EncodeVersion(const Version& version, const trust::NodeKey& key) {
  ByteWriter out;
  const std::string commit = wire::EncodeCommit(version.commit);
  out.Bytes(kMagic).U64(static_cast<uint64_t>(version.written_unix_ms));
  out.U64(version.num_params).U64(version.num_momentum).U64(version.new_bytes);
  out.Bytes(version.model.bytes).Bytes(version.outer.bytes).Bytes(version.inner.bytes);
  out.U32(static_cast<uint32_t>(commit.size())).Bytes(commit).Bytes(key.public_key());
  const trust::Signature signature = key.Sign(kLabel, out.str());
  return out.Bytes(signature).Take();
}

absl::StatusOr<Version> DecodeVersion(std::string_view bytes) {
  if (bytes.size() > kMaxVersionBytes) return Invalid("too long");
  ByteReader in(bytes);
  if (in.Bytes(kMagic.size()) != kMagic) return Invalid("not one of this format");
  Version version;
  version.written_unix_ms = static_cast<int64_t>(in.U64());
  version.num_params = in.U64();
  version.num_momentum = in.U64();
  version.new_bytes = in.U64();
  version.model = in.Digest();
  version.outer = in.Digest();
  version.inner = in.Digest();
  const std::string_view commit = in.Bytes(in.U32());
  const trust::PublicKey key = in.Array<std::tuple_size_v<trust::PublicKey>>();
  const trust::Signature signature = in.Array<kSignatureBytes>();
  if (!in.Done()) return Invalid("cut short, or followed by something else");
  GDF_RETURN_IF_ERROR(Annotate(trust::Verify(key, kLabel, bytes.substr(0, bytes.size() - kSignatureBytes), signature),
                               "record of a checkpoint"));
  GDF_ASSIGN_OR_RETURN(version.commit, wire::DecodeCommit(AsBytes(commit)));
  version.node = trust::NodeIdOf(key);
  if (version.num_params == 0 || version.num_params > kMaxValues || version.num_momentum > kMaxValues) {
    return Invalid("no such number of parameters");
  }
  if (version.written_unix_ms < 0) return Invalid("a time before 1970");
  const bool outer = version.holds() && version.num_momentum > 0;
  if (version.outer.zero() == outer) return Invalid("momentum without chunks, or chunks without");
  return version;
}

}  // namespace gdf::checkpoint
