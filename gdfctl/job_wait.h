// Waiting for a job with its progress shown.
#ifndef GDF_GDFCTL_JOB_WAIT_H_
#define GDF_GDFCTL_JOB_WAIT_H_

#include <string>

#include "absl/status/statusor.h"
#include "gdfctl/session.h"

namespace gdf::ctl {

// Shows the progress of `job` on standard error until it ends, then its loss curve and verdict, whose exit code is
// returned. kDeadlineExceeded after `timeout`; the job goes on, as it does when the user interrupts.
absl::StatusOr<ExitCode> WaitForJob(Session& session, const std::string& job, absl::Duration timeout);

}  // namespace gdf::ctl

#endif  // GDF_GDFCTL_JOB_WAIT_H_
