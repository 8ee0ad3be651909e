// Why a job or a node does what it does, as one answer for people: a pure function of what the network's record and this
// node know, so that a test needs no network. Texts name nodes by their names.
#ifndef GDF_GDFD_SERVICES_EXPLAIN_H_
#define GDF_GDFD_SERVICES_EXPLAIN_H_

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/config/job_spec.h"
#include "core/state/records.h"

namespace gdf::services {

struct Explanation {
  std::string answer;                // one sentence
  std::vector<std::string> because;  // what it rests on, the most important first
  std::vector<std::string> advice;   // what may be done about it; commands and keys of job.yaml
};

// What is known of the network. Who is online: absent where no coordinator is reachable.
struct NetworkView {
  std::vector<state::Member> members;
  std::optional<std::set<NodeId>> online;
  absl::Time now;
};

struct JobView {
  state::Job job;
  std::optional<config::JobSpec> spec;     // none: it cannot be read
  std::vector<state::RoundRecord> rounds;  // the newest, oldest first
  std::vector<state::Event> events;        // of the job, the newest, oldest first
  std::string waiting_for;                 // of a pending job, where it is known
};

Explanation ExplainJob(const JobView& job, const NetworkView& network);

// `jobs`: those that have not ended.
Explanation ExplainNode(const state::Member& node, const std::vector<JobView>& jobs, const NetworkView& network);

}  // namespace gdf::services

#endif  // GDF_GDFD_SERVICES_EXPLAIN_H_
