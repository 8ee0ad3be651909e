// Regular expressions of tokenizer files. They are written for Oniguruma (Ruby syntax), which the
// `tokenizers` library uses; here each is translated to PCRE2 so that both match alike. A construct
// for which they would not (or which no known tokenizer uses) is refused.
#ifndef GDF_CORE_DATA_REGEX_H_
#define GDF_CORE_DATA_REGEX_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gdf::data {

// The PCRE2 pattern (for PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE) that matches what Oniguruma's
// default syntax gives `pattern`. kInvalidArgument: malformed; kUnimplemented: refused, with the
// construct and its offset in the message.
absl::StatusOr<std::string> TranslateOniguruma(std::string_view pattern);

// Immutable; may be used by several threads.
class Regex {
 public:
  // Errors as of TranslateOniguruma.
  static absl::StatusOr<Regex> Compile(std::string_view oniguruma_pattern);

  // Calls `on_match(begin, end)` for every match from left to right. As in Oniguruma's Rust
  // binding, an empty match right behind the last match does not count. `text` is well-formed
  // UTF-8. kResourceExhausted: a match took more steps or memory than the limits allow.
  absl::Status ForEachMatch(std::string_view text,
                            absl::FunctionRef<void(size_t begin, size_t end)> on_match) const;

 private:
  struct Compiled;  // keeps PCRE2 out of this header

  explicit Regex(std::shared_ptr<const Compiled> compiled) : compiled_(std::move(compiled)) {}

  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace gdf::data

#endif  // GDF_CORE_DATA_REGEX_H_
