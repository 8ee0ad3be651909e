// What must lie in a node's state folder, together, for gdfd to start: the network's record and the node's key.
#ifndef GDF_GDFD_STATE_FOLDER_H_
#define GDF_GDFD_STATE_FOLDER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/file_system.h"
#include "core/base/rng.h"
#include "core/state/state.h"
#include "core/trust/node_key.h"

namespace gdf {

// kPermissionDenied when `state_dir` is not this user's or others may write there: they could put another key or record
// in place.
absl::Status CheckStateFolder(FileSystem& files, const std::string& state_dir);

struct NodeRecords {
  std::unique_ptr<state::State> state;
  trust::NodeKey key;
};

// Opens both, or makes them for a node that has neither; first clears up writes, a leave and a key rotation that
// were cut short. kDataLoss when one of them is gone or damaged, kFailedPrecondition when they are two nodes', kPermissionDenied
// when one is open to others; messages name the file and what to do. The caller holds the folder's lock.
absl::StatusOr<NodeRecords> OpenStateFolder(FileSystem& files, const std::string& state_dir, Rng& rng);

// Makes the node of `state_dir` its network's only coordinator, for when most of them are lost for good; first applies what it
// had accepted from the one that led. Returns the log's last entry. kFailedPrecondition when it is no coordinator. The
// caller holds the folder's lock.
absl::StatusOr<uint64_t> RecoverNetwork(FileSystem& files, const std::string& state_dir, Rng& rng, absl::Time now);

// A network that refuses this node may have recorded its next key without the node hearing of it: then that key is taken,
// and the old one kept as previous.key. True when there is a next key.
absl::StatusOr<bool> TakeUnheardKey(FileSystem& files, const std::string& state_dir);

}  // namespace gdf

#endif  // GDF_GDFD_STATE_FOLDER_H_
