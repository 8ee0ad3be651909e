// A thin wrapper over SQLite: write-ahead log, full sync, errors as Status. One thread at a time.
//
//   GDF_ASSIGN_OR_RETURN(auto db, Database::Open(path));
//   GDF_RETURN_IF_ERROR(db->Run("INSERT INTO t(id, name) VALUES(?, ?)", 7, "seven"));
//   GDF_ASSIGN_OR_RETURN(Rows rows, db->Query("SELECT name FROM t WHERE id >= ?", 5));
//   while (rows.Next()) Use(rows.Text(0));
//   GDF_RETURN_IF_ERROR(rows.status());
#ifndef GDF_CORE_STORE_SQLITE_H_
#define GDF_CORE_STORE_SQLITE_H_

#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/hash.h"

struct sqlite3;
struct sqlite3_stmt;

namespace gdf::store {

// A value bound to a "?": an integer (below 2^63), a number, text or bytes. Views must outlive the call.
struct Blob {
  std::string_view bytes;
};
using Value = std::variant<int64_t, double, std::string_view, Blob>;

inline Value ToValue(double v) { return v; }
inline Value ToValue(std::string_view v) { return v; }
inline Value ToValue(const char* v) { return std::string_view(v); }
inline Value ToValue(const std::string& v) { return std::string_view(v); }
inline Value ToValue(Blob v) { return v; }
inline Value ToValue(const Digest& v) {
  return Blob{{reinterpret_cast<const char*>(v.bytes.data()), v.bytes.size()}};
}
template <std::integral Integer>
Value ToValue(Integer v) {
  return static_cast<int64_t>(v);
}

class Database;

// Appends a column's value in an unambiguous form: SQLite's number for its type, length, bytes (of numbers: their text).
void AppendColumn(int type, std::string_view bytes, std::string* out);

// The rows of one query. Move-only; must not outlive the database. Columns count from 0; views are valid until
// the next call of Next().
class Rows {
 public:
  Rows(Rows&& other) noexcept;
  Rows& operator=(Rows&&) = delete;
  ~Rows();

  // The next row; false at the end or on an error (see status()).
  bool Next();
  const absl::Status& status() const { return status_; }

  int columns() const;
  bool Null(int column) const;
  int64_t Int(int column) const;
  uint64_t Unsigned(int column) const { return static_cast<uint64_t>(Int(column)); }
  double Real(int column) const;
  std::string_view Text(int column) const;
  std::string_view Bytes(int column) const;
  // Appends the row, column by column as AppendColumn, for hashing.
  void AppendRow(std::string* out) const;

 private:
  friend class Database;
  Rows(Database* db, std::string sql, sqlite3_stmt* statement)
      : db_(db), sql_(std::move(sql)), statement_(statement) {}
  Database* db_;
  std::string sql_;
  sqlite3_stmt* statement_;
  absl::Status status_;
};

class Database {
 public:
  // Opens or creates the file with mode 0600. kDataLoss when it is not a database or is damaged.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& path);
  static absl::StatusOr<std::unique_ptr<Database>> OpenInMemory();
  Database(const Database&) = delete;
  ~Database();

  // One statement, run to its end. kResourceExhausted when the disk is full, kDataLoss when the file is damaged,
  // kUnavailable when another process has it locked, kAlreadyExists on a broken constraint.
  template <typename... Args>
  absl::Status Run(std::string_view sql, const Args&... args) {
    return RunValues(sql, {ToValue(args)...});
  }
  template <typename... Args>
  absl::StatusOr<Rows> Query(std::string_view sql, const Args&... args) {
    return QueryValues(sql, {ToValue(args)...});
  }
  // Several statements without values, separated by ';'.
  absl::Status Execute(std::string_view sql);
  // Rows changed by the last Run.
  int64_t changes() const;
  // The whole database, as of its last transaction, as the bytes of a database file. Reads all of
  // it. kResourceExhausted when it is larger than `max_bytes`.
  absl::StatusOr<std::string> Serialize(uint64_t max_bytes);
  absl::StatusOr<uint64_t> SizeBytes();
  // SQLite's quick_check: pages, rows and constraints, not whether indexes agree with their tables. Reads all of it.
  // kDataLoss, with the first damage found.
  absl::Status QuickCheck();

  absl::Status RunValues(std::string_view sql, const std::vector<Value>& values);
  absl::StatusOr<Rows> QueryValues(std::string_view sql, const std::vector<Value>& values);

  // The first error that SQLite reported since ClearError(): tells a failing disk from a failed check
  // when both come up one path.
  const absl::Status& error() const { return error_; }
  void ClearError() { error_ = absl::OkStatus(); }

 private:
  friend class Rows;
  friend class RowDigest;
  Database(sqlite3* db, std::string name) : db_(db), name_(std::move(name)) {}
  static absl::StatusOr<std::unique_ptr<Database>> OpenNamed(const std::string& path, bool memory);
  // A process that ended between writing a transaction and syncing it leaves one that is there until the power is cut. Nobody is
  // to go by it before it is synced.
  absl::Status SyncLog();
  absl::Status Error(int code, std::string_view what);
  absl::StatusOr<sqlite3_stmt*> Prepare(std::string_view sql, const std::vector<Value>& values);
  void Return(std::string sql, sqlite3_stmt* statement);

  sqlite3* db_;
  const std::string name_;  // for messages
  absl::Status error_;
  std::multimap<std::string, sqlite3_stmt*, std::less<>> idle_;  // prepared statements by text
};

// Rolls back on destruction unless committed. Not nested.
class Transaction {
 public:
  static absl::StatusOr<Transaction> Begin(Database& db);
  Transaction(Transaction&& other) noexcept : db_(std::exchange(other.db_, nullptr)) {}
  ~Transaction();
  absl::Status Commit();  // on the disk when it returns OK

 private:
  explicit Transaction(Database* db) : db_(db) {}
  Database* db_;
};

}  // namespace gdf::store

#endif  // GDF_CORE_STORE_SQLITE_H_
