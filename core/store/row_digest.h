// A digest of all rows of a database that is kept up to date row by row: the exclusive or, over the rows of its tables, of
// SHA-256(table's name ‖ 0 ‖ row as Rows::AppendRow writes it). Rows of a table differ (they have keys), so that none cancels
// another. Finds damage and changes by hand, not an attacker who may write the file: he can write the digest too.
//
//   RowDigest digest(*db, "local");        // follows what is changed from now on, in all tables but those called local...
//   GDF_ASSIGN_OR_RETURN(Digest all, digest.Compute());
#ifndef GDF_CORE_STORE_ROW_DIGEST_H_
#define GDF_CORE_STORE_ROW_DIGEST_H_

#include <string>

#include "absl/status/statusor.h"
#include "core/base/hash.h"
#include "core/store/sqlite.h"

namespace gdf::store {

// On the database's thread. One to a database, which outlives it.
class RowDigest {
 public:
  RowDigest(Database& db, std::string except_prefix);
  RowDigest(const RowDigest&) = delete;
  ~RowDigest();

  // The digest of the rows as they are. Reads all of them.
  absl::StatusOr<Digest> Compute();

  // What Set was given, with each change since. What is rolled back is not taken out: the caller sets the value of before.
  const Digest& value() const { return value_; }
  void Set(const Digest& value) { value_ = value; }

 private:
  friend struct RowDigestHook;
  Database& db_;
  const std::string except_prefix_;
  Digest value_;
};

}  // namespace gdf::store

#endif  // GDF_CORE_STORE_ROW_DIGEST_H_
