// Writes a job's parameters into a folder of the user's.
#ifndef GDF_GDFCTL_EXPORT_H_
#define GDF_GDFCTL_EXPORT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "gdfctl/session.h"

namespace gdf::ctl {

// Those of the checkpoint after so many rounds; 0: the newest. A folder that is not empty needs `force`. The files appear
// when all of them are whole.
absl::StatusOr<ExitCode> ExportTo(Session& session, const std::string& job, uint64_t checkpoint, const std::string& folder,
                                  bool force);

}  // namespace gdf::ctl

#endif  // GDF_GDFCTL_EXPORT_H_
