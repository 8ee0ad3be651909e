#include "core/data/normalizer.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/data/pattern.h"
#include "core/data/unicode.h"
#include "core/data/utf8.h"

namespace gdf::data {
namespace {

// A replacement may not blow a text up beyond this.
constexpr size_t kMaxNormalizedBytes = size_t{1} << 30;

std::optional<NormalForm> NormalFormNamed(const std::string& type) {
  if (type == "NFC") return NormalForm::kNfc;
  if (type == "NFD") return NormalForm::kNfd;
  if (type == "NFKC") return NormalForm::kNfkc;
  if (type == "NFKD") return NormalForm::kNfkd;
  return std::nullopt;
}

std::string Stripped(std::string_view text, bool left, bool right) {
  size_t begin = 0, end = text.size();
  while (left && begin < end) {
    size_t next = begin;
    if (!IsWhiteSpace(NextCodePoint(text, &next))) break;
    begin = next;
  }
  while (right && begin < end) {
    size_t previous = end;
    if (!IsWhiteSpace(PreviousCodePoint(text, &previous))) break;
    end = previous;
  }
  return std::string(text.substr(begin, end - begin));
}

absl::Status Replace(const Pattern& pattern, const std::string& content, std::string* text) {
  std::string out;
  size_t copied = 0;
  bool too_large = false;
  GDF_RETURN_IF_ERROR(pattern.ForEachMatch(*text, [&](size_t begin, size_t end) {
    if (too_large || out.size() + content.size() > kMaxNormalizedBytes) {
      too_large = true;
      return;
    }
    out.append(*text, copied, begin - copied);
    out += content;
    copied = end;
  }));
  if (too_large) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a Replace normalizer of the tokenizer makes a text of ", text->size(),
        " bytes larger than ", kMaxNormalizedBytes, " bytes; give it smaller documents"));
  }
  if (copied == 0 && out.empty()) return absl::OkStatus();
  out.append(*text, copied, std::string::npos);
  *text = std::move(out);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Normalizer> Normalizer::Parse(const nlohmann::json* json) {
  Normalizer normalizer;
  if (json == nullptr) return normalizer;
  GDF_ASSIGN_OR_RETURN(const JsonObject object, JsonObject::From(*json, "normalizer"));
  GDF_RETURN_IF_ERROR(normalizer.Add(object));
  return normalizer;
}

absl::Status Normalizer::Add(const JsonObject& json) {
  GDF_ASSIGN_OR_RETURN(const std::string type, json.String("type"));
  if (type == "Sequence") {
    GDF_RETURN_IF_ERROR(json.OnlyFields({"type", "normalizers"}));
    GDF_ASSIGN_OR_RETURN(const nlohmann::json* parts, json.Array("normalizers"));
    for (size_t i = 0; i < parts->size(); ++i) {
      GDF_ASSIGN_OR_RETURN(
          const JsonObject part,
          JsonObject::From((*parts)[i], absl::StrCat(json.NameOf("normalizers"), "[", i, "]")));
      GDF_RETURN_IF_ERROR(Add(part));
    }
    return absl::OkStatus();
  }
  if (const std::optional<NormalForm> form = NormalFormNamed(type)) {
    steps_.push_back([form = *form](std::string* text) -> absl::Status {
      GDF_ASSIGN_OR_RETURN(*text, Normalize(form, *text));
      return absl::OkStatus();
    });
    return json.OnlyFields({"type"});
  }
  if (type == "Lowercase") {
    steps_.push_back([](std::string* text) {
      *text = ToLower(*text);
      return absl::OkStatus();
    });
    return json.OnlyFields({"type"});
  }
  if (type == "Prepend") {
    GDF_ASSIGN_OR_RETURN(const std::string prefix, json.String("prepend"));
    steps_.push_back([prefix](std::string* text) {
      if (!text->empty()) text->insert(0, prefix);
      return absl::OkStatus();
    });
    return json.OnlyFields({"type", "prepend"});
  }
  if (type == "Strip") {
    GDF_ASSIGN_OR_RETURN(const bool left, json.Bool("strip_left"));
    GDF_ASSIGN_OR_RETURN(const bool right, json.Bool("strip_right"));
    steps_.push_back([left, right](std::string* text) {
      *text = Stripped(*text, left, right);
      return absl::OkStatus();
    });
    return json.OnlyFields({"type", "strip_left", "strip_right"});
  }
  if (type == "Replace") return AddReplace(json);
  return absl::UnimplementedError(
      absl::StrCat(json.name(), " of type \"", type, "\" is not supported"));
}

absl::Status Normalizer::AddReplace(const JsonObject& json) {
  GDF_RETURN_IF_ERROR(json.OnlyFields({"type", "pattern", "content"}));
  GDF_ASSIGN_OR_RETURN(Pattern pattern, Pattern::Parse(json));
  GDF_ASSIGN_OR_RETURN(const std::string content, json.String("content"));
  steps_.push_back([pattern = std::move(pattern), content](std::string* text) {
    return Replace(pattern, content, text);
  });
  return absl::OkStatus();
}

absl::Status Normalizer::Apply(std::string* text) const {
  for (const Step& step : steps_) GDF_RETURN_IF_ERROR(step(text));
  return absl::OkStatus();
}

}  // namespace gdf::data
