// The tables behind the state, and how their rows become records. For state.cc and apply.cc only.
#ifndef GDF_CORE_STATE_TABLES_H_
#define GDF_CORE_STATE_TABLES_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/state/records.h"
#include "core/store/sqlite.h"

namespace gdf::state {

// Makes the tables of a new database. kFailedPrecondition when a newer version made them.
absl::Status PrepareTables(store::Database& db);

inline store::Blob ToBlob(std::string_view bytes) { return {bytes}; }
inline store::Blob ToBlob(const NodeId& id) {
  return {{reinterpret_cast<const char*>(id.digest().bytes.data()), Digest::kSize}};
}
template <size_t n>
store::Blob ToBlob(const std::array<uint8_t, n>& bytes) {
  return {{reinterpret_cast<const char*>(bytes.data()), n}};
}
// A column that Apply filled with 32 bytes; kDataLoss when it has another size.
absl::StatusOr<Digest> DigestColumn(const store::Rows& rows, int column);

// `where` continues "SELECT ... FROM members m", e.g. "WHERE m.id = ?".
absl::StatusOr<std::vector<Member>> ReadMembers(store::Database& db, std::string_view where,
                                                const std::vector<store::Value>& values = {});
absl::StatusOr<Member> ReadMember(store::Database& db, const NodeId& id);  // kNotFound

absl::StatusOr<std::vector<Job>> ReadJobs(store::Database& db);     // newest first, without spec and inputs
absl::StatusOr<Job> ReadJob(store::Database& db, JobId id);         // kNotFound
// Under the ids that they had then. Empty when no such epoch is recorded.
absl::StatusOr<std::vector<NodeId>> ReadEpochMembers(store::Database& db, JobId job, Epoch epoch);
absl::StatusOr<EpochsPast> ReadEpochsPast(store::Database& db, JobId job);

// As State::CheckMember.
absl::Status CheckMember(store::Database& db, const NodeId& id, trust::Operation operation);
absl::StatusOr<bool> IsCoordinator(store::Database& db, const NodeId& id);

}  // namespace gdf::state

#endif  // GDF_CORE_STATE_TABLES_H_
