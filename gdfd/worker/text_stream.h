// Token ids to text as they come, cut between characters.
#ifndef GDF_GDFD_WORKER_TEXT_STREAM_H_
#define GDF_GDFD_WORKER_TEXT_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/data/tokenizer.h"

namespace gdf::worker {

// The pieces together are what the tokenizer makes of all ids at once. Not thread-safe.
class TextStream {
 public:
  explicit TextStream(const data::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // The text that `id` completes; empty while it ends within a character.
  std::string Add(int32_t id) {
    ids_.push_back(id);
    return Take(/*last=*/false);
  }
  // What is left, a character cut short as U+FFFD.
  std::string Finish() { return Take(/*last=*/true); }

 private:
  std::string Take(bool last);

  const data::Tokenizer& tokenizer_;
  // The ids since the text was last cut: the first `told_` of them gave text already. They stay
  // since some tokenizers write a token differently at the beginning of a text.
  std::vector<int32_t> ids_;
  size_t told_ = 0;
};

}  // namespace gdf::worker

#endif  // GDF_GDFD_WORKER_TEXT_STREAM_H_
