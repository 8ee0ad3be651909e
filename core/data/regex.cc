#include "core/data/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/data/utf8.h"

namespace gdf::data {
namespace {

// A pattern of a known tokenizer needs a few steps a character; these stop hostile ones within a
// second or so and 64 MiB.
constexpr uint32_t kMatchLimit = 10'000'000;
constexpr uint32_t kHeapLimitKib = 64 * 1024;

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* p) const {
    Free(p);
  }
};
using CodePtr = std::unique_ptr<pcre2_code, Deleter<pcre2_code_free>>;
using CompileContextPtr =
    std::unique_ptr<pcre2_compile_context, Deleter<pcre2_compile_context_free>>;
using MatchContextPtr = std::unique_ptr<pcre2_match_context, Deleter<pcre2_match_context_free>>;
using MatchDataPtr = std::unique_ptr<pcre2_match_data, Deleter<pcre2_match_data_free>>;

std::string ErrorText(int error) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(error, buffer, sizeof(buffer));
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

struct Regex::Compiled {
  CodePtr code;
  MatchContextPtr context;
};

absl::StatusOr<Regex> Regex::Compile(std::string_view oniguruma_pattern) {
  GDF_ASSIGN_OR_RETURN(const std::string pattern, TranslateOniguruma(oniguruma_pattern));
  CompileContextPtr compile_context(pcre2_compile_context_create(nullptr));
  pcre2_set_newline(compile_context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE error_offset = 0;
  auto compiled = std::make_shared<Compiled>();
  compiled->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                     PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &error_offset,
                                     compile_context.get()));
  if (compiled->code == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("regular expression \"", ToAbsl(oniguruma_pattern), "\": ", ErrorText(error)));
  }
  // Where the process may not make code (a sandbox) the interpreter does the same more slowly.
  (void)pcre2_jit_compile(compiled->code.get(), PCRE2_JIT_COMPLETE);
  compiled->context.reset(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(compiled->context.get(), kMatchLimit);
  pcre2_set_heap_limit(compiled->context.get(), kHeapLimitKib);
  return Regex(std::move(compiled));
}

absl::Status Regex::ForEachMatch(std::string_view text,
                                 absl::FunctionRef<void(size_t begin, size_t end)> on_match) const {
  const pcre2_code* code = compiled_->code.get();
  MatchDataPtr data(pcre2_match_data_create(1, nullptr));
  const PCRE2_SIZE* span = pcre2_get_ovector_pointer(data.get());
  const auto match_from = [&](size_t start, uint32_t options) {
    return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), start,
                       PCRE2_NO_UTF_CHECK | options, data.get(), compiled_->context.get());
  };
  size_t start = 0;
  size_t last_end = std::string_view::npos;
  while (start <= text.size()) {
    int result = match_from(start, 0);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = match_from(start, PCRE2_NO_JIT);
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "regular expression of the tokenizer: ", ErrorText(result), " at offset ", start));
    }
    if (span[0] == span[1] && span[1] == last_end) {
      start = span[1];
      if (start == text.size()) break;
      NextCodePoint(text, &start);
      continue;
    }
    on_match(span[0], span[1]);
    start = last_end = span[1];
  }
  return absl::OkStatus();
}

}  // namespace gdf::data
