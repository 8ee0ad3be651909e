#include "core/config/yaml_reader.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "core/config/units.h"

namespace gdf::config {
namespace {

// Levenshtein distance where a swap of neighbours counts as one (optimal string alignment).
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  std::iota(d[0].begin(), d[0].end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min(
          {d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

// Keeps a message readable whatever the file holds.
std::string Quoted(std::string_view text) {
  constexpr size_t kMaxShown = 60;
  std::string shown;
  for (const char c : text.substr(0, kMaxShown))
    shown += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  return absl::StrFormat("'%s%s'", shown, text.size() > kMaxShown ? "..." : "");
}

std::string Describe(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "nothing";
    case YamlNode::Kind::kList:
      return "a list";
    case YamlNode::Kind::kMap:
      return "a mapping";
    case YamlNode::Kind::kScalar:
      break;
  }
  return node.quoted ? absl::StrFormat("the text %s (remove the quotes)", Quoted(node.scalar))
                     : Quoted(node.scalar);
}

std::string Join(const std::vector<std::string_view>& words) {
  std::string text;
  for (const std::string_view word : words)
    absl::StrAppendFormat(&text, "%s%s", text.empty() ? "" : ", ", word);
  return text;
}

bool InRange(double value, NumberRange range) {
  return (range.min_open ? value > range.min : value >= range.min) &&
         (range.max_open ? value < range.max : value <= range.max);
}

std::string Describe(NumberRange range) {
  return absl::StrFormat("%s %s and %s %s", range.min_open ? "above" : "at least",
                         FormatNumber(range.min), range.max_open ? "below" : "at most",
                         FormatNumber(range.max));
}

}  // namespace

std::string_view Nearest(std::string_view word, absl::Span<const std::string_view> candidates) {
  constexpr size_t kMaxWord = 64;  // the distance takes |word| * |candidate| steps
  if (word.size() > kMaxWord) return {};
  std::string_view best;
  size_t best_distance = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string_view candidate : candidates) {
    const size_t distance = EditDistance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

YamlMap::YamlMap(const YamlNode* node, std::string path, Problems* problems)
    : node_(node), path_(std::move(path)), problems_(problems) {}

const YamlNode* YamlMap::Find(std::string_view key) const {
  if (node_ == nullptr) return nullptr;
  for (const YamlEntry& entry : node_->entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

SourceLocation YamlMap::At(std::string_view key) const {
  if (const YamlNode* value = Find(key)) return value->at;
  return node_ == nullptr ? SourceLocation{} : node_->at;
}

std::string YamlMap::Path(std::string_view key) const {
  return path_.empty() ? std::string(key) : absl::StrFormat("%s.%s", path_, key);
}

void YamlMap::Reject(std::string_view key, std::string_view message) {
  problems_->Add(At(key), absl::StrFormat("'%s' %s", Path(key), message));
}

void YamlMap::Forbid(std::string_view key, std::string_view message) {
  Know(key);
  if (node_ == nullptr) return;
  for (const YamlEntry& entry : node_->entries) {
    if (entry.key != key) continue;
    problems_->Add(entry.at, absl::StrFormat("'%s' %s", Path(key), message));
  }
}

const YamlNode* YamlMap::Take(std::string_view key, Need need) {
  Know(key);
  const YamlNode* value = Find(key);
  if (value == nullptr && need == Need::kRequired && node_ != nullptr) {
    problems_->Add(node_->at, path_.empty()
                                  ? absl::StrFormat("missing key '%s'", key)
                                  : absl::StrFormat("missing key '%s' in '%s'", key, path_));
  }
  return value;
}

const std::string* YamlMap::Scalar(std::string_view key, const YamlNode* node,
                                   std::string_view expected, bool plain) {
  if (node->kind == YamlNode::Kind::kScalar && !(plain && node->quoted)) return &node->scalar;
  problems_->Add(node->at,
                 absl::StrFormat("'%s' must be %s, got %s", Path(key), expected, Describe(*node)));
  return nullptr;
}

YamlMap YamlMap::Map(std::string_view key, Need need) {
  const YamlNode* node = Take(key, need);
  if (node != nullptr && node->kind != YamlNode::Kind::kMap) {
    Reject(key, absl::StrFormat("must be a mapping of keys to values, got %s", Describe(*node)));
    node = nullptr;
  }
  return YamlMap(node, Path(key), problems_);
}

void YamlMap::Bool(std::string_view key, Need need, bool* out) {
  const YamlNode* node = Take(key, need);
  if (node == nullptr) return;
  constexpr std::string_view kExpected = "true or false";
  const std::string* text = Scalar(key, node, kExpected, true);
  if (text == nullptr) return;
  if (*text == "true" || *text == "false") {
    *out = *text == "true";
  } else {
    Reject(key, absl::StrFormat("must be %s, got %s", kExpected, Quoted(*text)));
  }
}

void YamlMap::Int(std::string_view key, Need need, IntRange range, int64_t* out) {
  const YamlNode* node = Take(key, need);
  if (node == nullptr) return;
  const std::string expected =
      absl::StrFormat("a whole number from %d to %d", range.min, range.max);
  const std::string* text = Scalar(key, node, expected, true);
  if (text == nullptr) return;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < range.min ||
      value > range.max) {
    Reject(key, absl::StrFormat("must be %s, got %s", expected, Quoted(*text)));
    return;
  }
  *out = value;
}

bool YamlMap::ReadNumber(std::string_view key, const YamlNode& node, NumberRange range,
                         double* out) {
  const std::string expected = absl::StrFormat("a number %s", Describe(range));
  const std::string* text = Scalar(key, &node, expected, true);
  if (text == nullptr) return false;
  const absl::StatusOr<double> value = ParseNumber(*text);
  if (!value.ok() || !InRange(*value, range)) {
    problems_->Add(node.at,
                   absl::StrFormat("'%s' must be %s, got %s", Path(key), expected, Quoted(*text)));
    return false;
  }
  *out = *value;
  return true;
}

void YamlMap::Number(std::string_view key, Need need, NumberRange range, double* out) {
  if (const YamlNode* node = Take(key, need)) ReadNumber(key, *node, range, out);
}

template <typename T, typename Parse, typename Accept>
void YamlMap::Quantity(std::string_view key, Need need, std::string_view expected, Parse parse,
                       Accept accept, T* out) {
  const YamlNode* node = Take(key, need);
  if (node == nullptr) return;
  const std::string* text = Scalar(key, node, expected, true);
  if (text == nullptr) return;
  const absl::StatusOr<T> value = parse(*text);
  if (!value.ok() || !accept(*value)) {
    Reject(key, absl::StrFormat("must be %s, got %s", expected, Quoted(*text)));
    return;
  }
  *out = *value;
}

void YamlMap::Fraction(std::string_view key, Need need, NumberRange range, double* out) {
  Quantity(
      key, need, absl::StrFormat("a share %s (0.1 or 10%%)", Describe(range)), ParseFraction,
      [&](double value) { return InRange(value, range); }, out);
}

void YamlMap::Size(std::string_view key, Need need, SizeRange range, uint64_t* out) {
  Quantity(
      key, need,
      absl::StrFormat("a size with a unit from %s to %s", FormatSize(range.min),
                      FormatSize(range.max)),
      ParseSize, [&](uint64_t value) { return value >= range.min && value <= range.max; }, out);
}

void YamlMap::Rate(std::string_view key, Need need, SizeRange range, uint64_t* out) {
  Quantity(
      key, need,
      absl::StrFormat("a rate with a unit from %s to %s", FormatRate(range.min),
                      FormatRate(range.max)),
      ParseRate, [&](uint64_t value) { return value >= range.min && value <= range.max; }, out);
}

void YamlMap::Duration(std::string_view key, Need need, DurationRange range, absl::Duration* out) {
  Quantity(
      key, need,
      absl::StrFormat("a duration with units from %s to %s", PrintDuration(range.min),
                      PrintDuration(range.max)),
      ParseDuration, [&](absl::Duration value) { return value >= range.min && value <= range.max; },
      out);
}

void YamlMap::String(std::string_view key, Need need, std::string* out) {
  const YamlNode* node = Take(key, need);
  if (node == nullptr) return;
  const std::string* text = Scalar(key, node, "text", false);
  if (text == nullptr) return;
  if (text->empty()) {
    Reject(key, "must be text that is not empty");
    return;
  }
  *out = *text;
}

void YamlMap::Strings(std::string_view key, Need need, std::vector<std::string>* out,
                      std::vector<SourceLocation>* at) {
  const YamlNode* node = Take(key, need);
  if (node == nullptr) return;
  constexpr std::string_view kExpected = "text or a list of texts, none of them empty";
  std::vector<std::string> texts;
  std::vector<SourceLocation> places;
  const absl::Span<const YamlNode> items = node->kind == YamlNode::Kind::kList
                                               ? absl::MakeConstSpan(node->items)
                                               : absl::MakeConstSpan(node, 1);
  for (const YamlNode& item : items) {
    if (item.kind != YamlNode::Kind::kScalar || item.scalar.empty()) {
      problems_->Add(item.at, absl::StrFormat("'%s' must be %s, got %s", Path(key), kExpected,
                                              Describe(item)));
      return;
    }
    texts.push_back(item.scalar);
    places.push_back(item.at);
  }
  if (texts.empty()) {
    Reject(key, "must be text or a list of texts, got an empty list");
    return;
  }
  *out = std::move(texts);
  if (at != nullptr) *at = std::move(places);
}

void YamlMap::Groups(std::string_view key, Need need, std::string* word,
                     std::vector<std::vector<std::string>>* out) {
  const YamlNode* node = Take(key, need);
  if (node == nullptr) return;
  if (node->kind == YamlNode::Kind::kScalar && !node->scalar.empty()) {
    *word = node->scalar;
    return;
  }
  const auto refuse = [&](const YamlNode& at) {
    problems_->Add(at.at, absl::StrFormat("'%s' must be a word or a list of lists of names, none of them empty, got %s",
                                          Path(key), at.items.empty() && at.kind == YamlNode::Kind::kList
                                                         ? "an empty list"
                                                         : Describe(at)));
  };
  if (node->kind != YamlNode::Kind::kList || node->items.empty()) return refuse(*node);
  std::vector<std::vector<std::string>> groups;
  for (const YamlNode& group : node->items) {
    if (group.kind != YamlNode::Kind::kList || group.items.empty()) return refuse(group);
    groups.emplace_back();
    for (const YamlNode& item : group.items) {
      if (item.kind != YamlNode::Kind::kScalar || item.scalar.empty()) return refuse(item);
      groups.back().push_back(item.scalar);
    }
  }
  *out = std::move(groups);
}

void YamlMap::Pair(std::string_view key, Need need, NumberRange range, double* first,
                   double* second) {
  const YamlNode* node = Take(key, need);
  if (node == nullptr) return;
  if (node->kind != YamlNode::Kind::kList || node->items.size() != 2) {
    Reject(key, absl::StrFormat("must be a list of two numbers, got %s",
                                node->kind == YamlNode::Kind::kList
                                    ? absl::StrFormat("a list of %u", node->items.size())
                                    : Describe(*node)));
    return;
  }
  double a = 0, b = 0;
  const bool first_ok = ReadNumber(key, node->items[0], range, &a);
  if (ReadNumber(key, node->items[1], range, &b) && first_ok) {
    *first = a;
    *second = b;
  }
}

int YamlMap::Word(std::string_view key, Need need, const std::vector<std::string_view>& words) {
  const YamlNode* node = Take(key, need);
  if (node == nullptr) return -1;
  const std::string expected = "one of " + Join(words);
  const std::string* text = Scalar(key, node, expected, false);
  if (text == nullptr) return -1;
  const auto found = std::find(words.begin(), words.end(), *text);
  if (found != words.end()) return static_cast<int>(found - words.begin());
  const std::string_view nearest = Nearest(*text, words);
  Reject(key,
         absl::StrFormat("must be %s, got %s%s", expected, Quoted(*text),
                         nearest.empty() ? "" : absl::StrFormat("; did you mean '%s'?", nearest)));
  return -1;
}

void YamlMap::Finish() {
  if (node_ == nullptr) return;
  const std::vector<std::string_view> known(known_.begin(), known_.end());
  for (const YamlEntry& entry : node_->entries) {
    if (std::find(known.begin(), known.end(), entry.key) != known.end()) continue;
    const std::string_view nearest = Nearest(entry.key, known);
    problems_->Add(entry.at, absl::StrFormat(
                                 "unknown key %s%s; %s", Quoted(entry.key),
                                 path_.empty() ? "" : absl::StrFormat(" in '%s'", path_),
                                 nearest.empty() ? absl::StrFormat("known keys: %s", Join(known))
                                                 : absl::StrFormat("did you mean '%s'?", nearest)));
  }
}

}  // namespace gdf::config
