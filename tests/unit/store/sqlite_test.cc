#include <catch2/catch.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "core/store/sqlite.h"

namespace gdf::store {
namespace {

class TempFile {
 public:
  TempFile() {
    char name[] = "/tmp/gdf-sqlite-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~TempFile() {
    for (const char* suffix : {"", "-wal", "-shm"}) unlink((path() + suffix).c_str());
    rmdir(folder_.c_str());
  }
  std::string path() const { return folder_ + "/db"; }

 private:
  std::string folder_;
};

TEST_CASE("values of every kind come back") {
  auto db = *Database::OpenInMemory();
  REQUIRE(db->Execute("CREATE TABLE t(i, r, s, b, n)").ok());
  const std::string bytes("a\0b", 3);
  REQUIRE(db->Run("INSERT INTO t VALUES(?, ?, ?, ?, NULL)", int64_t{-7}, 0.5, "text", Blob{bytes}).ok());
  CHECK(db->changes() == 1);
  Rows rows = *db->Query("SELECT i, r, s, b, n FROM t WHERE i = ?", -7);
  REQUIRE(rows.Next());
  CHECK(rows.Int(0) == -7);
  CHECK(rows.Real(1) == 0.5);
  CHECK(rows.Text(2) == "text");
  CHECK(rows.Bytes(3) == bytes);
  CHECK(rows.Null(4));
  CHECK_FALSE(rows.Next());
  CHECK(rows.status().ok());
}

TEST_CASE("the same statement may be open twice") {
  auto db = *Database::OpenInMemory();
  REQUIRE(db->Execute("CREATE TABLE t(i); INSERT INTO t VALUES(1); INSERT INTO t VALUES(2)").ok());
  Rows outer = *db->Query("SELECT i FROM t ORDER BY i");
  int pairs = 0;
  while (outer.Next()) {
    Rows inner = *db->Query("SELECT i FROM t ORDER BY i");
    while (inner.Next()) ++pairs;
  }
  CHECK(pairs == 4);
}

TEST_CASE("a transaction that is not committed leaves nothing") {
  auto db = *Database::OpenInMemory();
  REQUIRE(db->Execute("CREATE TABLE t(i)").ok());
  {
    Transaction transaction = *Transaction::Begin(*db);
    REQUIRE(db->Run("INSERT INTO t VALUES(1)").ok());
  }
  {
    Rows rows = *db->Query("SELECT COUNT(*) FROM t");
    REQUIRE(rows.Next());
    CHECK(rows.Int(0) == 0);
  }
  Transaction transaction = *Transaction::Begin(*db);
  REQUIRE(db->Run("INSERT INTO t VALUES(1)").ok());
  REQUIRE(transaction.Commit().ok());
}

TEST_CASE("errors have codes, and the first is kept") {
  auto db = *Database::OpenInMemory();
  REQUIRE(db->Execute("CREATE TABLE t(i UNIQUE); INSERT INTO t VALUES(1)").ok());
  CHECK(absl::IsAlreadyExists(db->Run("INSERT INTO t VALUES(1)")));
  CHECK(absl::IsInternal(db->Run("SELECT nonsense FROM t")));
  CHECK(absl::IsAlreadyExists(db->error()));
  db->ClearError();
  CHECK(db->error().ok());
}

TEST_CASE("a full disk is told as such and loses nothing") {
  auto db = *Database::OpenInMemory();
  REQUIRE(db->Execute("CREATE TABLE t(b); PRAGMA max_page_count=20").ok());
  const std::string big(200'000, 'x');
  {
    Transaction transaction = *Transaction::Begin(*db);
    CHECK(absl::IsResourceExhausted(db->Run("INSERT INTO t VALUES(?)", Blob{big})));
  }
  REQUIRE(db->Run("INSERT INTO t VALUES(?)", Blob{"small"}).ok());
  Rows rows = *db->Query("SELECT COUNT(*) FROM t");
  REQUIRE(rows.Next());
  CHECK(rows.Int(0) == 1);
}

TEST_CASE("a copy is the database after its last transaction, whatever is still in the write-ahead log") {
  TempFile file, copy_file;
  auto db = *Database::Open(file.path());
  REQUIRE(db->Execute("CREATE TABLE t(i); INSERT INTO t VALUES(1), (2)").ok());
  const absl::StatusOr<std::string> copy = db->Serialize(1 << 20);
  INFO(copy.status());
  REQUIRE(copy.ok());
  REQUIRE(db->Run("INSERT INTO t VALUES(3)").ok());  // is not in it
  std::ofstream(copy_file.path(), std::ios::binary) << *copy;
  auto restored = *Database::Open(copy_file.path());
  Rows rows = *restored->Query("SELECT COUNT(*), SUM(i) FROM t");
  REQUIRE(rows.Next());
  CHECK(rows.Int(0) == 2);
  CHECK(rows.Int(1) == 3);
  const absl::Status large = db->Serialize(copy->size() - 1).status();
  CHECK(absl::IsResourceExhausted(large));
  CHECK(large.message().find(file.path()) != std::string::npos);

  auto memory = *Database::OpenInMemory();
  REQUIRE(memory->Execute("CREATE TABLE t(i)").ok());
  CHECK(memory->Serialize(1 << 20)->substr(0, 15) == "SQLite format 3");  // sqlite.org/fileformat2.html
}

TEST_CASE("a database file is private, and one that is none is data loss") {
  TempFile file;
  {
    auto db = *Database::Open(file.path());
    REQUIRE(db->Execute("CREATE TABLE t(i)").ok());
  }
  struct stat info;
  REQUIRE(stat(file.path().c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  std::ofstream(file.path(), std::ios::trunc) << std::string(8192, 'g');
  CHECK(absl::IsDataLoss(Database::Open(file.path()).status()));
  CHECK(absl::IsNotFound(Database::Open("/nonexistent/db").status()));
}

}  // namespace
}  // namespace gdf::store
