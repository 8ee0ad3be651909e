// One job's folder on this node's disk; docs/formats/checkpoint.md. Every file is written atomically and carries a
// checksum; a state is used only when its digests hold.
//
//   prepare:  state-R   then prepared-R   (each: write, fsync, rename, fsync folder)
//   commit:   committed-R, after which prepared-R is removed
//   so a crash between any two of these leaves the previous committed state, or the new one, complete.
#ifndef GDF_CORE_CHECKPOINT_CHECKPOINT_STORE_H_
#define GDF_CORE_CHECKPOINT_CHECKPOINT_STORE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/file_system.h"
#include "core/checkpoint/outer_state.h"
#include "core/checkpoint/record.h"
#include "core/wire/round_messages.h"

namespace gdf::checkpoint {

// What the folder holds after a restart.
struct Loaded {
  OuterStatePtr committed;             // null: nothing usable, the job starts from θ_0
  std::optional<wire::Commit> commit;  // of `committed`; none for θ_0
  OuterStateDraft shadow;              // null unless `prepared` is set
  std::optional<wire::Receipt> prepared;  // for the round after `committed`
  std::optional<wire::EpochRecord> epoch;     // entered last
  std::optional<wire::EpochRecord> previous;  // entered before it, while the lead may still have to ask its members
  std::shared_ptr<const RecordFile> worker;  // inner state, the newest that is not newer than `committed`; or null
  RoundId worker_round;                // when `worker` is set
  std::vector<std::string> damage;     // files that were passed over, and why
};

// What SaveWorker wrote into `folder` at that round. Beside calls of a store: it may be gone, which is kNotFound.
absl::StatusOr<std::unique_ptr<RecordFile>> OpenWorker(FileSystem& files, const std::string& folder, RoundId round);

// Not thread-safe: one call at a time, on any thread.
class CheckpointStore {
 public:
  struct Options {
    std::string folder;     // of this job; made when missing
    int keep = 2;           // committed states that stay; at least 1
    uint64_t num_params = 0;
  };
  // `files` must outlive it.
  CheckpointStore(FileSystem& files, Options options) : files_(files), options_(std::move(options)) {}

  // Removes what writes that a crash cut short have left. Before the first write.
  void RemoveLeftovers();

  // Reads what is there, which a later crash does not take back. Damaged, truncated or foreign files are named in `damage` and the one before is used.
  // Fails only when the folder cannot be read. `before`: committed states of that round and later ones are not
  // considered, for a caller that refused what was loaded first.
  absl::StatusOr<Loaded> Load(std::optional<RoundId> before = std::nullopt);
  // The newest committed state that is whole, its θ alone, with no momentum: for exports and samples. Of Loaded, only
  // `committed`, `commit` and `damage` are set. kDataLoss when all that is there is damaged.
  absl::StatusOr<Loaded> LoadTheta();

  // Persists `shadow` and the receipt that this node is about to sign for it. kResourceExhausted: the disk is full;
  // what was there stays.
  absl::Status Prepare(const OuterState& shadow, const wire::Receipt& receipt);
  // Persists that `state` is committed, by `commit` (none: θ_0). Writes the state's file unless Prepare has, then removes
  // what is older than the newest `keep`.
  absl::Status Commit(const OuterState& state, const std::optional<wire::Commit>& commit);
  // Gives up all states, also the worker's: this node begins as one that never had any. What it promised about epochs and
  // attempts stays.
  absl::Status Discard();
  // For a job that has ended: θ of the newest committed state stays, with its commit; its momentum and all other files
  // go. kDataLoss when a committed state was passed over as damaged: then all of them stay. May be repeated.
  absl::Status KeepThetaOnly();
  // The promise to refuse epochs older than `record`. `previous`: whose members a lead of `record` must hear from
  // before it trains.
  absl::Status SaveEpoch(const wire::EpochRecord& record, const std::optional<wire::EpochRecord>& previous);
  // The lead of the epoch has heard from them.
  absl::Status ForgetPrevious();
  // The first of `count` attempts of `epoch`, above `after`, that no start of this node has had before: receipts of one
  // epoch are told apart by them, and only its lead gives them out. kOutOfRange when there are no more.
  absl::StatusOr<uint32_t> ReserveAttempts(Epoch epoch, uint32_t after, uint32_t count);
  // Begins to write the worker's inner state at `round`, this node's own; the writer needs the store no more.
  absl::StatusOr<std::unique_ptr<RecordWriter>> SaveWorker(RoundId round);

 private:
  std::string Path(const char* kind, RoundId round) const;
  std::vector<RoundId> Rounds(const char* kind, std::vector<std::string>* damage);  // newest first
  absl::Status WriteState(const OuterState& state);
  enum class Parts { kAll, kTheta };
  absl::StatusOr<OuterStateDraft> ReadState(RoundId round, Parts parts);
  bool HasMomentum(RoundId round);  // in its file; true also when that cannot be told
  bool Holds(const wire::StateId& id);  // its file is there, as far as the header tells
  void LoadCommitted(Parts parts, std::optional<RoundId> before, Loaded* loaded);
  void LoadPrepared(Loaded* loaded);
  void LoadWorker(Loaded* loaded);
  std::optional<wire::EpochRecord> LoadEpoch(const char* name, Loaded* loaded);
  std::string Path(const char* name) const;
  void Prune(RoundId newest);

  FileSystem& files_;
  const Options options_;
};

}  // namespace gdf::checkpoint

#endif  // GDF_CORE_CHECKPOINT_CHECKPOINT_STORE_H_
