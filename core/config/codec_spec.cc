#include "core/config/codec_spec.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gdf::config {
namespace {

struct KindName {
  CodecKind kind;
  const char* name;
  uint32_t usual_block;  // 0: not a block codec
};
constexpr KindName kKinds[] = {
    {CodecKind::kFp32, "fp32", 0},   {CodecKind::kBf16, "bf16", 0},   {CodecKind::kFp16, "fp16", 0},
    {CodecKind::kInt8, "int8", 256}, {CodecKind::kInt4, "int4", 128}, {CodecKind::kFp4, "fp4", 64},
};

const KindName* Find(CodecKind kind) {
  const auto* found = std::find_if(std::begin(kKinds), std::end(kKinds),
                                   [kind](const KindName& entry) { return entry.kind == kind; });
  return found == std::end(kKinds) ? nullptr : found;
}

std::string Names() {
  return absl::StrJoin(kKinds, ", ", [](std::string* out, const KindName& kind) {
    absl::StrAppend(out, kind.name, kind.usual_block > 0 ? "[:BLOCK]" : "");
  });
}

}  // namespace

absl::Status CodecSpec::Check() const {
  const KindName* known = Find(kind);
  if (known == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("codec kind ", static_cast<int>(kind), ", expected 1 to ", std::size(kKinds),
                     "; the sender speaks another version"));
  }
  if (known->usual_block == 0 ? block == 0
                              : std::has_single_bit(block) && block >= kMinBlock && block <= kMaxBlock) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "codec ", known->name, ": block is ", block, ", expected ",
      known->usual_block == 0 ? "none" : absl::StrCat("a power of two from ", kMinBlock, " to ", kMaxBlock)));
}

absl::StatusOr<CodecSpec> CodecSpec::Parse(std::string_view text) {
  for (const KindName& known : kKinds) {
    if (!text.starts_with(known.name)) continue;
    CodecSpec spec{known.kind, known.usual_block};
    const std::string_view rest = text.substr(std::string_view(known.name).size());
    if (rest.empty()) return spec;
    // The text must be the one that ToString gives: no sign, space or leading zero.
    const std::string digits(rest.substr(1));
    if (rest[0] == ':' && absl::SimpleAtoi(digits, &spec.block) && spec.ToString() == text &&
        spec.Check().ok()) {
      return spec;
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("must be one of ", Names(), " with BLOCK a power of two from ", kMinBlock, " to ",
                   kMaxBlock, ", got '", std::string(text.substr(0, 60)), "'"));
}

std::string CodecSpec::ToString() const {
  const KindName* known = Find(kind);
  if (known == nullptr) return absl::StrCat("codec ", static_cast<int>(kind));
  return known->usual_block > 0 ? absl::StrCat(known->name, ":", block) : known->name;
}

}  // namespace gdf::config
