#include "core/base/hash.h"

#include <openssl/evp.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/encoding.h"

namespace gdf {

struct Sha256::Context {
  EVP_MD_CTX* ctx = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(ctx); }
};

namespace {

const EVP_MD* Algorithm() {
  static const EVP_MD* const md = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  return md;
}

}  // namespace

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  GDF_CHECK(EVP_DigestInit_ex(context_->ctx, Algorithm(), nullptr) == 1);
}

Sha256::~Sha256() = default;

Sha256& Sha256::Update(absl::Span<const uint8_t> data) {
  GDF_CHECK(EVP_DigestUpdate(context_->ctx, data.data(), data.size()) == 1);
  return *this;
}

Sha256& Sha256::Update(std::string_view data) { return Update(AsBytes(data)); }

Sha256& Sha256::UpdateU64(uint64_t value) {
  uint8_t bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<uint8_t>(value >> (8 * i));
  return Update(absl::MakeConstSpan(bytes, 8));
}

Digest Sha256::Finish() {
  Digest digest;
  GDF_CHECK(EVP_DigestFinal_ex(context_->ctx, digest.bytes.data(), nullptr) == 1);
  return digest;
}

std::string Digest::ToHex() const { return HexEncode(bytes); }

absl::StatusOr<Digest> Digest::FromBytes(std::string_view raw) {
  if (raw.size() != kSize) {
    return absl::InvalidArgumentError(
        absl::StrCat("a digest has ", raw.size(), " bytes, expected ", kSize));
  }
  Digest digest;
  std::memcpy(digest.bytes.data(), raw.data(), kSize);
  return digest;
}

absl::StatusOr<Digest> Digest::FromHex(std::string_view text) {
  auto raw = HexDecode(text);
  if (!raw.ok()) return raw.status();
  return FromBytes(*raw);
}

Digest HashBytes(absl::Span<const uint8_t> data) { return Sha256().Update(data).Finish(); }
Digest HashBytes(std::string_view data) { return HashBytes(AsBytes(data)); }

Digest MerkleLeaf(absl::Span<const uint8_t> leaf) {
  return Sha256().Update(std::string_view("\0", 1)).Update(leaf).Finish();
}

Digest MerkleRootOfLeaves(std::vector<Digest> level, uint64_t total_bytes) {
  while (level.size() > 1) {
    std::vector<Digest> next;
    next.reserve((level.size() + 1) / 2);
    for (size_t i = 0; i + 1 < level.size(); i += 2) {
      next.push_back(
          Sha256().Update("\1").Update(level[i].span()).Update(level[i + 1].span()).Finish());
    }
    if (level.size() % 2 == 1) next.push_back(level.back());
    level = std::move(next);
  }
  const Digest top = level.empty() ? Digest{} : level[0];
  return Sha256().Update("\2").UpdateU64(total_bytes).Update(top.span()).Finish();
}

Digest MerkleRoot(absl::Span<const uint8_t> data) {
  std::vector<Digest> leaves;
  for (size_t at = 0; at < data.size(); at += kMerkleLeafBytes) {
    leaves.push_back(MerkleLeaf(data.subspan(at, std::min(kMerkleLeafBytes, data.size() - at))));
  }
  return MerkleRootOfLeaves(std::move(leaves), data.size());
}

}  // namespace gdf
