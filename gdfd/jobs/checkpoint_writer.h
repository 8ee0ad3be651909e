// Keeps the checkpoints of one job on this node as its rounds come by: each is written on the pool in pieces, beside the
// rounds, which hand over a shared state and go on.
#ifndef GDF_GDFD_JOBS_CHECKPOINT_WRITER_H_
#define GDF_GDFD_JOBS_CHECKPOINT_WRITER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/compute_pool.h"
#include "core/base/task.h"
#include "core/checkpoint/version_store.h"
#include "core/checkpoint/version_writer.h"
#include "core/config/job_spec.h"
#include "core/trust/node_key.h"
#include "core/wire/state_commands.h"

namespace gdf::jobs {

// On the executor.
class CheckpointWriter {
 public:
  struct Env {
    Executor& executor;
    ComputePool& pool;
    FileSystem& files;
    const trust::NodeKey& key;
    config::JobSpec spec;
    std::string folder;  // of the job
    std::shared_ptr<checkpoint::VersionStore> versions;
    // Tells the job's events what people should know.
    std::function<Task<void>(wire::Severity, std::string)> report;
    // Called after each, whether it could be written or not.
    std::function<void()> on_turn;
  };
  explicit CheckpointWriter(Env env);
  ~CheckpointWriter() { tasks_.Clear(); }

  // What this node holds as committed. It is kept when the job wants a checkpoint of it, in its turn: one that waits when
  // a newer one comes is left out.
  void Offer(checkpoint::OuterStatePtr state, const std::optional<wire::Commit>& commit);
  // The same after a start, whose state may be older than what was kept before.
  void OfferRestored(checkpoint::OuterStatePtr state, const std::optional<wire::Commit>& commit);
  // Resumes when nothing is being written.
  Task<void> Idle();

 private:
  struct Offered {
    checkpoint::OuterStatePtr state;
    wire::Commit commit;
    bool restored = false;
  };
  struct Writing;
  void Take(checkpoint::OuterStatePtr state, const std::optional<wire::Commit>& commit, bool restored);
  Task<void> Run();
  Task<absl::Status> Write(Offered offered);
  Task<void> Tell(RoundId round, absl::Status written);

  const std::shared_ptr<const Env> env_;  // shared with work on the pool
  std::optional<Offered> next_;
  wire::StateId last_;  // that was offered
  bool running_ = false;
  int failures_ = 0;    // in a row
  std::vector<OneShot<bool>> idle_;
  TaskScope tasks_;
};

}  // namespace gdf::jobs

#endif  // GDF_GDFD_JOBS_CHECKPOINT_WRITER_H_
