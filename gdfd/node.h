// The parts of a running daemon, as its services see them. Owned by Daemon; everything but `bridge` is for the executor.
#ifndef GDF_GDFD_NODE_H_
#define GDF_GDFD_NODE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/executor.h"
#include "core/base/file_system.h"
#include "core/base/rng.h"
#include "core/config/node_config.h"
#include "core/membership/membership.h"
#include "core/net/transport.h"
#include "core/state/state.h"
#include "core/store/chunk_store.h"
#include "core/trust/node_key.h"
#include "gdfd/jobs/job_host.h"
#include "gdfd/jobs/scheduler.h"

namespace gdf {

struct Node {
  Executor& executor;
  Rng& rng;
  FileSystem& files;
  const config::NodeConfig& config;
  const trust::NodeKey& key;
  state::State& state;
  net::Transport& transport;
  membership::Membership& membership;
  std::shared_ptr<store::ChunkStore> chunks;  // any thread
  jobs::JobHost& jobs;
  // The scheduler when this node is the coordinator that leads, else null.
  std::function<jobs::Scheduler*()> scheduler;
  // After this node has founded a network.
  std::function<void()> on_founded;
  // Closes everything and begins anew from what is on disk.
  std::function<void(const std::string& why)> restart;
  std::string state_dir;
  std::vector<std::string> listen;     // bound addresses
  std::vector<std::string> advertise;  // told to others
  std::vector<std::string> sandbox;    // what confines workers
  std::vector<std::string> warnings;   // of the last worker's sandbox
  absl::Time started;
  std::string gpu_problem = {};  // why a GPU of this machine cannot be used; empty: nothing is wrong
};

}  // namespace gdf

#endif  // GDF_GDFD_NODE_H_
