// Looking into JSON in tests, by SQLite's own JSON functions.
#pragma once

#include <sqlite3.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace rung::test {

// Rows of the first column of `query`, whose only parameter is the JSON text.
inline std::vector<std::string> json_rows(const std::string& json, const std::string& query) {
  sqlite3* db = nullptr;
  sqlite3_open(":memory:", &db);
  sqlite3_stmt* statement = nullptr;
  std::vector<std::string> out;
  std::string error;
  if (sqlite3_prepare_v2(db, query.c_str(), -1, &statement, nullptr) != SQLITE_OK) {
    error = sqlite3_errmsg(db);
  } else {
    sqlite3_bind_text(statement, 1, json.data(), static_cast<int>(json.size()), SQLITE_STATIC);
    int state = 0;
    while ((state = sqlite3_step(statement)) == SQLITE_ROW) {
      const unsigned char* text = sqlite3_column_text(statement, 0);
      out.emplace_back(text == nullptr ? "null" : reinterpret_cast<const char*>(text));
    }
    if (state != SQLITE_DONE) error = sqlite3_errmsg(db);
  }
  sqlite3_finalize(statement);
  sqlite3_close(db);
  if (!error.empty()) throw std::runtime_error(error + " in " + query);
  return out;
}

// The value at a path such as "$.schema"; "null" when absent.
inline std::string json_at(const std::string& json, const std::string& path) {
  return json_rows(json, "SELECT json_extract(?1, '" + path + "')").at(0);
}

}  // namespace rung::test
