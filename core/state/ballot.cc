#include "core/state/ballot.h"

#include "core/base/status_macros.h"
#include "core/state/tables.h"

namespace gdf::state {

absl::StatusOr<Ballot> ReadBallot(store::Database& db) {
  Ballot ballot;
  {
    GDF_ASSIGN_OR_RETURN(store::Rows rows, db.Query("SELECT term, vote, accepted, abstains FROM local_ballot"));
    if (!rows.Next()) {
      GDF_RETURN_IF_ERROR(rows.status());
      return absl::DataLossError("the state database: what its node has promised is missing");
    }
    ballot.term = rows.Unsigned(0);
    if (!rows.Null(1)) {
      GDF_ASSIGN_OR_RETURN(const Digest vote, DigestColumn(rows, 1));
      ballot.vote.emplace(vote);
    }
    ballot.accepted = rows.Unsigned(2);
    ballot.abstains = rows.Int(3) != 0;
  }
  GDF_ASSIGN_OR_RETURN(store::Rows rows, db.Query("SELECT command FROM local_tail ORDER BY log_index"));
  while (rows.Next()) ballot.tail.emplace_back(rows.Bytes(0));
  GDF_RETURN_IF_ERROR(rows.status());
  return ballot;
}

absl::Status WriteVote(store::Database& db, uint64_t term, const std::optional<NodeId>& vote) {
  if (!vote) return db.Run("UPDATE local_ballot SET term = ?, vote = NULL", term);
  return db.Run("UPDATE local_ballot SET term = ?, vote = ?", term, ToBlob(*vote));
}

absl::Status WriteTail(store::Database& db, uint64_t term, uint64_t after, const std::vector<std::string>& tail) {
  GDF_RETURN_IF_ERROR(db.Run("UPDATE local_ballot SET accepted = ?", term));
  GDF_RETURN_IF_ERROR(db.Run("DELETE FROM local_tail"));
  for (const std::string& command : tail) {
    GDF_RETURN_IF_ERROR(db.Run("INSERT INTO local_tail(log_index, command) VALUES(?, ?)", ++after, ToBlob(command)));
  }
  return absl::OkStatus();
}

absl::Status ResetBallot(store::Database& db) {
  GDF_RETURN_IF_ERROR(db.Run("DELETE FROM local_tail"));
  return db.Run("UPDATE local_ballot SET term = 0, vote = NULL, accepted = 0, abstains = 0");
}

}  // namespace gdf::state
