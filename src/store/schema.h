// The schema of recordings of version 1; a file with any other is refused.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "model/observation.h"
#include "store/columns.h"
#include "store/fields.h"

namespace rung::store {

inline constexpr int kApplicationId = 0x52554e47;  // "RUNG", in the header of the SQLite file
inline constexpr std::string_view kFormat = "rung.recording";
inline constexpr int kVersion = 1;

// CREATE TABLE statements exactly as sqlite_schema keeps them, in order of creation. The first is
// `meta`, which every version has.
const std::vector<std::string>& schema_sql();

// What an observation costs: memory for the bound of a tick, and its longest text. Writer and
// reader count alike, so the reader takes whatever the writer wrote.
struct Cost {
  std::size_t bytes = 0;
  std::size_t longest_text = 0;
};
Cost cost_of(const Observation& observation);

class CostVisitor {
 public:
  explicit CostVisitor(Cost& cost) : cost_(cost) {}
  template <class T>
  void operator()(const char*, const T& value) {
    if constexpr (std::same_as<T, std::string>) {
      text(value);
    } else if constexpr (std::same_as<T, std::optional<DeviceId>>) {
      if (value) text(value->uuid);
    }
  }
  void name(const char*, const std::string& value) { text(value); }
  void process(const char*, const ProcessKey&) {}
  void communicator(const char*, const CommRef&) {}
  void entries(const std::vector<CollectiveEntry>& entries) {
    cost_.bytes += entries.size() * sizeof(CollectiveEntry);
  }

 private:
  void text(const std::string& value) {
    cost_.bytes += value.size();
    cost_.longest_text = std::max(cost_.longest_text, value.size());
  }
  Cost& cost_;
};

// Memory of one row of a second table.
template <class C>
std::size_t cost_of_child(const C& child) {
  Cost cost{sizeof child, 0};
  CostVisitor visitor(cost);
  fields(visitor, child);
  return cost.bytes;
}

// Collects the columns of a table: "name TYPE NOT NULL".
class ColumnList {
 public:
  template <class T>
  void operator()(const char* name, const T&) {
    if constexpr (kIsOptional<T>) {
      add(name, sql_type<typename T::value_type>(), false);
    } else {
      add(name, sql_type<T>(), !std::same_as<T, double>);
    }
  }
  void name(const char* name, const std::string&) { add(name, "INTEGER", true); }
  void process(const char* name, const ProcessKey&) { add(name, "INTEGER", true); }
  void communicator(const char* name, const CommRef&) { add(name, "INTEGER", true); }
  void entries(const std::vector<CollectiveEntry>&) {
    add("entries", "INTEGER", true);
    add("first_unix_ns", "INTEGER", true);
    add("packed", "BLOB", true);
  }

  // ", a INTEGER NOT NULL, b TEXT": to follow a key.
  const std::string& definitions() const { return definitions_; }
  // ", a, b"
  const std::string& names() const { return names_; }
  int count() const { return count_; }

 private:
  void add(const char* name, const char* type, bool required) {
    names_ += std::string(", ") + name;
    definitions_ += std::string(", ") + name + " " + type + (required ? " NOT NULL" : "");
    ++count_;
  }

  std::string definitions_;
  std::string names_;
  int count_ = 0;
};

template <class... T>
ColumnList columns_of() {
  ColumnList list;
  const std::tuple<T...> defaults{};
  std::apply([&](const auto&... value) { (fields(list, value), ...); }, defaults);
  return list;
}

// "INSERT INTO TABLE VALUES(?,?...)" with `keys` leading key columns.
std::string insert_sql(const char* table, int keys, const ColumnList& columns);

}  // namespace rung::store
