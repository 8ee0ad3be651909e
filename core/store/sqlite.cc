#include "core/store/sqlite.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/regular_file.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"

namespace gdf::store {
namespace {

constexpr int kBusyTimeoutMs = 5000;  // another process (a backup) may hold the file for a moment

constexpr char kDamageHint[] = ": the file or its disk is damaged; restore a backup or join again";

absl::StatusCode CodeOf(int sqlite_code) {
  switch (sqlite_code & 0xFF) {
    case SQLITE_FULL: return absl::StatusCode::kResourceExhausted;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_IOERR: return absl::StatusCode::kDataLoss;
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return absl::StatusCode::kUnavailable;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_CANTOPEN: return absl::StatusCode::kPermissionDenied;
    case SQLITE_CONSTRAINT: return absl::StatusCode::kAlreadyExists;
    case SQLITE_NOMEM: return absl::StatusCode::kResourceExhausted;
    default: return absl::StatusCode::kInternal;
  }
}

int BindValue(sqlite3_stmt* statement, int at, const Value& value) {
  if (const auto* v = std::get_if<int64_t>(&value)) return sqlite3_bind_int64(statement, at, *v);
  if (const auto* v = std::get_if<double>(&value)) return sqlite3_bind_double(statement, at, *v);
  if (const auto* v = std::get_if<std::string_view>(&value)) {
    return sqlite3_bind_text64(statement, at, v->data() ? v->data() : "", v->size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  }
  const std::string_view bytes = std::get<Blob>(value).bytes;
  return sqlite3_bind_blob64(statement, at, bytes.data() ? bytes.data() : "", bytes.size(), SQLITE_TRANSIENT);
}

}  // namespace

void AppendColumn(int type, std::string_view bytes, std::string* out) {
  absl::StrAppend(out, type, ":", bytes.size(), ":", ToAbsl(bytes), ";");
}

Rows::Rows(Rows&& other) noexcept
    : db_(other.db_),
      sql_(std::move(other.sql_)),
      statement_(std::exchange(other.statement_, nullptr)),
      status_(std::move(other.status_)) {}

Rows::~Rows() {
  if (statement_ != nullptr) db_->Return(std::move(sql_), statement_);
}

bool Rows::Next() {
  if (!status_.ok()) return false;
  const int rc = sqlite3_step(statement_);
  if (rc == SQLITE_ROW) return true;
  if (rc != SQLITE_DONE) status_ = db_->Error(rc, sql_);
  return false;
}

int Rows::columns() const { return sqlite3_column_count(statement_); }
bool Rows::Null(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
int64_t Rows::Int(int column) const { return sqlite3_column_int64(statement_, column); }
double Rows::Real(int column) const { return sqlite3_column_double(statement_, column); }
std::string_view Rows::Text(int column) const { return Bytes(column); }

std::string_view Rows::Bytes(int column) const {
  const void* data = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  return {static_cast<const char*>(data), data == nullptr ? 0 : static_cast<size_t>(size)};
}

void Rows::AppendRow(std::string* out) const {
  for (int i = 0; i < columns(); ++i) {
    const int type = sqlite3_column_type(statement_, i);
    AppendColumn(type, Bytes(i), out);
  }
  out->push_back('\n');
}

absl::StatusOr<std::unique_ptr<Database>> Database::OpenNamed(const std::string& path, bool memory) {
  if (!memory) {
    // SQLite would create the file with the umask's mode.
    GDF_ASSIGN_OR_RETURN(const int fd, OpenRegularFile(path, O_RDWR | O_CREAT | O_NOFOLLOW));
    close(fd);
    for (const char* beside : {"-wal", "-shm"}) {
      absl::StatusOr<int> fd_beside = OpenRegularFile(path + beside, O_RDWR | O_NOFOLLOW);
      if (fd_beside.ok()) close(*fd_beside);
      if (!absl::IsNotFound(fd_beside.status())) GDF_RETURN_IF_ERROR(fd_beside.status());
    }
  }
  sqlite3* handle = nullptr;
  const int rc = sqlite3_open_v2(memory ? ":memory:" : path.c_str(), &handle,
                                 SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  std::unique_ptr<Database> db(new Database(handle, memory ? "database in memory" : path));
  if (rc != SQLITE_OK) return db->Error(rc, "open");
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, kBusyTimeoutMs);
  GDF_RETURN_IF_ERROR(db->Execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON;"
                                  "PRAGMA wal_autocheckpoint=1000; PRAGMA journal_size_limit=16777216;"
                                  "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON;"));
  if (!memory) GDF_RETURN_IF_ERROR(db->SyncLog());
  return db;
}

absl::Status Database::SyncLog() {
  GDF_RETURN_IF_ERROR(Execute("SELECT count(*) FROM sqlite_schema"));  // opens the log
  sqlite3_file* log = nullptr;
  int rc = sqlite3_file_control(db_, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
  if (rc == SQLITE_OK && log != nullptr && log->pMethods != nullptr) rc = log->pMethods->xSync(log, SQLITE_SYNC_FULL);
  if (rc == SQLITE_OK) return absl::OkStatus();
  return absl::Status(CodeOf(rc), absl::StrCat(name_, ": its log cannot be synced: ", sqlite3_errstr(rc), kDamageHint));
}

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const std::string& path) {
  return OpenNamed(path, false);
}

absl::StatusOr<std::unique_ptr<Database>> Database::OpenInMemory() { return OpenNamed("", true); }

Database::~Database() {
  for (auto& [sql, statement] : idle_) sqlite3_finalize(statement);
  GDF_CHECK(sqlite3_close(db_) == SQLITE_OK);
}

absl::Status Database::Error(int code, std::string_view what) {
  std::string hint;
  if (CodeOf(code) == absl::StatusCode::kResourceExhausted) hint = ": free some disk space and try again";
  if (CodeOf(code) == absl::StatusCode::kDataLoss) hint = kDamageHint;
  absl::Status status(CodeOf(code), absl::StrCat(name_, ": ", sqlite3_errmsg(db_), " (SQLite ", code, ", at \"",
                                                 ToAbsl(what.substr(0, 60)), "\")", hint));
  if (error_.ok()) error_ = status;
  return status;
}

absl::StatusOr<sqlite3_stmt*> Database::Prepare(std::string_view sql, const std::vector<Value>& values) {
  sqlite3_stmt* statement = nullptr;
  if (const auto idle = idle_.find(sql); idle != idle_.end()) {
    statement = idle->second;
    idle_.erase(idle);
  } else {
    const int rc = sqlite3_prepare_v3(db_, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT,
                                      &statement, nullptr);
    if (rc != SQLITE_OK) return Error(rc, sql);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (const int rc = BindValue(statement, static_cast<int>(i + 1), values[i]); rc != SQLITE_OK) {
      const absl::Status status = Error(rc, sql);
      sqlite3_finalize(statement);
      return status;
    }
  }
  return statement;
}

void Database::Return(std::string sql, sqlite3_stmt* statement) {
  sqlite3_reset(statement);
  sqlite3_clear_bindings(statement);
  idle_.emplace(std::move(sql), statement);
}

absl::Status Database::RunValues(std::string_view sql, const std::vector<Value>& values) {
  GDF_ASSIGN_OR_RETURN(Rows rows, QueryValues(sql, values));
  while (rows.Next()) {
  }
  return rows.status();
}

absl::StatusOr<Rows> Database::QueryValues(std::string_view sql, const std::vector<Value>& values) {
  GDF_ASSIGN_OR_RETURN(sqlite3_stmt* statement, Prepare(sql, values));
  return Rows(this, std::string(sql), statement);
}

absl::Status Database::Execute(std::string_view sql) {
  const int rc = sqlite3_exec(db_, std::string(sql).c_str(), nullptr, nullptr, nullptr);
  return rc == SQLITE_OK ? absl::OkStatus() : Error(rc, sql);
}

absl::StatusOr<uint64_t> Database::SizeBytes() {
  GDF_ASSIGN_OR_RETURN(Rows rows, Query("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"));
  const uint64_t bytes = rows.Next() ? rows.Unsigned(0) : 0;
  GDF_RETURN_IF_ERROR(rows.status());
  return bytes;
}

absl::Status Database::QuickCheck() {
  GDF_ASSIGN_OR_RETURN(Rows rows, Query("PRAGMA quick_check(1)"));
  const std::string found(rows.Next() ? rows.Text(0) : "");
  GDF_RETURN_IF_ERROR(rows.status());
  if (found == "ok") return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(name_, ": ", found, kDamageHint));
}

absl::StatusOr<std::string> Database::Serialize(uint64_t max_bytes) {
  GDF_ASSIGN_OR_RETURN(const uint64_t bytes, SizeBytes());
  if (bytes > max_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(name_, " has ", HumanBytes(bytes), ", at most ", HumanBytes(max_bytes), " can be copied"));
  }
  sqlite3_int64 size = 0;
  const std::unique_ptr<unsigned char, void (*)(void*)> copy(sqlite3_serialize(db_, "main", &size, 0), sqlite3_free);
  if (copy == nullptr) return Error(SQLITE_NOMEM, "copy");
  return std::string(reinterpret_cast<const char*>(copy.get()), static_cast<size_t>(size));
}

int64_t Database::changes() const { return sqlite3_changes64(db_); }

absl::StatusOr<Transaction> Transaction::Begin(Database& db) {
  GDF_RETURN_IF_ERROR(db.Run("BEGIN IMMEDIATE"));
  return Transaction(&db);
}

Transaction::~Transaction() {
  // A full disk may have rolled back already; then this statement fails and there is nothing left to undo.
  if (db_ != nullptr) (void)db_->Run("ROLLBACK");
}

absl::Status Transaction::Commit() {
  GDF_RETURN_IF_ERROR(db_->Run("COMMIT"));
  db_ = nullptr;
  return absl::OkStatus();
}

}  // namespace gdf::store
