// How every message of a peer is parsed before it is looked at. Private to core/wire.
#ifndef GDF_CORE_WIRE_PARSE_H_
#define GDF_CORE_WIRE_PARSE_H_

#include <array>
#include <limits>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/encoding.h"
#include "core/base/hash.h"
#include "core/base/ids.h"
#include "core/base/text.h"

namespace gdf::wire {

// The protobuf Message that `bytes` are. InvalidArgument, which calls them `what`: longer than `most`, or malformed.
template <typename Message>
absl::StatusOr<Message> ParseMessage(std::string_view bytes, std::string_view what,
                                     size_t most = std::numeric_limits<int>::max()) {
  if (bytes.size() > most) {
    return absl::InvalidArgumentError(
        absl::StrCat(ToAbsl(what), " of ", bytes.size(), " bytes, at most ", most, " are allowed"));
  }
  Message message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::InvalidArgumentError(absl::StrCat("malformed ", ToAbsl(what), " of ", bytes.size(), " bytes"));
  }
  return message;
}

// As a message's bytes field holds it.
template <size_t n>
std::string Raw(const std::array<uint8_t, n>& bytes) {
  return std::string(AsString(bytes));
}
inline std::string Raw(const Digest& digest) { return Raw(digest.bytes); }
template <typename Tag>
std::string Raw(const DigestId<Tag>& id) {
  return Raw(id.digest());
}

}  // namespace gdf::wire

#endif  // GDF_CORE_WIRE_PARSE_H_
