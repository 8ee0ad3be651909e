// Is there one order of a history's operations that explains what every client saw, in which each takes effect between its
// call and its answer? Herlihy and Wing, Linearizability, 1990; found as in Wing and Gong, Testing and Verifying Concurrent
// Objects, 1993, remembering what was tried as in Lowe, Testing for Linearizability, 2017.
//
//   struct Register {
//     using State = int;
//     struct Call { std::optional<int> write; };            // else a read
//     using Answer = int;
//     // The state after `call`, when that may give `answer`; none: whatever it gave was not seen.
//     static std::optional<State> Apply(const State&, const Call&, const std::optional<Answer>&);
//   };
//   bool ok = Linearizable<Register>(history, initial);
#ifndef GDF_TESTS_SIM_LINEARIZABLE_H_
#define GDF_TESTS_SIM_LINEARIZABLE_H_

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace gdf::sim {

template <typename Model>
struct Operation {
  typename Model::Call call;
  absl::Duration called;
  // Never answered: it may have taken effect at any time since, or not at all.
  std::optional<absl::Duration> answered;
  std::optional<typename Model::Answer> answer;
};

// Model::State is ordered and copied.
template <typename Model>
class LinearizabilitySearch {
 public:
  explicit LinearizabilitySearch(std::vector<Operation<Model>> history) : history_(std::move(history)) {
    // Those that were answered first: an order without the others is found sooner.
    std::stable_sort(history_.begin(), history_.end(), [](const auto& a, const auto& b) {
      return a.answered.value_or(absl::InfiniteDuration()) < b.answered.value_or(absl::InfiniteDuration());
    });
  }

  bool From(const typename Model::State& initial) {
    struct Level {
      typename Model::State state;
      std::vector<size_t> next;  // operations to try, last first
      size_t taken = 0;          // the one that led on from here
    };
    std::vector<bool> done(history_.size());
    std::vector<Level> path = {{initial, Candidates(done)}};
    while (!path.empty()) {
      Level& level = path.back();
      if (AllAnsweredDone(done)) return true;
      if (level.next.empty()) {
        path.pop_back();
        if (!path.empty()) done[path.back().taken] = false;
        continue;
      }
      level.taken = level.next.back();
      level.next.pop_back();
      const Operation<Model>& operation = history_[level.taken];
      std::optional<typename Model::State> after = Model::Apply(level.state, operation.call, operation.answer);
      if (!after) continue;
      done[level.taken] = true;
      if (!tried_.emplace(done, *after).second) {
        done[level.taken] = false;
        continue;
      }
      path.push_back({*std::move(after), Candidates(done)});
    }
    return false;
  }

 private:
  bool AllAnsweredDone(const std::vector<bool>& done) const {
    for (size_t i = 0; i < done.size(); ++i) {
      if (!done[i] && history_[i].answered) return false;
    }
    return true;
  }
  // Those that were called before any other that is left was answered.
  std::vector<size_t> Candidates(const std::vector<bool>& done) const {
    absl::Duration first_answer = absl::InfiniteDuration();
    for (size_t i = 0; i < done.size(); ++i) {
      if (!done[i]) first_answer = std::min(first_answer, history_[i].answered.value_or(absl::InfiniteDuration()));
    }
    std::vector<size_t> candidates;
    for (size_t i = done.size(); i-- > 0;) {
      if (!done[i] && history_[i].called <= first_answer) candidates.push_back(i);
    }
    return candidates;
  }

  std::vector<Operation<Model>> history_;
  std::set<std::pair<std::vector<bool>, typename Model::State>> tried_;
};

template <typename Model>
bool Linearizable(std::vector<Operation<Model>> history, const typename Model::State& initial) {
  return LinearizabilitySearch<Model>(std::move(history)).From(initial);
}

}  // namespace gdf::sim

#endif  // GDF_TESTS_SIM_LINEARIZABLE_H_
