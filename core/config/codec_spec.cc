#include "core/config/codec_spec.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gdf::config {
namespace {

enum class Option { kNone, kBlock, kK };

struct KindName {
  CodecKind kind;
  const char* name;
  Option option;
  uint32_t usual;  // value of the option
  bool can_be_stochastic = false;
};
constexpr std::string_view kStochastic = ":stochastic";
constexpr std::string_view kPowerSgd = "powersgd";
constexpr uint32_t kUsualPowerSgdRank = 4;

constexpr KindName kKinds[] = {
    {CodecKind::kFp32, "fp32", Option::kNone, 0},
    {CodecKind::kBf16, "bf16", Option::kNone, 0},
    {CodecKind::kFp16, "fp16", Option::kNone, 0},
    {CodecKind::kInt8, "int8", Option::kBlock, 256, true},
    {CodecKind::kInt4, "int4", Option::kBlock, 128, true},
    {CodecKind::kFp4, "fp4", Option::kBlock, 64},
    {CodecKind::kSign, "sign", Option::kBlock, 1024},
    {CodecKind::kTopK2, "topk2", Option::kK, 64},
    {CodecKind::kTopK8, "topk8", Option::kK, 64},
    {CodecKind::kDct, "dct", Option::kK, 4},
};

const KindName* Find(CodecKind kind) {
  const auto* found = std::find_if(std::begin(kKinds), std::end(kKinds),
                                   [kind](const KindName& entry) { return entry.kind == kind; });
  return found == std::end(kKinds) ? nullptr : found;
}

uint32_t MaxK(CodecKind kind) { return kind == CodecKind::kDct ? CodecSpec::kMaxDctK : CodecSpec::kMaxK; }

const KindName* FindNamed(std::string_view text) {
  const auto* found = std::find_if(std::begin(kKinds), std::end(kKinds), [text](const KindName& entry) {
    return entry.name == text.substr(0, text.find(':'));
  });
  return found == std::end(kKinds) ? nullptr : found;
}

std::string FormOf(const KindName& kind) {
  const char* option = kind.option == Option::kBlock ? "[:BLOCK]" : "[:K]";
  return absl::StrCat(kind.name, kind.option == Option::kNone ? "" : option,
                      kind.can_be_stochastic ? "[:stochastic]" : "");
}

std::string Names() {
  return absl::StrJoin(kKinds, ", ", [](std::string* out, const KindName& kind) { *out += FormOf(kind); });
}

std::string RangeOf(const KindName& kind) {
  switch (kind.option) {
    case Option::kNone: return "alone";
    case Option::kBlock:
      return absl::StrCat("with BLOCK a power of two from ", CodecSpec::kMinBlock, " to ", CodecSpec::kMaxBlock);
    case Option::kK: return absl::StrCat("with K from 1 to ", MaxK(kind.kind));
  }
  return "";
}

std::string Ranges() {
  return absl::StrCat("BLOCK a power of two from ", CodecSpec::kMinBlock, " to ",
                      CodecSpec::kMaxBlock, ", K from 1 to ", CodecSpec::kMaxK, ", for dct to ",
                      CodecSpec::kMaxDctK);
}

}  // namespace

absl::Status CodecSpec::Check() const {
  const KindName* known = Find(kind);
  if (known == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("codec kind ", static_cast<int>(kind), ", expected 1 to ", std::size(kKinds),
                     "; the sender speaks another version"));
  }
  const bool block_fits = known->option == Option::kBlock
                              ? std::has_single_bit(block) && block >= kMinBlock && block <= kMaxBlock
                              : block == 0;
  const bool k_fits = known->option == Option::kK ? k >= 1 && k <= MaxK(kind) : k == 0;
  if (block_fits && k_fits && (known->can_be_stochastic || !stochastic)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("codec ", known->name, " with block ", block,
                                                 " and k ", k, stochastic ? ", stochastic" : "",
                                                 ", expected ", Ranges(),
                                                 ", 0 where it has none, and only int8 and int4 stochastic"));
}

absl::StatusOr<CodecSpec> CodecSpec::Parse(std::string_view text) {
  const bool stochastic = text.ends_with(kStochastic);
  const std::string_view plain = text.substr(0, text.size() - (stochastic ? kStochastic.size() : 0));
  const size_t colon = plain.find(':');
  const bool has_option = colon != std::string_view::npos;
  const std::string got = absl::StrCat(", got '", std::string(text.substr(0, 60)), "'");
  const KindName* known = FindNamed(text);
  if (known == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("must be one of ", Names(), " with ", Ranges(), got));
  }
  uint32_t option = known->usual;
  const bool read = !has_option || absl::SimpleAtoi(std::string(plain.substr(colon + 1)), &option);
  CodecSpec spec{.kind = known->kind, .stochastic = stochastic};
  if (known->option == Option::kBlock) spec.block = option;
  if (known->option == Option::kK) spec.k = option;
  // The text must be the one that ToString gives: no sign, space or leading zero.
  if (read && spec.Check().ok() && (!has_option || spec.ToString() == text)) return spec;
  return absl::InvalidArgumentError(absl::StrCat("must be ", FormOf(*known), " ", RangeOf(*known), got));
}

bool CodecSpec::IsNamed(std::string_view text) { return FindNamed(text) != nullptr; }

std::string CodecSpec::ToString() const {
  const KindName* known = Find(kind);
  if (known == nullptr) return absl::StrCat("codec ", static_cast<int>(kind));
  if (known->option == Option::kNone) return known->name;
  return absl::StrCat(known->name, ":", known->option == Option::kBlock ? block : k,
                      stochastic ? ":stochastic" : "");
}

bool IsPowerSgd(std::string_view text) { return text.substr(0, text.find(':')) == kPowerSgd; }

absl::StatusOr<uint32_t> ParsePowerSgd(std::string_view text) {
  if (text == kPowerSgd) return kUsualPowerSgdRank;
  uint32_t rank = 0;
  const bool read = IsPowerSgd(text) && absl::SimpleAtoi(std::string(text.substr(kPowerSgd.size() + 1)), &rank);
  if (read && rank >= 1 && rank <= kMaxPowerSgdRank && PowerSgdName(rank) == text) return rank;
  return absl::InvalidArgumentError(absl::StrCat("must be ", std::string(kPowerSgd), " or ", std::string(kPowerSgd),
                                                 ":RANK with RANK from 1 to ", kMaxPowerSgdRank, ", got '",
                                                 std::string(text.substr(0, 60)), "'"));
}

std::string PowerSgdName(uint32_t rank) { return absl::StrCat(std::string(kPowerSgd), ":", rank); }

std::vector<CodecSpec> AutoCodecs() {
  std::vector<CodecSpec> codecs;
  for (const char* name : {"fp32", "bf16", "int8", "int4"}) codecs.push_back(*CodecSpec::Parse(name));
  return codecs;
}

}  // namespace gdf::config
