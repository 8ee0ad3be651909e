// Strong identifiers: a NodeId cannot be passed where a JobId is meant.
#ifndef GDF_CORE_BASE_IDS_H_
#define GDF_CORE_BASE_IDS_H_

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "core/base/hash.h"

namespace gdf {

// An identifier that is a SHA-256 digest; text form: base32 of the 32 bytes (52 characters).
template <typename Tag>
class DigestId {
 public:
  DigestId() = default;
  explicit DigestId(const Digest& digest) : digest_(digest) {}
  auto operator<=>(const DigestId&) const = default;
  const Digest& digest() const { return digest_; }
  bool zero() const { return digest_.zero(); }
  std::string ToString() const;
  std::string Short() const { return ToString().substr(0, 10); }  // for people
  static absl::StatusOr<DigestId> Parse(std::string_view text);

  template <typename H>
  friend H AbslHashValue(H h, const DigestId& id) {
    return H::combine(std::move(h), id.digest_);
  }

 private:
  Digest digest_;
};

using NodeId = DigestId<struct NodeTag>;        // SHA-256 of the node's Ed25519 public key
using NetworkId = DigestId<struct NetworkTag>;  // SHA-256 of the signed genesis record
extern template class DigestId<struct NodeTag>;
extern template class DigestId<struct NetworkTag>;

// A counted identifier.
template <typename Tag>
struct CountedId {
  uint64_t value = 0;
  auto operator<=>(const CountedId&) const = default;
  CountedId next() const { return {value + 1}; }

  template <typename H>
  friend H AbslHashValue(H h, const CountedId& id) {
    return H::combine(std::move(h), id.value);
  }
};

using JobId = CountedId<struct JobTag>;      // given by the coordinator, from 1; shown as "j17"
using Epoch = CountedId<struct EpochTag>;    // of one job; opened only by coordinators, from 1
using RoundId = CountedId<struct RoundTag>;  // of one job; round r takes θ_r to θ_{r+1}

std::string ToString(JobId id);                              // "j17"
absl::StatusOr<JobId> ParseJobId(std::string_view text);     // "j17" or "17"

}  // namespace gdf

#endif  // GDF_CORE_BASE_IDS_H_
