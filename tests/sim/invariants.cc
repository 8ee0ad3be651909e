#include "tests/sim/invariants.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/sim/sim_job.h"

namespace gdf::sim {
namespace {

// Of each peer: slices and means of one exchange, at most as large as float32, and control messages. Half of it is never seen.
size_t MaxHeldBytes(const JobOptions& options) {
  constexpr size_t kControl = size_t{4} << 10;
  return static_cast<size_t>(options.nodes) * (2 * options.num_params * sizeof(float) + kControl);
}
// Of each peer: three of an exchange, calls, a state that is fetched, and what is not over of an attempt that was given up.
size_t MaxStreams(const JobOptions& options) { return static_cast<size_t>(options.nodes) * 6; }

bool SameBits(const checkpoint::OuterState& a, const checkpoint::OuterState& b) {
  return tensor::AsBytes(a.theta.span()) == tensor::AsBytes(b.theta.span()) &&
         tensor::AsBytes(a.momentum.span()) == tensor::AsBytes(b.momentum.span());
}

// Its own memory: a node's may be damaged.
checkpoint::OuterStatePtr CopyOf(const checkpoint::OuterState& state) {
  auto copy = std::make_shared<checkpoint::OuterState>();
  copy->id = state.id;
  copy->theta = *tensor::FlatBuffer::Zeros(state.theta.size());
  copy->momentum = *tensor::FlatBuffer::Zeros(state.momentum.size());
  std::copy(state.theta.span().begin(), state.theta.span().end(), copy->theta.data());
  std::copy(state.momentum.span().begin(), state.momentum.span().end(), copy->momentum.data());
  return copy;
}

}  // namespace

Invariants::Invariants(SimJob& job) : job_(job), shown_(static_cast<size_t>(job.size())) {}

void Invariants::Violated(const char* invariant, std::string what) {
  violations_.insert(absl::StrCat(invariant, ": ", what));
}

std::string Invariants::violations() const { return absl::StrJoin(violations_, "\n"); }

void Invariants::TellTampered() {
  tampered_.insert(first_.empty() ? RoundId{1} : first_.rbegin()->first.next());
}

void Invariants::TellRolledBack() {
  AfterStep();
  RoundId held;
  for (int node = 0; node < job_.size(); ++node) {
    // Whom an epoch is without answers nobody any more, and who has come back since is not in it yet.
    if (job_.restored(node) && !job_.ended(node) && job_.epoch().Has(job_.id(node))) held = std::max(held, shown_[node]->id.round);
  }
  for (auto it = first_.upper_bound(held); it != first_.end(); it = first_.erase(it)) {
    given_up_[{it->first, it->second->id.theta}] = job_.epoch().epoch;
    once_given_up_.insert(it->first);
  }
}

void Invariants::AfterStep() {
  for (int node = 0; node < job_.size(); ++node) {
    if (!job_.restored(node)) continue;
    checkpoint::OuterStatePtr state = job_.member(node)->state();
    if (state != shown_[node]) {
      Shown(node, state, job_.member(node)->commit());
      saw_.emplace(job_.id(node), state->id.theta);
      shown_[node] = std::move(state);
    }
    CheckBounded(node);
  }
}

void Invariants::Shown(int node, const checkpoint::OuterStatePtr& state, const std::optional<wire::Commit>& commit) {
  const RoundId round = state->id.round;
  const std::string where = absl::StrCat("round ", round.value, " on node ", node);
  if (round.value > 0) {
    if (!commit || !(commit->receipt.result == state->id)) return Violated("quorum", absl::StrCat(where, " has no commit"));
    CheckQuorum(*commit, where);
    const auto given_up = given_up_.find({round, state->id.theta});
    if (given_up != given_up_.end() && commit->receipt.tag.epoch >= given_up->second) given_up_.erase(given_up);
  }
  if (may_roll_back_ || GivenUp(state->id)) return;
  const auto first = first_.find(round);
  if (first != first_.end()) {
    if (!SameBits(*first->second, *state)) Violated("result", absl::StrCat(where, " is another result"));
    return;
  }
  first_.emplace(round, CopyOf(*state));
  if (round.value > 0) CheckDurable(*commit);
}

void Invariants::CheckQuorum(const wire::Commit& commit, const std::string& where) {
  const absl::Status valid = job_.CheckCommit(commit);
  if (!valid.ok()) Violated("quorum", absl::StrCat(where, ": ", valid.message()));
}

void Invariants::CheckDurable(const wire::Commit& commit) {
  if (job_.options().checkpoint_every != 1) return;
  const std::vector<NodeId> members = *job_.MembersOf(commit.receipt.tag.epoch);
  const wire::StateId& id = commit.receipt.result;
  const auto has = [&](const NodeId& member) {
    const checkpoint::Loaded disk = job_.Durable(job_.IndexOf(member));
    return (disk.committed && disk.committed->id == id) || (disk.shadow && disk.shadow->id == id);
  };
  const auto holders = std::count_if(members.begin(), members.end(), has);
  if (2 * static_cast<size_t>(holders) <= members.size()) {
    Violated("durable", absl::StrCat("round ", id.round.value, " is committed, and on ", holders, " of ", members.size(),
                                     " members' disks"));
  }
}

void Invariants::Started(int node) {
  const checkpoint::OuterStatePtr state = job_.member(node)->state();
  const checkpoint::OuterStatePtr before = std::exchange(shown_[node], nullptr);
  const uint64_t begins = state->id.round.value;
  if (before && !job_.was_full(node) &&
      begins + static_cast<uint64_t>(job_.options().checkpoint_every) < before->id.round.value) {
    Violated("kept", absl::StrCat("node ", node, " begins at round ", begins, " and had committed round ",
                                  before->id.round.value));
  }
  const auto saved = first_.find(state->id.round);
  if (saved != first_.end() && !may_roll_back_ && !GivenUp(state->id) && !SameBits(*saved->second, *state)) {
    Violated("restored", absl::StrCat("node ", node, " begins with another round ", begins, " than was committed"));
  }
}

void Invariants::CheckBounded(int node) {
  const SimTransport& transport = *job_.transport(node);
  if (const size_t bytes = transport.held_bytes(); bytes > MaxHeldBytes(job_.options())) {
    Violated("bounded", absl::StrCat("node ", node, " holds more than ", MaxHeldBytes(job_.options()), " bytes for peers"));
  }
  if (const size_t streams = transport.open_streams(); streams > MaxStreams(job_.options())) {
    Violated("bounded", absl::StrCat("node ", node, " has more than ", MaxStreams(job_.options()), " open streams"));
  }
}

void Invariants::AtEnd() {
  AfterStep();
  CheckDisks();
  CheckReports();
  const InnerJournal& inner = job_.inner_states();
  for (const std::string& wrong : inner.wrong) Violated("restored", wrong);
}

void Invariants::CheckDisks() {
  disks_.clear();
  for (int node = 0; node < job_.size(); ++node) {
    for (const auto& [round, committed] : job_.Committed(node)) {
      if (GivenUp(committed.state->id)) continue;
      const std::string where = absl::StrCat("round ", round.value, " on the disk of node ", node);
      const auto [it, fresh] = disks_.emplace(round, committed);
      if (!fresh && it->second.state->id.theta != committed.state->id.theta) {
        Violated("result", absl::StrCat(where, " is another result"));
      }
      const auto shown = first_.find(round);
      if (shown != first_.end() && shown->second->id.theta != committed.state->id.theta) {
        Violated("result", absl::StrCat(where, " is not what was shown"));
      }
      if (committed.commit) CheckQuorum(*committed.commit, where);
    }
  }
  for (const auto& [round, committed] : disks_) {
    const auto before = disks_.find(RoundId{round.value - 1});
    if (round.value == 0 || before == disks_.end() || tampered_.count(round) > 0) continue;
    const std::string wrong = job_.recompute().Check(before->second, committed);
    if (!wrong.empty()) Violated("reproduced", wrong);
    if (!may_roll_back_) CheckSettled(committed.commit->receipt);
  }
}

void Invariants::CheckSettled(const wire::Receipt& receipt) {
  for (const auto& [packed, settlement] : job_.inner_states().settled) {
    const auto& [node, round] = packed;
    if (round != receipt.tag.round || settlement == train::Settlement::kGivenUp) continue;
    const bool used = receipt.Contributed(node);
    const std::string what = absl::StrCat("the delta of node ", job_.IndexOf(node), " for round ", round.value);
    if (used && settlement == train::Settlement::kKept) Violated("settled", absl::StrCat(what, " is used and carried on"));
    if (!used && once_given_up_.count(receipt.result.round) == 0 && settlement == train::Settlement::kApplied && saw_.count({node, receipt.result.theta}) > 0) {
      Violated("settled", absl::StrCat(what, " is not used and not carried on"));
    }
  }
}

void Invariants::CheckReports() {
  for (const wire::ReportJob& report : job_.reports()) {
    const auto it = disks_.find(report.round.next());
    if (given_up_.count({report.round.next(), report.theta}) > 0) continue;
    if (!may_roll_back_ && it != disks_.end() && it->second.state->id.theta != report.theta) {
      Violated("result", absl::StrCat("round ", report.round.value, " was reported with another result"));
    }
  }
  if (!job_.finished() || job_.verdict() != wire::Verdict::kSucceeded) return;
  const auto last = disks_.find(RoundId{static_cast<uint64_t>(job_.options().rounds)});
  if (last == disks_.end() || last->second.state->id.theta != job_.verdict_given()->theta) {
    Violated("result", "the verdict's parameters are on no disk");
  }
}

}  // namespace gdf::sim
