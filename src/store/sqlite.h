// Owning handles of SQLite, with errors as Result.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rung::store {

struct CloseDatabase {
  void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;

// Opens `path` or URI. Errors as sqlite_error().
Result<Database> open_database(const std::string& path, int flags);

// "WHAT: <SQLite's message>". Code: kBadInput for a file that SQLite finds malformed or foreign,
// kNoPermission, kUnavailable for I/O, full disks and locks, else kInternal.
tl::unexpected<Error> sqlite_error(sqlite3* db, int rc, const std::string& what);

// Runs statements that give no rows (or whose rows do not matter).
Result<void> execute(sqlite3* db, const std::string& sql);

// One prepared statement. Parameters count from 1, columns from 0. A failed bind shows in step().
class Statement {
 public:
  static Result<Statement> prepare(sqlite3* db, const std::string& sql);

  void bind_null(int parameter) { note(sqlite3_bind_null(get(), parameter)); }
  void bind(int parameter, std::int64_t value) {
    note(sqlite3_bind_int64(get(), parameter, value));
  }
  void bind(int parameter, double value) { note(sqlite3_bind_double(get(), parameter, value)); }
  // The bytes must live until the next step(): they are not copied.
  void bind_text(int parameter, std::string_view text);
  void bind_blob(int parameter, std::string_view bytes);

  // True: a row is there; false: done, and the statement is reset for the next use.
  Result<bool> step();
  // Runs to the end, for statements without rows.
  Result<void> run();
  void reset();

  int type(int column) const { return sqlite3_column_type(get(), column); }
  std::int64_t integer(int column) const { return sqlite3_column_int64(get(), column); }
  double real(int column) const { return sqlite3_column_double(get(), column); }
  // Valid until the next step() or reset().
  std::string_view bytes(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  sqlite3_stmt* get() const { return statement_.get(); }
  void note(int rc) {
    if (rc != SQLITE_OK && bind_rc_ == SQLITE_OK) bind_rc_ = rc;
  }

  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int bind_rc_ = SQLITE_OK;
};

}  // namespace rung::store
