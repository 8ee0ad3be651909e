// What is known of a job while it is watched, and how that is shown: pure.
#ifndef GDF_GDFCTL_JOB_VIEW_H_
#define GDF_GDFCTL_JOB_VIEW_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/control/client.h"
#include "gdfctl/render/text.h"

namespace gdf::ctl {

class JobView {
 public:
  // Takes in one update; a round or event told twice counts once.
  void Update(const control::JobUpdate& update);

  const control::Job& job() const { return job_; }
  const std::map<uint64_t, control::Round>& rounds() const { return rounds_; }
  bool ended() const { return control::Ended(job_.phase); }
  uint64_t rounds_done() const;
  // rounds_done of all, in [0, 1]; 0 while their number is unknown.
  double share_done() const;
  // Of all rounds known, by all members.
  uint64_t bytes_sent() const;
  // Of the newest round that has one.
  std::optional<double> validation_loss() const;
  // From the pace of the rounds so far; absent before the second, and when that would have ended the job already.
  std::optional<absl::Duration> TimeLeft(absl::Time now) const;

 private:
  control::Job job_;
  std::map<uint64_t, control::Round> rounds_;
};

// The block that is drawn again and again on a terminal: two lines, the first with the time left.
std::vector<std::string> RenderProgress(const JobView& view, absl::Time now, const Style& style);
// The same as one line, for logs.
std::string RenderProgressLine(const JobView& view, absl::Time now);
// Which of those lines a log gets: the first, each new phase or reason to wait, and new rounds when they are a twentieth
// of the job further or a minute later.
class ProgressLog {
 public:
  // The line to write now, if any.
  std::optional<std::string> Next(const JobView& view, absl::Time now);

 private:
  std::string state_;  // phase and reason of the last line
  uint64_t rounds_done_ = 0;
  absl::Time at_ = absl::InfinitePast();
};

// "last round 4 min ago": since when a running job has got no further. Empty for one that does not run.
std::string RenderLastProgress(const control::Job& job, absl::Time now);
// A round as a line of `job logs`.
std::string RenderRound(const control::Round& round);
// Loss and validation loss over rounds; empty before the first.
std::string RenderLossCurve(const JobView& view, const Style& style);
// "succeeded after 2 min 3 s: 16 rounds, validation loss 1.7810, 34.0 MiB sent".
std::string RenderVerdict(const JobView& view, const Style& style);

}  // namespace gdf::ctl

#endif  // GDF_GDFCTL_JOB_VIEW_H_
