#include "store/schema.h"

namespace rung::store {
namespace {

std::string table(const char* name, const std::string& key, const std::string& columns,
                  const char* tail = ")") {
  return std::string("CREATE TABLE ") + name + "(" + key + columns + tail;
}

template <class T>
std::string dictionary() {
  return table(kTable<T>, "id INTEGER PRIMARY KEY", columns_of<T>().definitions());
}

std::vector<std::string> make_schema() {
  std::vector<std::string> sql;
  sql.push_back(
      "CREATE TABLE meta(key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL) WITHOUT ROWID");
  sql.push_back(
      "CREATE TABLE tick(id INTEGER PRIMARY KEY, unix_ns INTEGER NOT NULL, "
      "first_seq INTEGER NOT NULL, observations INTEGER NOT NULL, "
      "first_verdict INTEGER NOT NULL, verdicts INTEGER NOT NULL, dropped INTEGER NOT NULL)");
  sql.push_back(dictionary<Name>());
  sql.push_back(dictionary<ProcessKey>());
  sql.push_back(dictionary<CommRef>());
  sql.push_back(dictionary<CollectiveSignature>());
  for_each_evidence([&]<class T>() {
    sql.push_back(
        table(kTable<T>, "seq INTEGER PRIMARY KEY", columns_of<Origin, T>().definitions()));
    if constexpr (kHasChildren<T>) {
      sql.push_back(table(kTable<ChildOf<T>>, "seq INTEGER NOT NULL, ord INTEGER NOT NULL",
                          columns_of<ChildOf<T>>().definitions(),
                          ", PRIMARY KEY(seq, ord)) WITHOUT ROWID"));
    }
  });
  sql.push_back(
      table(kTable<Verdict>, "id INTEGER PRIMARY KEY", columns_of<Verdict>().definitions()));
  return sql;
}

}  // namespace

const std::vector<std::string>& schema_sql() {
  static const std::vector<std::string> kSql = make_schema();
  return kSql;
}

Cost cost_of(const Observation& observation) {
  Cost cost{sizeof(Observation), 0};
  CostVisitor visitor(cost);
  std::visit(
      [&](const auto& what) {
        fields(visitor, what);
        if constexpr (kHasChildren<std::remove_cvref_t<decltype(what)>>) {
          for (const auto& child : *children_of(what)) {
            cost.bytes += sizeof child;
            fields(visitor, child);
          }
        }
      },
      observation.what);
  return cost;
}

std::string insert_sql(const char* table, int keys, const ColumnList& columns) {
  std::string marks = "?";
  for (int i = 1; i < keys + columns.count(); ++i) marks += ",?";
  return std::string("INSERT INTO ") + table + " VALUES(" + marks + ")";
}

}  // namespace rung::store
