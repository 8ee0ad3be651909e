// One member's stream of training windows: reproducible from a seed, disjoint from every other
// member's. All members walk one order of the windows of an epoch together; of every N windows in a
// row, member i takes the i-th. So the place in that order is one cursor, the same for all members
// that drew equally often, and it stays meaningful when N changes.
#ifndef GDF_CORE_DATA_SAMPLER_H_
#define GDF_CORE_DATA_SAMPLER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace gdf::data {

enum class SamplePolicy {
  // Windows begin anywhere: an epoch is a pseudo-random permutation of all corpus_len - seq_len
  // starts, another one each epoch. Windows overlap, their starts are never equal in an epoch.
  kRandom,
  // Windows begin at multiples of seq_len, in order: an epoch reads the corpus once, no target
  // twice; what does not fill the last window is left out.
  kSequential,
};

// Where the members are together: every window before `position` of `epoch` is taken.
struct Cursor {
  int64_t epoch = 0;
  int64_t position = 0;

  friend bool operator==(const Cursor&, const Cursor&) = default;
  friend auto operator<=>(const Cursor&, const Cursor&) = default;
};

struct SamplerOptions {
  int64_t corpus_len = 0;  // tokens of the training part
  int64_t seq_len = 0;     // a window is seq_len + 1 tokens: inputs and, one later, targets
  uint64_t seed = 0;       // the same for all members of a job
  int64_t member_index = 0;
  int64_t num_members = 1;
  SamplePolicy policy = SamplePolicy::kRandom;
};

// Not thread-safe.
class Sampler {
 public:
  // kInvalidArgument: a window or a row of num_members windows does not fit the corpus, an index
  // outside [0, num_members), or a cursor outside the epoch.
  static absl::StatusOr<Sampler> Create(const SamplerOptions& options, Cursor cursor = {});

  // Where the next window of this member begins in the training part; the cursor moves on by
  // num_members. An epoch ends when fewer than num_members windows are left in it, for all members
  // at the same draw; those few are not drawn in that epoch.
  int64_t Next();

  // Fills `starts` with as many calls of Next().
  void Next(absl::Span<int64_t> starts);

  // Saved and given to Create again, the stream goes on exactly. When the members change, all new
  // samplers are created with the greatest cursor of the old members: no window of the epoch is
  // then drawn twice, whatever the old and new numbers of members.
  Cursor cursor() const { return cursor_; }

  // Windows in one epoch, over all members.
  int64_t windows_per_epoch() const { return windows_; }

 private:
  Sampler(const SamplerOptions& options, Cursor cursor, int64_t windows);

  int64_t StartOf(int64_t position) const;

  SamplerOptions options_;
  int64_t windows_;
  Cursor cursor_;
};

// A window of the validation part. Its first `skip` targets were counted in the window before it
// and must not be counted again.
struct EvalWindow {
  int64_t start = 0;
  int64_t skip = 0;

  friend bool operator==(const EvalWindow&, const EvalWindow&) = default;
};

// Windows of seq_len + 1 tokens in which every target of the validation part (all but its first
// token) counts exactly once. Empty where the part is shorter than one window.
std::vector<EvalWindow> AllEvalWindows(int64_t valid_len, int64_t seq_len);

// At most `count` of AllEvalWindows, evenly spaced from the first on: the same ones each time.
std::vector<EvalWindow> QuickEvalWindows(int64_t valid_len, int64_t seq_len, int64_t count);

// Copies windows out of `tokens` (train() or valid()) in the shape that the model takes:
// inputs[b][t] = tokens[starts[b] + t], targets[b][t] = tokens[starts[b] + t + 1].
// inputs, targets: [starts.size() * seq_len]. Every window must lie inside `tokens`.
void CopyWindows(absl::Span<const int32_t> tokens, absl::Span<const int64_t> starts,
                 int64_t seq_len, absl::Span<int64_t> inputs, absl::Span<int64_t> targets);

}  // namespace gdf::data

#endif  // GDF_CORE_DATA_SAMPLER_H_
