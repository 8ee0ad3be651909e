#define SQLITE_ENABLE_PREUPDATE_HOOK
#include "core/store/row_digest.h"

#include <sqlite3.h>

#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"

namespace gdf::store {
namespace {

void Mix(std::string_view table, std::string_view row, Digest* digest) {
  const Digest of_row = Sha256().Update(table).Update(std::string_view("\0", 1)).Update(row).Finish();
  for (size_t i = 0; i < Digest::kSize; ++i) digest->bytes[i] ^= of_row.bytes[i];
}

}  // namespace

struct RowDigestHook {
  using Value = int (*)(sqlite3*, int, sqlite3_value**);

  static std::string Row(sqlite3* db, Value value_at) {
    std::string row;
    const int columns = sqlite3_preupdate_count(db);
    for (int i = 0; i < columns; ++i) {
      sqlite3_value* value = nullptr;
      GDF_CHECK(value_at(db, i, &value) == SQLITE_OK);  // fails for a wrong column only, and without memory
      const int type = sqlite3_value_type(value);
      const void* bytes = sqlite3_value_blob(value);
      const int size = sqlite3_value_bytes(value);
      AppendColumn(type, {static_cast<const char*>(bytes), bytes == nullptr ? 0 : static_cast<size_t>(size)}, &row);
    }
    row.push_back('\n');
    return row;
  }

  static void OnChange(void* self, sqlite3* db, int operation, const char*, const char* table, sqlite3_int64,
                       sqlite3_int64) {
    auto* digest = static_cast<RowDigest*>(self);
    if (std::string_view(table).starts_with(digest->except_prefix_)) return;
    if (operation != SQLITE_INSERT) Mix(table, Row(db, sqlite3_preupdate_old), &digest->value_);
    if (operation != SQLITE_DELETE) Mix(table, Row(db, sqlite3_preupdate_new), &digest->value_);
  }
};

RowDigest::RowDigest(Database& db, std::string except_prefix)
    : db_(db), except_prefix_(std::move(except_prefix)) {
  sqlite3_preupdate_hook(db_.db_, RowDigestHook::OnChange, this);
}

RowDigest::~RowDigest() { sqlite3_preupdate_hook(db_.db_, nullptr, nullptr); }

absl::StatusOr<Digest> RowDigest::Compute() {
  std::vector<std::string> tables;
  {
    GDF_ASSIGN_OR_RETURN(Rows names,
                         db_.Query("SELECT name FROM sqlite_schema WHERE type = 'table'"));
    while (names.Next()) {
      if (!names.Text(0).starts_with(except_prefix_)) tables.emplace_back(names.Text(0));
    }
    GDF_RETURN_IF_ERROR(names.status());
  }
  Digest digest;
  std::string row;
  for (const std::string& table : tables) {
    GDF_ASSIGN_OR_RETURN(Rows rows, db_.Query(absl::StrCat("SELECT * FROM \"", table, "\"")));
    while (rows.Next()) {
      row.clear();
      rows.AppendRow(&row);
      Mix(table, row, &digest);
    }
    GDF_RETURN_IF_ERROR(rows.status());
  }
  return digest;
}

}  // namespace gdf::store
