#include "store/sqlite.h"

namespace rung::store {
namespace {

ErrorCode code_of(int rc) {
  switch (rc & 0xff) {
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
    case SQLITE_FORMAT:
    case SQLITE_TOOBIG:
    case SQLITE_MISMATCH:
    case SQLITE_ERROR:  // a schema that does not hold what our statements name
    case SQLITE_SCHEMA:
      return ErrorCode::kBadInput;
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_READONLY:
      return ErrorCode::kNoPermission;
    case SQLITE_IOERR:
      return rc == SQLITE_IOERR_SHORT_READ ? ErrorCode::kBadInput : ErrorCode::kUnavailable;
    case SQLITE_CANTOPEN:
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_FULL:
    case SQLITE_NOMEM:
    case SQLITE_NOLFS:
      return ErrorCode::kUnavailable;
    default:
      return ErrorCode::kInternal;
  }
}

}  // namespace

tl::unexpected<Error> sqlite_error(sqlite3* db, int rc, const std::string& what) {
  const char* why = db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(rc);
  return fail(code_of(rc), what + ": " + why);
}

Result<Database> open_database(const std::string& path, int flags) {
  sqlite3* raw = nullptr;
  const int rc = sqlite3_open_v2(path.c_str(), &raw, flags, nullptr);
  Database db(raw);
  if (rc != SQLITE_OK) return sqlite_error(db.get(), rc, "SQLite cannot open the file");
  sqlite3_extended_result_codes(db.get(), 1);
  return db;
}

Result<void> execute(sqlite3* db, const std::string& sql) {
  const int rc = sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr);
  if (rc != SQLITE_OK) return sqlite_error(db, rc, "SQLite");
  return {};
}

Result<Statement> Statement::prepare(sqlite3* db, const std::string& sql) {
  sqlite3_stmt* raw = nullptr;
  const int rc = sqlite3_prepare_v3(db, sql.c_str(), static_cast<int>(sql.size()),
                                    SQLITE_PREPARE_PERSISTENT, &raw, nullptr);
  if (rc != SQLITE_OK) return sqlite_error(db, rc, "SQLite");
  Statement statement;
  statement.statement_.reset(raw);
  return statement;
}

void Statement::bind_text(int parameter, std::string_view text) {
  // A null pointer would bind NULL; an empty view may have one.
  const char* data = text.empty() ? "" : text.data();
  note(sqlite3_bind_text64(get(), parameter, data, text.size(), SQLITE_STATIC, SQLITE_UTF8));
}

void Statement::bind_blob(int parameter, std::string_view bytes) {
  const char* data = bytes.empty() ? "" : bytes.data();
  note(sqlite3_bind_blob64(get(), parameter, data, bytes.size(), SQLITE_STATIC));
}

Result<bool> Statement::step() {
  const int rc = bind_rc_ != SQLITE_OK ? bind_rc_ : sqlite3_step(get());
  if (rc == SQLITE_ROW) return true;
  auto result = rc == SQLITE_DONE
                    ? Result<bool>(false)
                    : Result<bool>(sqlite_error(sqlite3_db_handle(get()), rc, "SQLite"));
  reset();
  return result;
}

Result<void> Statement::run() {
  auto stepped = step();
  if (!stepped) return tl::unexpected<Error>(stepped.error());
  reset();
  return {};
}

void Statement::reset() {
  sqlite3_reset(get());
  bind_rc_ = SQLITE_OK;
}

std::string_view Statement::bytes(int column) const {
  // column_blob first: it does not convert; column_bytes then counts the same representation.
  const void* data = sqlite3_column_blob(get(), column);
  const int size = sqlite3_column_bytes(get(), column);
  if (data == nullptr || size <= 0) return {};
  return {static_cast<const char*>(data), static_cast<std::size_t>(size)};
}

}  // namespace rung::store
