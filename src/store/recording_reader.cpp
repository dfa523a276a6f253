#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include "base/fd.h"
#include "base/strings.h"
#include "store/collective_blob.h"
#include "store/rank_set_text.h"
#include "store/recording.h"
#include "store/recording_path.h"
#include "store/schema.h"
#include "store/sqlite.h"

namespace rung {
namespace store {
namespace {

constexpr std::size_t kDictionaryMemory = 8192;  // entries of each dictionary that stay in memory
constexpr int kLongestValue = 4 << 20;           // of a row: a packed batch, a rank set
constexpr std::size_t kSqliteHeaderBytes = 100;
constexpr std::string_view kSqliteMagic("SQLite format 3\0", 16);
constexpr std::size_t kApplicationIdAt = 68;  // big endian, sqlite.org/fileformat2.html 1.3
constexpr std::size_t kReadVersionAt = 19;    // 1 rollback journal, 2 WAL

tl::unexpected<Error> bad(const std::string& what) { return fail(ErrorCode::kBadInput, what); }

// Reads plain fields from columns one after the other; remembers the first that does not fit.
class PlainReader {
 public:
  PlainReader(const Statement& row, const char* table, int first)
      : row_(row), table_(table), next_(first) {}

  template <class T>
  void operator()(const char* name, T& value) {
    if constexpr (kIsOptional<T>) {
      value.reset();
      if (row_.type(next_) == SQLITE_NULL) {
        ++next_;
      } else {
        get(name, value.emplace());
      }
    } else {
      get(name, value);
    }
  }

  Result<void> result() const {
    if (error_) return tl::unexpected<Error>(*error_);
    return {};
  }

 protected:
  template <class T>
  void get(const char* name, T& value) {
    const int column = next_++;
    if (error_) return;
    if constexpr (std::same_as<T, double>) {
      // NULL is NaN: SQLite has no other way to keep it.
      const int type = row_.type(column);
      if (type != SQLITE_FLOAT && type != SQLITE_NULL) return refuse(name);
      value = type == SQLITE_NULL ? std::numeric_limits<double>::quiet_NaN() : row_.real(column);
    } else if constexpr (TextField<T>) {
      if (row_.type(column) != SQLITE_TEXT || !take_text(row_.bytes(column), value)) refuse(name);
    } else {
      if (row_.type(column) != SQLITE_INTEGER) return refuse(name);
      const auto number = from_integer<T>(row_.integer(column));
      if (!number) return refuse(name);
      value = *number;
    }
  }

  static bool take_text(std::string_view text, std::string& value) {
    if (text.size() > kRecordingTextBytes) return false;
    value = text;
    return true;
  }
  static bool take_text(std::string_view text, DeviceId& value) {
    return take_text(text, value.uuid);
  }
  static bool take_text(std::string_view text, char& value) {
    if (text.size() != 1) return false;
    value = text[0];
    return true;
  }
  static bool take_text(std::string_view text, RankSet& value) {
    auto set = parse_rank_set(text);
    if (!set) return false;
    value = std::move(*set);
    return true;
  }

  void refuse(const char* name) {
    if (error_) return;
    error_ =
        Error{ErrorCode::kBadInput,
              std::string("column ") + name + " of table " + table_ + " has an invalid value", ""};
  }

  const Statement& row_;
  const char* table_;
  int next_;
  std::optional<Error> error_;
};

template <class K>
class DictionaryReader {
 public:
  Result<void> prepare(sqlite3* db) {
    const std::string columns = columns_of<K>().names().substr(2);
    auto select =
        Statement::prepare(db, "SELECT " + columns + " FROM " + kTable<K> + " WHERE id=?");
    if (!select) return tl::unexpected<Error>(select.error());
    select_ = std::move(*select);
    return {};
  }

  Result<K> find(std::int64_t id) {
    const auto known = values_.find(id);
    if (known != values_.end()) return known->second;
    select_.bind(1, id);
    const auto there = select_.step();
    if (!there) return tl::unexpected<Error>(there.error());
    if (!*there) return bad(std::string("table ") + kTable<K> + " lacks an entry");
    K value{};
    PlainReader reader(select_, kTable<K>, 0);
    fields(reader, value);
    select_.reset();
    if (auto done = reader.result(); !done) return tl::unexpected<Error>(done.error());
    if (values_.size() >= kDictionaryMemory) values_.clear();
    values_.emplace(id, value);
    return value;
  }

 private:
  Statement select_;
  std::map<std::int64_t, K> values_;
};

struct Dictionaries {
  DictionaryReader<Name> names;
  DictionaryReader<ProcessKey> processes;
  DictionaryReader<CommRef> communicators;
  DictionaryReader<CollectiveSignature> signatures;

  Result<void> prepare(sqlite3* db) {
    if (auto done = names.prepare(db); !done) return done;
    if (auto done = processes.prepare(db); !done) return done;
    if (auto done = communicators.prepare(db); !done) return done;
    return signatures.prepare(db);
  }
};

// Also reads fields that go through a dictionary, and packed batches.
class Reader : public PlainReader {
 public:
  Reader(const Statement& row, const char* table, int first, Dictionaries& dictionaries)
      : PlainReader(row, table, first), dictionaries_(dictionaries) {}
  using PlainReader::operator();

  void name(const char* column, std::string& text) {
    Name name;
    find(column, dictionaries_.names, name);
    text = std::move(name.text);
  }
  void process(const char* column, ProcessKey& key) { find(column, dictionaries_.processes, key); }
  void communicator(const char* column, CommRef& comm) {
    find(column, dictionaries_.communicators, comm);
  }
  void entries(std::vector<CollectiveEntry>& entries) {
    std::uint64_t count = 0;
    std::int64_t first_ns = 0;
    get("entries", count);
    get("first_unix_ns", first_ns);
    const int column = next_++;
    if (error_) return;
    if (count > kRecordingBatchEntries) return refuse("entries");
    if (row_.type(column) != SQLITE_BLOB) return refuse("packed");
    const auto packed = unpack_collectives(row_.bytes(column), count, first_ns);
    if (!packed) {
      error_ = packed.error();
      return;
    }
    entries.reserve(packed->size());
    for (const PackedEntry& entry : *packed) {
      auto what = dictionaries_.signatures.find(static_cast<std::int64_t>(entry.signature));
      if (!what) {
        error_ = what.error();
        return;
      }
      entries.push_back({unix_ns(entry.entered_ns), *what});
    }
  }

 private:
  template <class K>
  void find(const char* column, DictionaryReader<K>& dictionary, K& value) {
    std::int64_t id = 0;
    get(column, id);
    if (error_) return;
    auto found = dictionary.find(id);
    if (found) {
      value = std::move(*found);
    } else {
      error_ = found.error();
    }
  }

  Dictionaries& dictionaries_;
};

// Statements that give the rows of one table for the range [?1, ?2) of keys, ascending.
struct Select {
  Statement parent;
  Statement child;
};

struct TickRow {
  std::int64_t id = 0;
  std::int64_t unix_ns = 0;
  std::int64_t first_seq = 0;
  std::int64_t observations = 0;
  std::int64_t first_verdict = 0;
  std::int64_t verdicts = 0;
  std::int64_t dropped = 0;
};

class RecordingFile final : public RecordingReader {
 public:
  RecordingFile(std::string path, Database db) : path_(std::move(path)), db_(std::move(db)) {}

  Result<void> start() {
    if (auto done = explain(check_schema()); !done) return done;
    if (auto done = explain(read_meta()); !done) return done;
    return explain(prepare());
  }

  const Meta& meta() const override { return meta_; }

  Result<bool> next_tick(Tick& out) override {
    if (ended_) return false;
    auto read = read_tick(out);
    if (!read || !*read) ended_ = true;
    if (!read) return tl::unexpected<Error>(explained(read.error()));
    return read;
  }

 private:
  Error explained(Error error) const {
    error.message = "cannot read recording " + path_ + ": " + error.message;
    if (error.hint.empty() && error.code == ErrorCode::kBadInput) {
      error.hint = "the file is damaged, or `rung record` did not write it";
    }
    return error;
  }
  Result<void> explain(Result<void> result) const {
    if (!result) return tl::unexpected<Error>(explained(result.error()));
    return result;
  }

  // The file may hold nothing but our tables, each with the very text that we gave it: no view, no
  // trigger, no virtual table can then run.
  Result<void> check_schema() {
    auto meta = Statement::prepare(db_.get(), "SELECT sql FROM sqlite_schema ORDER BY rowid");
    if (!meta) return tl::unexpected<Error>(meta.error());
    const auto first = meta->step();
    if (!first) return tl::unexpected<Error>(first.error());
    if (!*first || meta->bytes(0) != schema_sql()[0]) return bad("it is not a Rung recording");
    if (auto done = check_version(); !done) return done;
    for (std::size_t i = 1; i <= schema_sql().size(); ++i) {
      const auto row = meta->step();
      if (!row) return tl::unexpected<Error>(row.error());
      const bool expected = i < schema_sql().size();
      if (*row != expected || (expected && meta->bytes(0) != schema_sql()[i])) {
        return bad("its tables are not those of version " + std::to_string(kVersion));
      }
    }
    return {};
  }

  Result<std::optional<std::string>> meta_value(const char* key) {
    auto select = Statement::prepare(db_.get(), "SELECT value FROM meta WHERE key=?");
    if (!select) return tl::unexpected<Error>(select.error());
    select->bind_text(1, key);
    const auto row = select->step();
    if (!row) return tl::unexpected<Error>(row.error());
    if (!*row) return std::optional<std::string>();
    const std::string_view value = select->bytes(0);
    if (select->type(0) != SQLITE_TEXT || value.size() > kRecordingTextBytes) {
      return bad(std::string("meta value ") + key + " is invalid");
    }
    return std::optional<std::string>(value);
  }

  Result<void> check_version() {
    const auto format = meta_value("format");
    if (!format) return tl::unexpected<Error>(format.error());
    if (*format != std::string(kFormat)) return bad("it is not a Rung recording");
    const auto version = meta_value("version");
    if (!version) return tl::unexpected<Error>(version.error());
    if (*version == std::to_string(kVersion)) return {};
    return fail(ErrorCode::kBadInput,
                "it has format version " + (*version ? printable(**version, 20) : "unknown") +
                    ", this program reads version " + std::to_string(kVersion),
                "use the version of rung that recorded it");
  }

  Result<void> read_meta() {
    const auto text = [&](const char* key, std::string& into) -> Result<void> {
      auto value = meta_value(key);
      if (!value) return tl::unexpected<Error>(value.error());
      if (!*value) return bad(std::string("meta value ") + key + " is missing");
      into = std::move(**value);
      return {};
    };
    std::string created;
    std::string simulated;
    if (auto done = text("created_unix_ns", created); !done) return done;
    if (auto done = text("host", meta_.host); !done) return done;
    if (auto done = text("rung_version", meta_.rung_version); !done) return done;
    if (auto done = text("simulated", simulated); !done) return done;
    if (auto done = text("job", meta_.job); !done) return done;
    const auto finished = meta_value("finished_unix_ns");
    if (!finished) return tl::unexpected<Error>(finished.error());

    const auto created_ns = parse_number<std::int64_t>(created);
    if (!created_ns || (simulated != "0" && simulated != "1")) return bad("meta is invalid");
    meta_.created = unix_ns(*created_ns);
    meta_.simulated = simulated == "1";
    if (*finished) {
      const auto finished_ns = parse_number<std::int64_t>(**finished);
      if (!finished_ns) return bad("meta is invalid");
      meta_.finished = unix_ns(*finished_ns);
    }
    return {};
  }

  Result<void> prepare() {
    if (auto done = dictionaries_.prepare(db_.get()); !done) return done;
    Result<void> result;
    const auto into = [&](Statement& statement, const std::string& sql) {
      auto prepared = Statement::prepare(db_.get(), sql);
      if (!prepared) {
        result = tl::unexpected<Error>(prepared.error());
      } else {
        statement = std::move(*prepared);
      }
    };
    const auto range = [](const char* key, const ColumnList& columns, const char* table,
                          const char* order) {
      return std::string("SELECT ") + order + columns.names() + " FROM " + table + " WHERE " + key +
             ">=? AND " + key + "<? ORDER BY " + order;
    };
    std::size_t index = 0;
    for_each_evidence([&]<class T>() {
      Select& select = selects_[index++];
      into(select.parent, range("seq", columns_of<Origin, T>(), kTable<T>, "seq"));
      if constexpr (kHasChildren<T>) {
        into(select.child, range("seq", columns_of<ChildOf<T>>(), kTable<ChildOf<T>>, "seq, ord"));
      }
    });
    into(select_verdicts_, range("id", columns_of<Verdict>(), kTable<Verdict>, "id"));
    into(select_ticks_,
         "SELECT id, unix_ns, first_seq, observations, first_verdict, verdicts, dropped "
         "FROM tick ORDER BY id");
    return result;
  }

  Result<bool> read_tick(Tick& out) {
    TickRow row;
    const auto there = read_tick_row(row);
    if (!there || !*there) return there;
    out.now = unix_ns(row.unix_ns);
    out.dropped = static_cast<std::uint64_t>(row.dropped);
    if (auto done = read_observations(row, out.observations); !done) {
      return tl::unexpected<Error>(done.error());
    }
    if (auto done = read_verdicts(row, out.verdicts); !done) {
      return tl::unexpected<Error>(done.error());
    }
    return true;
  }

  Result<bool> read_tick_row(TickRow& row) {
    const auto there = select_ticks_.step();
    if (!there || !*there) return there;
    std::int64_t* const into[] = {&row.id,           &row.unix_ns,       &row.first_seq,
                                  &row.observations, &row.first_verdict, &row.verdicts,
                                  &row.dropped};
    for (int column = 0; column < static_cast<int>(std::size(into)); ++column) {
      if (select_ticks_.type(column) != SQLITE_INTEGER) return bad("table tick is invalid");
      *into[column] = select_ticks_.integer(column);
    }
    constexpr auto kMostObservations =
        static_cast<std::int64_t>(kRecordingTickBytes / sizeof(Observation));
    const bool valid = row.id == next_tick_ && row.first_seq == next_seq_ &&
                       row.observations >= 0 && row.observations <= kMostObservations &&
                       row.first_verdict == next_verdict_ && row.verdicts >= 0 &&
                       row.verdicts <= static_cast<std::int64_t>(kRecordingTickVerdicts);
    if (!valid) return bad("table tick is not consistent");
    ++next_tick_;
    next_seq_ += row.observations;
    next_verdict_ += row.verdicts;
    return true;
  }

  Result<void> read_observations(const TickRow& tick, std::vector<Observation>& out) {
    // Every place must be filled exactly once; rows come table by table.
    const auto count = static_cast<std::size_t>(tick.observations);
    out.assign(count, Observation());
    std::vector<bool> filled(count, false);
    std::size_t bytes = 0;
    std::size_t rows = 0;
    Result<void> result;
    std::size_t index = 0;
    for_each_evidence([&]<class T>() {
      Select& select = selects_[index++];
      if (!result) return;
      result = read_table<T>(select, tick, out, filled, bytes, rows);
    });
    if (!result) return result;
    if (rows != count) return bad("observations are missing");
    return {};
  }

  template <class T>
  Result<void> read_table(Select& select, const TickRow& tick, std::vector<Observation>& out,
                          std::vector<bool>& filled, std::size_t& bytes, std::size_t& rows) {
    Statement& parent = select.parent;
    parent.bind(1, tick.first_seq);
    parent.bind(2, tick.first_seq + tick.observations);
    while (true) {
      const auto there = parent.step();
      if (!there) return tl::unexpected<Error>(there.error());
      if (!*there) break;
      const auto place = place_of(parent, tick, out.size());
      if (!place || filled[*place]) return bad("observations are not in order");
      filled[*place] = true;
      ++rows;
      T what{};
      Observation& observation = out[*place];
      Reader reader(parent, kTable<T>, 1, dictionaries_);
      fields(reader, observation.from);
      fields(reader, what);
      if (auto done = reader.result(); !done) return done;
      observation.what = std::move(what);
      bytes += cost_of(observation).bytes;
      if (bytes > kRecordingTickBytes) return bad("a tick is too large");
    }
    if constexpr (kHasChildren<T>) return read_children<T>(select.child, tick, out, filled, bytes);
    return {};
  }

  template <class T>
  Result<void> read_children(Statement& child, const TickRow& tick, std::vector<Observation>& out,
                             const std::vector<bool>& filled, std::size_t& bytes) {
    child.bind(1, tick.first_seq);
    child.bind(2, tick.first_seq + tick.observations);
    while (true) {
      const auto there = child.step();
      if (!there) return tl::unexpected<Error>(there.error());
      if (!*there) return {};
      const auto place = place_of(child, tick, out.size());
      T* parent = place && filled[*place] ? std::get_if<T>(&out[*place].what) : nullptr;
      if (parent == nullptr || child.type(1) != SQLITE_INTEGER ||
          child.integer(1) != static_cast<std::int64_t>(children_of(*parent)->size())) {
        return bad(std::string("rows of table ") + kTable<ChildOf<T>> + " belong to nothing");
      }
      ChildOf<T>& added = children_of(*parent)->emplace_back();
      Reader reader(child, kTable<ChildOf<T>>, 2, dictionaries_);
      fields(reader, added);
      if (auto done = reader.result(); !done) return done;
      bytes += cost_of_child(added);
      if (bytes > kRecordingTickBytes) return bad("a tick is too large");
    }
  }

  static std::optional<std::size_t> place_of(const Statement& row, const TickRow& tick,
                                             std::size_t count) {
    if (row.type(0) != SQLITE_INTEGER) return std::nullopt;
    const std::int64_t seq = row.integer(0);
    if (seq < tick.first_seq) return std::nullopt;
    const auto place = static_cast<std::size_t>(seq - tick.first_seq);
    return place < count ? std::optional(place) : std::nullopt;
  }

  Result<void> read_verdicts(const TickRow& tick, std::vector<Verdict>& out) {
    out.clear();
    select_verdicts_.bind(1, tick.first_verdict);
    select_verdicts_.bind(2, tick.first_verdict + tick.verdicts);
    while (true) {
      const auto there = select_verdicts_.step();
      if (!there) return tl::unexpected<Error>(there.error());
      if (!*there) break;
      if (select_verdicts_.integer(0) !=
          tick.first_verdict + static_cast<std::int64_t>(out.size())) {
        return bad("verdicts are not in order");
      }
      Reader reader(select_verdicts_, kTable<Verdict>, 1, dictionaries_);
      fields(reader, out.emplace_back());
      if (auto done = reader.result(); !done) return done;
    }
    if (out.size() != static_cast<std::size_t>(tick.verdicts)) return bad("verdicts are missing");
    return {};
  }

  std::string path_;
  Database db_;  // before the statements: they must go first
  Meta meta_;
  Dictionaries dictionaries_;
  std::array<Select, std::variant_size_v<Evidence>> selects_;
  Statement select_verdicts_;
  Statement select_ticks_;
  std::int64_t next_tick_ = 1;
  std::int64_t next_seq_ = 1;
  std::int64_t next_verdict_ = 1;
  bool ended_ = false;
};

// What a path must be before SQLite sees it: a regular file (a FIFO would block, a device may do
// anything) that begins like one of ours. Gives whether its newest pages may lie in a -wal file.
Result<bool> check_file(const std::string& path) {
  struct stat there {};
  if (::lstat(path.c_str(), &there) != 0) return fail_errno(errno, "cannot open " + path);
  if (!S_ISREG(there.st_mode)) {
    return fail(ErrorCode::kBadInput, path + " is not a regular file",
                "links, folders and pipes are not followed: name the recording itself");
  }
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.valid()) return fail_errno(errno, "cannot open " + path);
  std::array<char, kSqliteHeaderBytes> header{};
  const ssize_t got = ::pread(fd.get(), header.data(), header.size(), 0);
  if (got < 0) return fail_errno(errno, "cannot read " + path);
  constexpr char kId[] = {char(kApplicationId >> 24 & 0xff), char(kApplicationId >> 16 & 0xff),
                          char(kApplicationId >> 8 & 0xff), char(kApplicationId & 0xff)};
  if (static_cast<std::size_t>(got) != header.size() ||
      std::memcmp(header.data(), kSqliteMagic.data(), kSqliteMagic.size()) != 0 ||
      std::memcmp(header.data() + kApplicationIdAt, kId, sizeof kId) != 0) {
    return fail(ErrorCode::kBadInput, path + " is not a Rung recording",
                "recordings are made by `rung record`");
  }
  return header[kReadVersionAt] == 2;
}

// Whether there is a -wal file to be read. Errors: kBadInput when it is no regular file.
Result<bool> has_wal(const std::string& path) {
  struct stat there {};
  if (::lstat((path + "-wal").c_str(), &there) != 0) return false;
  if (!S_ISREG(there.st_mode)) {
    return fail(ErrorCode::kBadInput, path + "-wal is not a regular file", "remove it");
  }
  return there.st_size > 0;
}

// Limits for a file that may have been made to hurt.
Result<void> harden(sqlite3* db) {
  sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_limit(db, SQLITE_LIMIT_LENGTH, kLongestValue);
  sqlite3_limit(db, SQLITE_LIMIT_SQL_LENGTH, 16384);
  sqlite3_limit(db, SQLITE_LIMIT_COLUMN, 64);
  sqlite3_limit(db, SQLITE_LIMIT_EXPR_DEPTH, 16);
  sqlite3_limit(db, SQLITE_LIMIT_COMPOUND_SELECT, 1);
  sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
  sqlite3_limit(db, SQLITE_LIMIT_TRIGGER_DEPTH, 1);
  return execute(db,
                 "PRAGMA query_only=ON; PRAGMA cell_size_check=ON; PRAGMA mmap_size=0; "
                 "PRAGMA temp_store=MEMORY");
}

Result<Database> open_read_only(const std::string& path, bool wal_mode) {
  const auto wal = wal_mode ? has_wal(path) : Result<bool>(false);
  if (!wal) return tl::unexpected<Error>(wal.error());
  // Without a -wal nobody writes: `immutable` then touches no other file, so a foreign -journal is
  // never rolled back (that can delete files that it names).
  const std::string uri = file_uri(path, *wal ? "mode=ro" : "mode=ro&immutable=1");
  auto db = open_database(
      uri, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_NOMUTEX);
  if (!db) return db;
  if (auto done = harden(db->get()); !done) return tl::unexpected<Error>(done.error());
  return db;
}

}  // namespace
}  // namespace store

Result<std::unique_ptr<RecordingReader>> RecordingReader::open(const std::string& path) {
  const auto real = store::real_path(path);
  if (!real) return tl::unexpected<Error>(real.error());
  const auto wal_mode = store::check_file(*real);
  if (!wal_mode) return tl::unexpected<Error>(wal_mode.error());
  auto db = store::open_read_only(*real, *wal_mode);
  if (!db) return tl::unexpected<Error>(db.error());
  auto file = std::make_unique<store::RecordingFile>(path, std::move(*db));
  if (auto started = file->start(); !started) {
    Error error = started.error();
    if (*wal_mode && error.code == ErrorCode::kBadInput) {
      error.hint = "its writer was killed: its newest data are in " + path + "-wal, keep both";
    }
    return tl::unexpected<Error>(std::move(error));
  }
  return file;
}

}  // namespace rung
