#include "tests/sim/chaos.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/sim/sim_job.h"

namespace gdf::sim {
namespace {

constexpr absl::Duration kFaultsEnd = absl::Minutes(3);

JobOptions RandomJob(SeededRng& rng) {
  constexpr uint64_t kSizes[] = {1, 63, 64, 257, 1000, 3001};
  const config::CodecSpec codecs[] = {{.kind = config::CodecKind::kFp32},
                                      {.kind = config::CodecKind::kBf16},
                                      {.kind = config::CodecKind::kInt8, .block = 64},
                                      {.kind = config::CodecKind::kInt4, .block = 64, .stochastic = true},
                                      {.kind = config::CodecKind::kTopK2, .k = 64}};
  JobOptions options;
  options.nodes = 2 + static_cast<int>(rng.Below(5));
  options.min_nodes = 1 + static_cast<int>(rng.Below(2));
  options.rounds = 2 + static_cast<int64_t>(rng.Below(5));
  options.inner_steps = 1 + static_cast<int64_t>(rng.Below(8));
  options.num_params = kSizes[rng.Below(6)];
  options.codecs = {codecs[rng.Below(5)]};
  if (rng.Below(3) == 0) options.codecs = {codecs[0], codecs[1 + rng.Below(4)]};  // the lead chooses
  options.network.max_delay = absl::Milliseconds(10 + static_cast<int64_t>(rng.Below(200)));
  return options;
}

// The rounds exchange fragments, and the nodes may train on meanwhile.
void Stream(SeededRng& rng, JobOptions& options) {
  options.num_params = 9001;  // enough for three fragments
  options.fragments = 1 + static_cast<int64_t>(rng.Below(3));
  options.delay_steps = static_cast<int64_t>(rng.Below(static_cast<uint64_t>(options.inner_steps)));
  options.mixing = 0.5 * static_cast<double>(rng.Below(2));
}

// Deltas go as factors, in two passes.
void Factorise(SeededRng& rng, JobOptions& options) {
  options.codecs = {{config::CodecKind::kFp32}};
  options.rank = 1 + static_cast<uint32_t>(rng.Below(4));
}

// The nodes are at two or three sites, and exchange by them.
void Spread(SeededRng& rng, JobOptions& options) {
  options.codecs = {{.kind = config::CodecKind::kFp32}};
  options.sites.resize(2 + rng.Below(2));
  for (int i = 0; i < options.nodes; ++i) options.sites[rng.Below(options.sites.size())].push_back(absl::StrCat("node", i));
  std::erase(options.sites, std::vector<std::string>());
}

// One run's faults. Everything is undone by kFaultsEnd.
class Chaos {
 public:
  Chaos(SimJob& job, SeededRng& rng, const std::function<void(const std::string&)>& say)
      : job_(job), rng_(rng), say_(say) {}

  // Faults come while a clean run would last and a little longer: some at any time, which is mostly in training, and
  // some just before a message, which is where a protocol breaks.
  void Plan(const JobOptions& options) {
    const double rounds = static_cast<double>(options.rounds);
    const absl::Duration round = static_cast<double>(options.inner_steps) * absl::Milliseconds(125) +
                                 15 * options.network.max_delay;
    const double peers = options.nodes - 1;
    const double messages = rounds * peers * (3 * options.nodes + 8);
    const int faults = 1 + static_cast<int>(rng_.Below(8));
    for (int i = 0; i < faults; ++i) {
      const double at = 1.5 * rng_.Unit();
      if (rng_.Below(3) == 0) {
        job_.executor().PostAfter(at * rounds * round, [this] { Inflict(); });
      } else {
        at_messages_.insert(static_cast<uint64_t>(at * messages));
      }
    }
    job_.network().set_on_message([this](const SimMessage& message) {
      if (at_messages_.count(message.number) > 0) Inflict();
    });
    job_.executor().PostAfter(kFaultsEnd, [this] { UndoAll(); });
  }

 private:
  void Say(const std::string& what) {
    if (say_) say_(absl::StrCat("fault: ", what));
  }
  int Node() { return static_cast<int>(rng_.Below(static_cast<uint64_t>(job_.size()))); }
  absl::Duration Wait(int64_t max_sec) { return absl::Milliseconds(100 + static_cast<int64_t>(rng_.Below(max_sec * 1000))); }

  void Inflict() {
    if (job_.finished()) return;
    const int node = Node();
    const int other = Node();
    switch (rng_.Below(6)) {
      case 0: CrashFor(node, Wait(8)); break;
      case 1: CrashFor(node, Wait(120)); break;
      case 2:
        Say(absl::StrCat("reset between ", node, " and ", other));
        if (node != other) job_.network().Reset(job_.id(node), job_.id(other));
        break;
      case 3: Isolate(node, Wait(60)); break;
      case 4: CrashInDisk(node, rng_.Below(40), Wait(8)); break;
      case 5: RefuseDelta(node); break;
    }
  }

  void CrashFor(int node, absl::Duration time) {
    Say(absl::StrCat("node ", node, " crashes for ", absl::FormatDuration(time)));
    job_.Crash(node);
    job_.executor().PostAfter(time, [this, node] { job_.Restart(node); });
  }

  void Isolate(int node, absl::Duration time) {
    Say(absl::StrCat("node ", node, " is cut off for ", absl::FormatDuration(time)));
    job_.Isolate(node);
    job_.executor().PostAfter(time, [this, node] { job_.Rejoin(node); });
  }

  // The process ends just before its `change`-th change of the disk from now.
  void CrashInDisk(int node, uint64_t change, absl::Duration time) {
    Say(absl::StrCat("node ", node, " will crash before disk change ", change, " for ", absl::FormatDuration(time)));
    job_.set_disk_fault(node, [this, node, change, time, done = uint64_t{0}](std::string_view, const std::string& path) mutable {
      if (done++ < change) return absl::OkStatus();
      if (done == change + 2) return absl::OkStatus();  // only once: after the restart it works again
      Say(absl::StrCat("node ", node, " crashes before a change of ", path));
      if (job_.Up(node)) {
        job_.CrashFromWithin(node);
        job_.executor().PostAfter(time, [this, node] {
          job_.set_disk_fault(node, nullptr);
          job_.Restart(node);
        });
      }
      return absl::UnavailableError("this process has crashed");
    });
  }

  void RefuseDelta(int node) {
    Say(absl::StrCat("node ", node, " has a delta that is not finite"));
    job_.set_worker_fault(node, [this, node](std::string_view call, RoundId) {
      if (call != "run") return absl::OkStatus();
      job_.executor().Post([this, node] { job_.set_worker_fault(node, nullptr); });
      return absl::DataLossError("the loss is not finite");
    });
  }

  void UndoAll() {
    Say("all is mended");
    for (int node = 0; node < job_.size(); ++node) {
      job_.Rejoin(node);
      job_.set_disk_fault(node, nullptr);
      job_.set_worker_fault(node, nullptr);
      job_.Restart(node);
    }
  }

  SimJob& job_;
  SeededRng& rng_;
  std::set<uint64_t> at_messages_;
  const std::function<void(const std::string&)>& say_;
};

}  // namespace

std::string RunChaos(uint64_t seed, const std::function<void(const std::string&)>& say) {
  SeededRng rng(MixSeed(seed, 0x6368616f73));
  JobOptions options = RandomJob(rng);
  SeededRng more(MixSeed(seed, 0x73747265616d));  // of its own: the other jobs' histories stay as they were
  SeededRng factors(MixSeed(seed, 0x72616e6b));
  const bool streams = more.Below(4) == 1;
  if (streams) Stream(more, options);
  if (more.Below(5) == 0) {
    Spread(more, options);
  } else if (!streams && factors.Below(4) == 2) {
    Factorise(factors, options);
  }
  options.returns = SeededRng(MixSeed(seed, 0x72657475726e)).Below(3) != 1;
  SimJob job(seed, options);
  if (say) {
    say(absl::StrCat(options.nodes, " nodes, at least ", options.min_nodes, "; ", options.rounds, " rounds of ",
                     options.inner_steps, " steps, ", options.delay_steps, " of them delay; ", options.num_params,
                     " parameters in ", options.fragments, " fragments as ",
                     options.rank > 0 ? config::PowerSgdName(options.rank) : options.codecs.back().ToString(), "; ",
                     options.sites.size(), " sites", options.returns ? "; nodes that drop out come back" : ""));
    job.set_say(say);
  }
  Chaos chaos(job, rng, say);
  chaos.Plan(options);
  job.Start();
  if (!job.RunToEnd()) return "the job did not end";
  // The one failure that these faults may cause: nobody who is left has a finite delta.
  const bool expected = job.verdict() == wire::Verdict::kSucceeded || job.reason().find("no member has a delta") == 0;
  if (!expected) return absl::StrCat("the job failed: ", job.reason());
  return job.Violations();
}

}  // namespace gdf::sim
