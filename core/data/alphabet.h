// The set of characters of a training text, gathered document by document.
#ifndef GDF_CORE_DATA_ALPHABET_H_
#define GDF_CORE_DATA_ALPHABET_H_

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/data/tokenizer.h"

namespace gdf::data {

class Alphabet {
 public:
  // `text` is well-formed UTF-8.
  void Add(std::string_view text);

  // See MakeCharTokenizer.
  absl::StatusOr<std::unique_ptr<Tokenizer>> MakeTokenizer() const;

 private:
  std::vector<bool> seen_;  // by code point, up to the largest
};

}  // namespace gdf::data

#endif  // GDF_CORE_DATA_ALPHABET_H_
