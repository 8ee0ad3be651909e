#include "core/state/submission.h"

#include <catch2/catch.hpp>
#include <vector>

#include "core/base/hash.h"

namespace gdf::state {
namespace {

Job Submitted() {
  Job job;
  job.id = JobId{1};
  job.submit_token = "token";
  job.submitted_unix_ms = 1'800'000'000'000;
  job.spec_yaml = "name: a";
  job.inputs = {{"data", HashBytes("manifest"), 100, NodeId(HashBytes("holder"))}};
  return job;
}

TEST_CASE("a submission's digest changes with all that was submitted, and with nothing that changes later") {
  const NetworkId network(HashBytes("network"));
  const Digest digest = SubmissionDigest(network, Submitted());
  std::vector<Job> others(7, Submitted());
  others[0].id = JobId{2};
  others[1].submit_token = "other";
  others[2].submitted_unix_ms += 1;
  others[3].spec_yaml = "name: b";
  others[4].inputs[0].manifest = HashBytes("x");
  others[5].inputs[0].size_bytes = 101;
  others[6].inputs.clear();
  for (size_t i = 0; i < others.size(); ++i) {
    INFO("change " << i);
    CHECK(SubmissionDigest(network, others[i]) != digest);
  }
  CHECK(SubmissionDigest(NetworkId(HashBytes("another network")), Submitted()) != digest);
  Job later = Submitted();
  later.owner = NodeId(HashBytes("new key"));
  later.inputs[0].holder = NodeId(HashBytes("new key"));
  later.phase = JobPhase::kFinished;
  later.rounds_done = 5;
  CHECK(SubmissionDigest(network, later) == digest);
}

}  // namespace
}  // namespace gdf::state
