#include "core/data/pre_tokenizer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/data/byte_alphabet.h"
#include "core/data/pattern.h"
#include "core/data/unicode.h"
#include "core/data/utf8.h"

namespace gdf::data {
namespace {

// GPT-2's own pattern (openai/gpt-2, encoder.py), which ByteLevel uses where use_regex is set.
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

absl::StatusOr<Behavior> ParseBehavior(const JsonObject& json) {
  GDF_ASSIGN_OR_RETURN(const std::string name, json.String("behavior"));
  if (name == "Removed") return Behavior::kRemoved;
  if (name == "Isolated") return Behavior::kIsolated;
  if (name == "MergedWithPrevious") return Behavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return Behavior::kMergedWithNext;
  if (name == "Contiguous") return Behavior::kContiguous;
  return absl::UnimplementedError(
      absl::StrCat(json.NameOf("behavior"), " \"", name, "\" is not supported"));
}

// A part of one piece: between two matches or a match itself. Together they cover the piece.
struct Part {
  size_t begin;
  size_t end;
  bool is_match;
};

void AddParts(const std::vector<Part>& parts, Behavior behavior, Pieces* out) {
  const auto merge_backward = [&](auto joins) {
    bool previous_match = false;
    std::optional<Part> open;
    for (const Part& part : parts) {
      if (open && joins(part.is_match, previous_match)) {
        open->end = part.end;
      } else {
        if (open) out->AddText(open->begin, open->end);
        open = part;
      }
      previous_match = part.is_match;
    }
    if (open) out->AddText(open->begin, open->end);
  };
  switch (behavior) {
    case Behavior::kRemoved:
      for (const Part& part : parts) {
        if (!part.is_match) out->AddText(part.begin, part.end);
      }
      return;
    case Behavior::kIsolated:
      for (const Part& part : parts) out->AddText(part.begin, part.end);
      return;
    case Behavior::kContiguous:
      return merge_backward([](bool match, bool previous) { return match == previous; });
    case Behavior::kMergedWithPrevious:
      return merge_backward([](bool match, bool previous) { return match && !previous; });
    case Behavior::kMergedWithNext:
      // A match opens what the part behind it joins, unless that is a match too.
      for (size_t i = 0; i < parts.size(); ++i) {
        const bool joins = parts[i].is_match && i + 1 < parts.size() && !parts[i + 1].is_match;
        out->AddText(parts[i].begin, parts[joins ? i + 1 : i].end);
        if (joins) ++i;
      }
  }
}

// Appends the parts of [begin, end) of a piece to `parts`, cut by the matches of `pattern`.
absl::Status FindParts(std::string_view text, size_t offset, const Pattern& pattern, bool invert,
                       std::vector<Part>* parts) {
  size_t previous = 0;
  GDF_RETURN_IF_ERROR(pattern.ForEachMatch(text, [&](size_t begin, size_t end) {
    if (previous != begin) parts->push_back({offset + previous, offset + begin, invert});
    parts->push_back({offset + begin, offset + end, !invert});
    previous = end;
  }));
  if (previous != text.size()) parts->push_back({offset + previous, offset + text.size(), invert});
  return absl::OkStatus();
}

absl::Status Split(const Pattern& pattern, Behavior behavior, bool invert, Pieces* pieces) {
  const std::vector<Piece> before = std::exchange(pieces->pieces, {});
  std::vector<Part> parts;
  for (const Piece& piece : before) {
    if (!piece.is_text()) {
      pieces->pieces.push_back(piece);
      continue;
    }
    parts.clear();
    GDF_RETURN_IF_ERROR(FindParts(pieces->TextOf(piece), piece.begin, pattern, invert, &parts));
    AddParts(parts, behavior, pieces);
  }
  return absl::OkStatus();
}

// Cuts around every numeric character, or around every run of them.
absl::Status SplitDigits(bool individual, Pieces* pieces) {
  const std::vector<Piece> before = std::exchange(pieces->pieces, {});
  for (const Piece& piece : before) {
    if (!piece.is_text()) {
      pieces->pieces.push_back(piece);
      continue;
    }
    size_t begin = piece.begin;
    bool numeric_before = false;
    for (size_t pos = piece.begin; pos < piece.end;) {
      const size_t at = pos;
      const bool numeric = IsNumeric(NextCodePoint(pieces->text, &pos));
      if (numeric != numeric_before || (numeric && individual)) {
        pieces->AddText(begin, at);
        begin = at;
      }
      numeric_before = numeric;
    }
    pieces->AddText(begin, piece.end);
  }
  return absl::OkStatus();
}

absl::Status ToByteCharacters(bool add_prefix_space, const std::optional<Pattern>& pattern,
                              Pieces* pieces) {
  if (add_prefix_space) {
    Pieces prefixed;
    for (const Piece& piece : pieces->pieces) {
      const std::string_view text = pieces->TextOf(piece);
      const size_t begin = prefixed.text.size();
      if (piece.is_text() && text.front() != ' ') prefixed.text += ' ';
      prefixed.text += text;
      prefixed.pieces.push_back({begin, prefixed.text.size(), piece.id});
    }
    *pieces = std::move(prefixed);
  }
  if (pattern) GDF_RETURN_IF_ERROR(Split(*pattern, Behavior::kIsolated, false, pieces));
  std::string mapped;
  mapped.reserve(pieces->text.size() + pieces->text.size() / 4);
  for (Piece& piece : pieces->pieces) {
    const size_t begin = mapped.size();
    AppendByteCharacters(pieces->TextOf(piece), &mapped);
    piece.begin = begin;
    piece.end = mapped.size();
  }
  pieces->text = std::move(mapped);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PreTokenizer> PreTokenizer::Parse(const nlohmann::json* json) {
  PreTokenizer pre_tokenizer;
  if (json == nullptr) return pre_tokenizer;
  GDF_ASSIGN_OR_RETURN(const JsonObject object, JsonObject::From(*json, "pre_tokenizer"));
  GDF_RETURN_IF_ERROR(pre_tokenizer.Add(object));
  return pre_tokenizer;
}

absl::Status PreTokenizer::Add(const JsonObject& json) {
  GDF_ASSIGN_OR_RETURN(const std::string type, json.String("type"));
  if (type == "Split") return AddSplit(json);
  if (type == "Digits") return AddDigits(json);
  if (type == "ByteLevel") return AddByteLevel(json);
  if (type != "Sequence") {
    return absl::UnimplementedError(
        absl::StrCat(json.name(), " of type \"", type, "\" is not supported"));
  }
  GDF_RETURN_IF_ERROR(json.OnlyFields({"type", "pretokenizers"}));
  GDF_ASSIGN_OR_RETURN(const nlohmann::json* parts, json.Array("pretokenizers"));
  for (size_t i = 0; i < parts->size(); ++i) {
    GDF_ASSIGN_OR_RETURN(
        const JsonObject part,
        JsonObject::From((*parts)[i], absl::StrCat(json.NameOf("pretokenizers"), "[", i, "]")));
    GDF_RETURN_IF_ERROR(Add(part));
  }
  return absl::OkStatus();
}

absl::Status PreTokenizer::AddSplit(const JsonObject& json) {
  GDF_RETURN_IF_ERROR(json.OnlyFields({"type", "pattern", "behavior", "invert"}));
  GDF_ASSIGN_OR_RETURN(Pattern pattern, Pattern::Parse(json));
  GDF_ASSIGN_OR_RETURN(const Behavior behavior, ParseBehavior(json));
  GDF_ASSIGN_OR_RETURN(const bool invert, json.Bool("invert", false));
  steps_.push_back([pattern = std::move(pattern), behavior, invert](Pieces* pieces) {
    return Split(pattern, behavior, invert, pieces);
  });
  return absl::OkStatus();
}

absl::Status PreTokenizer::AddDigits(const JsonObject& json) {
  GDF_RETURN_IF_ERROR(json.OnlyFields({"type", "individual_digits"}));
  GDF_ASSIGN_OR_RETURN(const bool individual, json.Bool("individual_digits", false));
  steps_.push_back([individual](Pieces* pieces) { return SplitDigits(individual, pieces); });
  return absl::OkStatus();
}

absl::Status PreTokenizer::AddByteLevel(const JsonObject& json) {
  // trim_offsets moves offsets into the text only, which are not kept here.
  GDF_RETURN_IF_ERROR(json.OnlyFields({"type", "add_prefix_space", "trim_offsets", "use_regex"}));
  GDF_ASSIGN_OR_RETURN(const bool add_prefix_space, json.Bool("add_prefix_space"));
  GDF_ASSIGN_OR_RETURN(const bool use_regex, json.Bool("use_regex", true));
  std::optional<Pattern> pattern;
  if (use_regex) {
    GDF_ASSIGN_OR_RETURN(Regex regex, Regex::Compile(kGpt2Pattern));
    pattern = Pattern::FromRegex(std::move(regex));
  }
  steps_.push_back([add_prefix_space, pattern = std::move(pattern)](Pieces* pieces) {
    return ToByteCharacters(add_prefix_space, pattern, pieces);
  });
  return absl::OkStatus();
}

absl::Status PreTokenizer::Apply(Pieces* pieces) const {
  for (const Step& step : steps_) GDF_RETURN_IF_ERROR(step(pieces));
  return absl::OkStatus();
}

}  // namespace gdf::data
