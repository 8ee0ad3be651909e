#include "gdfd/worker/text_stream.h"

#include "absl/strings/match.h"
#include "absl/types/span.h"

namespace gdf::worker {
namespace {

constexpr char kReplacement[] = "\xef\xbf\xbd";
// A character has four bytes at most: ids that do not complete one within so many never will.
constexpr size_t kMaxPending = 8;

}  // namespace

std::string TextStream::Take(bool last) {
  const std::string before =
      tokenizer_.Decode(absl::MakeConstSpan(ids_).subspan(0, told_), /*skip_special=*/true);
  const std::string now = tokenizer_.Decode(ids_, /*skip_special=*/true);
  const bool cut = absl::EndsWith(now, kReplacement) && ids_.size() - told_ < kMaxPending;
  if (now.size() <= before.size() || (cut && !last)) return {};
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<ptrdiff_t>(told_));
  told_ = ids_.size();
  return now.substr(before.size());
}

}  // namespace gdf::worker
