// The ports that a node which takes any free one (port 0) had last: those who know it by its address find it again.
#ifndef GDF_GDFD_LISTEN_PORTS_H_
#define GDF_GDFD_LISTEN_PORTS_H_

#include <string>
#include <vector>

#include "core/base/file_system.h"
#include "core/config/node_config.h"

namespace gdf {

// `listen` with the last port of the same host in the place of each port 0, where one is known.
std::vector<std::string> WithLastPorts(FileSystem& files, const std::string& state_dir,
                                       const std::vector<config::Endpoint>& listen);

// Keeps what is listened on now for the next start.
absl::Status KeepPorts(FileSystem& files, const std::string& state_dir, const std::vector<std::string>& bound);

}  // namespace gdf

#endif  // GDF_GDFD_LISTEN_PORTS_H_
