// A simulated job's random faults: what a seed does to nodes, disks, clocks and the network, and undoes.
#ifndef GDF_TESTS_SIM_FAULTS_H_
#define GDF_TESTS_SIM_FAULTS_H_

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/sim_job.h"

namespace gdf::sim {

class Faults {
 public:
  static constexpr absl::Duration kEnd = absl::Minutes(3);  // everything is mended then

  // `say`, if any, is told each.
  Faults(SimJob& job, Rng& rng, std::function<void(const std::string&)> say)
      : job_(job), rng_(rng), say_(std::move(say)) {}

  // They come while a clean run would last and a little longer: some at any time, which is mostly in training, and some
  // just before a message, which is where a protocol breaks.
  void Plan();

  const std::vector<std::string>& inflicted() const { return inflicted_; }
  // May a job that met them end as failed, for this reason?
  bool Explain(std::string_view reason) const;

 private:
  void Say(const std::string& what);
  int Node() {  // often the lead
    const int any = static_cast<int>(rng_.Below(static_cast<uint64_t>(job_.size())));
    return rng_.Below(3) == 0 ? job_.IndexOf(job_.epoch().lead) : any;
  }
  // At least a tenth of a second.
  absl::Duration Some(absl::Duration max) { return absl::Milliseconds(100) + rng_.Unit() * max; }
  void After(absl::Duration time, std::function<void()> undo) { job_.executor().PostAfter(time, std::move(undo)); }

  void Inflict();
  void Fall(int node, absl::Duration time);
  void Churn(int rounds);
  void Isolate(int node);
  void CutOneWay(int node);
  void FallAtDiskStep(int node);
  void FillDisk(int node);
  void SlowDown(int node);
  void JumpClock(int node);
  void Freeze(int node);
  void RepeatRequests();
  void TurnHostile(int node);
  void RefuseDelta(int node);
  void Tamper(const SimMessage& message, Buffer& bytes);
  void UndoAll();

  SimJob& job_;
  Rng& rng_;
  const std::function<void(const std::string&)> say_;
  std::vector<std::string> inflicted_;
  std::set<uint64_t> at_messages_;
  absl::Duration round_;       // about, of a clean run
  std::set<NodeId> hostile_;
  bool was_hostile_ = false;
  bool repeats_ = false;
};

}  // namespace gdf::sim

#endif  // GDF_TESTS_SIM_FAULTS_H_
