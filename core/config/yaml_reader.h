// Reads one mapping of a YamlNode tree strictly: each known key is asked for once with its type
// and range; whatever is wrong goes to Problems with its place, and Finish() reports the keys that
// nobody asked for, with the nearest known one.
//
//   YamlMap train = root.Map("train", Need::kRequired);
//   train.Int("steps", Need::kRequired, {1, kMaxSteps}, &spec.train.steps);
//   train.Finish();
//
// A key that is absent, or wrong and reported, leaves *out as it was.
#ifndef GDF_CORE_CONFIG_YAML_READER_H_
#define GDF_CORE_CONFIG_YAML_READER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/config/yaml_node.h"

namespace gdf::config {

enum class Need { kOptional, kRequired };

struct IntRange {
  int64_t min, max;  // both allowed
};

struct NumberRange {
  double min, max;
  bool min_open = false;  // min itself is refused
  bool max_open = false;
};

struct SizeRange {
  uint64_t min, max;
};

struct DurationRange {
  absl::Duration min, max;
};

// Names of an enumeration's values, as the file spells them.
template <typename E>
using EnumNames = absl::Span<const std::pair<std::string_view, E>>;

// The candidate nearest to `word` by edit distance when it is near enough to be a slip, else empty.
std::string_view Nearest(std::string_view word, absl::Span<const std::string_view> candidates);

class YamlMap {
 public:
  // Reads `node` and `*problems`, which must outlive this. `path` names the mapping in messages
  // ("train.optimizer"; "" for the whole file). Null `node`: an absent section, where every key is
  // absent and required ones are reported only by whoever requires the section.
  YamlMap(const YamlNode* node, std::string path, Problems* problems);

  bool Has(std::string_view key) const { return Find(key) != nullptr; }
  bool present() const { return node_ != nullptr; }
  // Place of the key's value, or of the mapping when it is absent.
  SourceLocation At(std::string_view key) const;
  // "train.steps".
  std::string Path(std::string_view key) const;
  // Reports that the value of `key` cannot be used: "'train.steps' <message>".
  void Reject(std::string_view key, std::string_view message);
  // If `key` is there, reports that it must not be, and why: "'train.momentum' <message>".
  void Forbid(std::string_view key, std::string_view message);

  // Counts `key` as a known one without reading it.
  void Know(std::string_view key) { known_.emplace_back(key); }

  YamlMap Map(std::string_view key, Need need);
  void Bool(std::string_view key, Need need, bool* out);
  void Int(std::string_view key, Need need, IntRange range, int64_t* out);
  void Number(std::string_view key, Need need, NumberRange range, double* out);
  void Fraction(std::string_view key, Need need, NumberRange range, double* out);
  void Size(std::string_view key, Need need, SizeRange range, uint64_t* out);
  void Rate(std::string_view key, Need need, SizeRange range, uint64_t* out);
  void Duration(std::string_view key, Need need, DurationRange range, absl::Duration* out);
  // Text that is not empty.
  void String(std::string_view key, Need need, std::string* out);
  // One text or a list of at least one; `at` gets their places when not null.
  void Strings(std::string_view key, Need need, std::vector<std::string>* out,
               std::vector<SourceLocation>* at = nullptr);
  // A word, or a list of lists of texts, none of them empty; the other one is left empty.
  void Groups(std::string_view key, Need need, std::string* word, std::vector<std::vector<std::string>>* out);
  // A list of exactly two numbers.
  void Pair(std::string_view key, Need need, NumberRange range, double* first, double* second);

  template <typename E>
  void Enum(std::string_view key, Need need, EnumNames<E> names, E* out) {
    std::vector<std::string_view> words;
    for (const auto& name : names) words.push_back(name.first);
    if (const int index = Word(key, need, words); index >= 0) *out = names[index].second;
  }

  // Reports every key that was not asked for.
  void Finish();

 private:
  const YamlNode* Find(std::string_view key) const;
  // The value of `key`, which counts as known from now on; null and reported when required.
  const YamlNode* Take(std::string_view key, Need need);
  // The text of a scalar; null and reported ("must be <expected>, got ...") otherwise. With
  // `plain`, quoted text is refused: it is no number.
  const std::string* Scalar(std::string_view key, const YamlNode* node, std::string_view expected,
                            bool plain);
  int Word(std::string_view key, Need need, const std::vector<std::string_view>& words);
  bool ReadNumber(std::string_view key, const YamlNode& node, NumberRange range, double* out);
  // A plain scalar that `parse` reads as a value that `accept` takes.
  template <typename T, typename Parse, typename Accept>
  void Quantity(std::string_view key, Need need, std::string_view expected, Parse parse,
                Accept accept, T* out);

  const YamlNode* node_;
  std::string path_;
  Problems* problems_;
  std::vector<std::string> known_;
};

}  // namespace gdf::config

#endif  // GDF_CORE_CONFIG_YAML_READER_H_
