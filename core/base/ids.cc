#include "core/base/ids.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/encoding.h"
#include "core/base/status_macros.h"

namespace gdf {

template <typename Tag>
std::string DigestId<Tag>::ToString() const {
  return Base32Encode(digest_.span());
}

template <typename Tag>
absl::StatusOr<DigestId<Tag>> DigestId<Tag>::Parse(std::string_view text) {
  GDF_ASSIGN_OR_RETURN(std::string raw, Base32Decode(text));
  GDF_ASSIGN_OR_RETURN(Digest digest, Digest::FromBytes(raw));
  return DigestId(digest);
}

template class DigestId<struct NodeTag>;
template class DigestId<struct NetworkTag>;

std::string ToString(JobId id) { return absl::StrCat("j", id.value); }

absl::StatusOr<JobId> ParseJobId(std::string_view text) {
  const std::string_view digits = !text.empty() && text[0] == 'j' ? text.substr(1) : text;
  JobId id;
  if (!absl::SimpleAtoi(absl::string_view(digits.data(), digits.size()), &id.value) || id.value == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", absl::string_view(text.data(), text.size()), "' is not a job id; expected e.g. j17"));
  }
  return id;
}

}  // namespace gdf
