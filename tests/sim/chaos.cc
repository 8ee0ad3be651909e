#include "tests/sim/chaos.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/sim/faults.h"
#include "tests/sim/sim_job.h"

namespace gdf::sim {
namespace {

// From where all is mended to the end of the job: whoever waits for a member that is gone gives up within 10 minutes, and a
// round of these jobs takes less than one.
constexpr absl::Duration kProgress = absl::Minutes(20);

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
  SeededRng late(MixSeed(seed, 0x6c617465));
  if (late.Below(3) == 0) options.late = {.after = 1 + late.Unit(), .weight = static_cast<double>(late.Below(3)) / 2};
  SimJob job(seed, options);
  if (options.late.after > 0) {
    job.set_step_time(static_cast<int>(late.Below(static_cast<uint64_t>(options.nodes))), 4 * SimWorkerOptions{}.step_time);
  }
  if (say) {
    say(absl::StrCat(options.nodes, " nodes, at least ", options.min_nodes, "; ", options.rounds, " rounds of ",
                     options.inner_steps, " steps, ", options.delay_steps, " of them delay; ", options.num_params,
                     " parameters in ", options.fragments, " fragments as ",
                     options.rank > 0 ? config::PowerSgdName(options.rank) : options.codecs.back().ToString(), "; ",
                     options.sites.size(), " sites", options.late.after > 0 ? "; one is slow, and not waited for" : "", options.returns ? "; nodes that drop out come back" : ""));
    job.set_say(say);
  }
  Faults faults(job, rng, say);
  faults.Plan();
  job.Start();
  std::string wrong;
  if (!job.RunToEnd(Faults::kEnd + kProgress)) {
    wrong = absl::StrCat("progress: the job did not end within ", absl::FormatDuration(kProgress), " without faults\n");
  } else if (job.verdict() != wire::Verdict::kSucceeded && !faults.Explain(job.reason())) {
    wrong = absl::StrCat("the job failed: ", job.reason(), "\n");
  }
  absl::StrAppend(&wrong, job.Violations());
  return wrong.empty() ? "" : absl::StrCat(wrong, "\nfaults:\n", absl::StrJoin(faults.inflicted(), "\n"));
}

}  // namespace gdf::sim
