#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <span>
#include <utility>

#include "base/clock.h"
#include "base/fd.h"
#include "store/collective_blob.h"
#include "store/recording.h"
#include "store/recording_path.h"
#include "store/schema.h"
#include "store/sqlite.h"

namespace rung {
namespace store {
namespace {

// Ids remembered for each dictionary. When it is full it starts anew: values then get a second id,
// which readers allow, and memory stays bounded.
constexpr std::size_t kDictionaryMemory = 8192;

// Binds plain fields to parameters one after the other.
class PlainBinder {
 public:
  PlainBinder(Statement& statement, int first) : statement_(statement), next_(first) {}

  template <class T>
  void operator()(const char*, const T& value) {
    if constexpr (kIsOptional<T>) {
      value ? put(*value) : statement_.bind_null(next_++);
    } else {
      put(value);
    }
  }

 protected:
  template <class T>
  void put(const T& value) {
    if constexpr (std::same_as<T, std::string>) {
      statement_.bind_text(next_++, value);
    } else if constexpr (std::same_as<T, DeviceId>) {
      statement_.bind_text(next_++, value.uuid);
    } else if constexpr (std::same_as<T, char>) {
      statement_.bind_text(next_++, std::string_view(&value, 1));
    } else if constexpr (std::same_as<T, double>) {
      statement_.bind(next_++, value);
    } else {
      statement_.bind(next_++, to_integer(value));
    }
  }
  void put_id(std::int64_t id) { statement_.bind(next_++, id); }

  Statement& statement_;
  int next_;
};

template <class K>
class DictionaryWriter {
 public:
  Result<void> prepare(sqlite3* db) {
    auto insert = Statement::prepare(db, insert_sql(kTable<K>, 1, columns_of<K>()));
    if (!insert) return tl::unexpected<Error>(insert.error());
    insert_ = std::move(*insert);
    return {};
  }

  Result<std::int64_t> id_of(const K& value) {
    const auto known = ids_.find(value);
    if (known != ids_.end()) return known->second;
    insert_.bind(1, next_);
    PlainBinder binder(insert_, 2);
    fields(binder, value);
    if (auto done = insert_.run(); !done) return tl::unexpected<Error>(done.error());
    if (ids_.size() >= kDictionaryMemory) ids_.clear();
    ids_.emplace(value, next_);
    return next_++;
  }

 private:
  Statement insert_;
  std::map<K, std::int64_t, DictionaryLess> ids_;
  std::int64_t next_ = 1;
};

struct Dictionaries {
  DictionaryWriter<Name> names;
  DictionaryWriter<ProcessKey> processes;
  DictionaryWriter<CommRef> communicators;
  DictionaryWriter<CollectiveSignature> signatures;

  Result<void> prepare(sqlite3* db) {
    if (auto done = names.prepare(db); !done) return done;
    if (auto done = processes.prepare(db); !done) return done;
    if (auto done = communicators.prepare(db); !done) return done;
    return signatures.prepare(db);
  }
};

// Also binds fields that go through a dictionary. Keeps texts and blobs alive until the step.
class Binder : public PlainBinder {
 public:
  Binder(Statement& statement, int first, Dictionaries& dictionaries)
      : PlainBinder(statement, first), dictionaries_(dictionaries) {}
  using PlainBinder::operator();

  void operator()(const char*, const RankSet& ranks) {
    kept_[kept_count_] = ranks.text();
    statement_.bind_text(next_++, kept_[kept_count_++]);
  }
  void name(const char*, const std::string& text) { put_key(dictionaries_.names, Name{text}); }
  void process(const char*, const ProcessKey& key) { put_key(dictionaries_.processes, key); }
  void communicator(const char*, const CommRef& comm) {
    put_key(dictionaries_.communicators, comm);
  }
  void entries(const std::vector<CollectiveEntry>& entries) {
    std::vector<PackedEntry> packed;
    packed.reserve(entries.size());
    for (const CollectiveEntry& entry : entries) {
      const auto id = dictionaries_.signatures.id_of(entry.what);
      if (!id) {
        error_ = id.error();
        return;
      }
      packed.push_back({ns_of(entry.entered), static_cast<std::uint64_t>(*id)});
    }
    kept_[0] = pack_collectives(packed);
    put_id(static_cast<std::int64_t>(packed.size()));
    put_id(packed.empty() ? 0 : packed[0].entered_ns);
    statement_.bind_blob(next_++, kept_[0]);
  }

  Result<void> run() {
    if (error_) {
      statement_.reset();
      return tl::unexpected<Error>(*error_);
    }
    return statement_.run();
  }

 private:
  template <class K>
  void put_key(DictionaryWriter<K>& dictionary, const K& key) {
    if (error_) return;
    const auto id = dictionary.id_of(key);
    if (id) {
      put_id(*id);
    } else {
      error_ = id.error();
    }
  }

  Dictionaries& dictionaries_;
  std::array<std::string, 3> kept_;  // a verdict has three rank sets, a batch one blob
  std::size_t kept_count_ = 0;
  std::optional<Error> error_;
};

class Writer final : public RecordingWriter {
 public:
  Writer(std::string path, Database db, Meta meta)
      : path_(std::move(path)), db_(std::move(db)), meta_(std::move(meta)) {}
  ~Writer() override {
    if (!db_ || failed_ || !in_transaction_) return;
    if (discard_open_tick()) static_cast<void>(execute(db_.get(), "COMMIT"));
  }

  Result<void> start() {
    // One process writes and nobody shares: no -shm file, so network filesystems are fine.
    // NORMAL: a power cut may cost the newest commits but not the file. The application id comes
    // before the switch to WAL, so that the file itself says at once what it is.
    if (auto done = execute(db_.get(),
                            "PRAGMA locking_mode=EXCLUSIVE; PRAGMA synchronous=NORMAL; "
                            "PRAGMA application_id=" +
                                std::to_string(kApplicationId) +
                                "; PRAGMA user_version=" + std::to_string(kVersion));
        !done) {
      return done;
    }
    if (auto done = set_journal_mode("wal"); !done) return done;
    std::string script = "BEGIN;";
    for (const std::string& sql : schema_sql()) script += sql + ";";
    if (auto done = execute(db_.get(), script); !done) return done;
    if (auto done = prepare(); !done) return done;
    if (auto done = write_meta(); !done) return done;
    return execute(db_.get(), "COMMIT");
  }

  Result<void> add(const Observation& observation) override {
    if (failed_) return tl::unexpected<Error>(*failed_);
    const auto* batch = std::get_if<CollectiveBatch>(&observation.what);
    if (batch != nullptr && batch->entries.size() > kRecordingBatchEntries) {
      return add_in_parts(observation.from, *batch);
    }
    const Cost cost = cost_of(observation);
    if (cost.longest_text > kRecordingTextBytes || bytes_ + cost.bytes > kRecordingTickBytes) {
      ++tick_dropped_;
      return {};
    }
    bytes_ += cost.bytes;
    note_simulated(observation);
    return keep(begin_tick(), [&] { return insert(observation); });
  }

  Result<void> end_tick(UnixNs now, const std::vector<Verdict>& verdicts) override {
    if (failed_) return tl::unexpected<Error>(*failed_);
    return keep(begin_tick(), [&] { return insert_tick(now, verdicts); });
  }

  Result<void> finish() override {
    if (failed_) return tl::unexpected<Error>(*failed_);
    meta_.finished = unix_ns(unix_now_ns());
    return keep(discard_open_tick(), [&] { return write_meta_and_close(); });
  }

  std::uint64_t dropped() const override { return dropped_ + tick_dropped_; }

 private:
  struct Insert {
    Statement parent;
    Statement child;
  };

  // The result of `then` after a good `first`. Remembers an error: what came after it would leave
  // a gap that no one sees.
  template <class F>
  Result<void> keep(Result<void> first, F&& then) {
    const Result<void> result = first ? then() : first;
    if (!result) {
      failed_ = result.error();
      failed_->message = "cannot write recording " + path_ + ": " + failed_->message;
      if (failed_->hint.empty()) failed_->hint = "is the disk full? what was saved stays readable";
      if (in_transaction_) static_cast<void>(execute(db_.get(), "ROLLBACK"));
      in_transaction_ = false;
      return tl::unexpected<Error>(*failed_);
    }
    return result;
  }

  // SQLite answers with the mode that is in force and no error when it cannot change it.
  Result<void> set_journal_mode(const std::string& mode) {
    auto pragma = Statement::prepare(db_.get(), "PRAGMA journal_mode=" + mode);
    if (!pragma) return tl::unexpected<Error>(pragma.error());
    const auto row = pragma->step();
    if (!row) return tl::unexpected<Error>(row.error());
    if (!*row || pragma->bytes(0) != mode) {
      return fail(ErrorCode::kUnavailable, "SQLite cannot use journal mode " + mode + " here");
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
    std::size_t index = 0;
    for_each_evidence([&]<class T>() {
      Insert& insert = inserts_[index++];
      into(insert.parent, insert_sql(kTable<T>, 1, columns_of<Origin, T>()));
      if constexpr (kHasChildren<T>) {
        into(insert.child, insert_sql(kTable<ChildOf<T>>, 2, columns_of<ChildOf<T>>()));
      }
    });
    into(insert_verdict_, insert_sql(kTable<Verdict>, 1, columns_of<Verdict>()));
    into(insert_tick_, "INSERT INTO tick VALUES(?,?,?,?,?,?,?)");
    into(insert_meta_, "INSERT OR REPLACE INTO meta VALUES(?,?)");
    return result;
  }

  Result<void> write_meta() {
    std::vector<std::pair<const char*, std::string>> rows = {
        {"format", std::string(kFormat)},
        {"version", std::to_string(kVersion)},
        {"created_unix_ns", std::to_string(ns_of(meta_.created))},
        {"host", meta_.host},
        {"rung_version", meta_.rung_version},
        {"simulated", meta_.simulated ? "1" : "0"},
        {"job", meta_.job}};
    if (meta_.finished) {
      rows.emplace_back("finished_unix_ns", std::to_string(ns_of(*meta_.finished)));
    }
    for (const auto& [key, value] : rows) {
      insert_meta_.bind_text(1, key);
      insert_meta_.bind_text(2, value);
      if (auto done = insert_meta_.run(); !done) return done;
    }
    meta_changed_ = false;
    return {};
  }

  void note_simulated(const Observation& observation) {
    const auto* identity = std::get_if<ProcessIdentity>(&observation.what);
    const auto* device = std::get_if<DeviceSample>(&observation.what);
    const bool simulated =
        (identity != nullptr && identity->simulated) || (device != nullptr && device->simulated);
    if (!simulated || meta_.simulated) return;
    meta_.simulated = true;
    meta_changed_ = true;
  }

  Result<void> begin_tick() {
    if (tick_open_) return {};
    if (!in_transaction_) {
      if (auto done = execute(db_.get(), "BEGIN"); !done) return done;
      in_transaction_ = true;
    }
    if (auto done = execute(db_.get(), "SAVEPOINT tick"); !done) return done;
    tick_open_ = true;
    first_seq_ = next_seq_;
    return {};
  }

  Result<void> discard_open_tick() {
    if (!tick_open_) return {};
    tick_open_ = false;
    return execute(db_.get(), "ROLLBACK TO tick; RELEASE tick");
  }

  Result<void> add_in_parts(const Origin& from, const CollectiveBatch& batch) {
    for (std::size_t at = 0; at < batch.entries.size(); at += kRecordingBatchEntries) {
      const std::size_t count = std::min(kRecordingBatchEntries, batch.entries.size() - at);
      const auto begin = batch.entries.begin() + static_cast<std::ptrdiff_t>(at);
      CollectiveBatch part{batch.comm, batch.first_index, batch.captured, {}};
      if (part.first_index) *part.first_index += at;
      part.entries.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
      Observation observation{from, std::move(part)};
      if (at > 0) observation.from.lost_before = 0;  // counted with the first part
      if (auto done = add(observation); !done) return done;
    }
    return {};
  }

  Result<void> insert(const Observation& observation) {
    Insert& into = inserts_[observation.what.index()];
    return std::visit(
        [&](const auto& what) { return this->insert_as(into, observation.from, what); },
        observation.what);
  }

  template <class T>
  Result<void> insert_as(Insert& into, const Origin& from, const T& what) {
    into.parent.bind(1, next_seq_);
    Binder binder(into.parent, 2, dictionaries_);
    fields(binder, from);
    fields(binder, what);
    if (auto done = binder.run(); !done) return done;
    if constexpr (kHasChildren<T>) {
      if (auto done = insert_children(into.child, *children_of(what)); !done) return done;
    }
    ++next_seq_;
    return {};
  }

  template <class C>
  Result<void> insert_children(Statement& statement, const std::vector<C>& children) {
    for (std::size_t ord = 0; ord < children.size(); ++ord) {
      statement.bind(1, next_seq_);
      statement.bind(2, static_cast<std::int64_t>(ord));
      Binder binder(statement, 3, dictionaries_);
      fields(binder, children[ord]);
      if (auto done = binder.run(); !done) return done;
    }
    return {};
  }

  Result<void> insert_tick(UnixNs now, const std::vector<Verdict>& verdicts) {
    const std::int64_t first_verdict = next_verdict_;
    for (const Verdict& verdict : verdicts) {
      if (next_verdict_ - first_verdict >= static_cast<std::int64_t>(kRecordingTickVerdicts) ||
          std::max({verdict.kind.size(), verdict.job.text.size(), verdict.summary.size()}) >
              kRecordingTextBytes) {
        ++tick_dropped_;
        continue;
      }
      insert_verdict_.bind(1, next_verdict_);
      Binder binder(insert_verdict_, 2, dictionaries_);
      fields(binder, verdict);
      if (auto done = binder.run(); !done) return done;
      ++next_verdict_;
    }
    const std::int64_t row[] = {next_tick_,
                                ns_of(now),
                                first_seq_,
                                next_seq_ - first_seq_,
                                first_verdict,
                                next_verdict_ - first_verdict,
                                static_cast<std::int64_t>(tick_dropped_)};
    for (int i = 0; i < static_cast<int>(std::size(row)); ++i) insert_tick_.bind(i + 1, row[i]);
    if (auto done = insert_tick_.run(); !done) return done;
    return close_tick();
  }

  Result<void> close_tick() {
    if (auto done = execute(db_.get(), "RELEASE tick"); !done) return done;
    tick_open_ = false;
    ++next_tick_;
    dropped_ += std::exchange(tick_dropped_, 0);
    bytes_ = 0;
    if (meta_changed_) {
      if (auto done = write_meta(); !done) return done;
    }
    if ((next_tick_ - 1) % kRecordingTicksPerCommit != 0) return {};
    if (auto done = execute(db_.get(), "COMMIT"); !done) return done;
    in_transaction_ = false;
    return {};
  }

  Result<void> write_meta_and_close() {
    if (!in_transaction_) {
      if (auto done = execute(db_.get(), "BEGIN"); !done) return done;
      in_transaction_ = true;
    }
    if (auto done = write_meta(); !done) return done;
    if (auto done = execute(db_.get(), "COMMIT"); !done) return done;
    in_transaction_ = false;
    if (auto done = set_journal_mode("delete"); !done) return done;
    inserts_ = {};
    for (Statement* statement : {&insert_verdict_, &insert_tick_, &insert_meta_}) *statement = {};
    dictionaries_ = {};
    db_.reset();
    failed_ = Error{ErrorCode::kUsage, "the recording is finished", ""};
    return {};
  }

  std::string path_;
  Database db_;  // before the statements: they must go first
  Meta meta_;
  Dictionaries dictionaries_;
  std::array<Insert, std::variant_size_v<Evidence>> inserts_;
  Statement insert_verdict_;
  Statement insert_tick_;
  Statement insert_meta_;
  std::optional<Error> failed_;
  bool in_transaction_ = false;
  bool tick_open_ = false;
  bool meta_changed_ = false;
  std::int64_t next_seq_ = 1;
  std::int64_t first_seq_ = 1;
  std::int64_t next_verdict_ = 1;
  std::int64_t next_tick_ = 1;
  std::size_t bytes_ = 0;  // memory that the open tick takes when it is read
  std::uint64_t tick_dropped_ = 0;
  std::uint64_t dropped_ = 0;
};

// Makes an empty file of our own, so that SQLite never opens something that was there.
Result<void> claim(const std::string& path) {
  for (const char* suffix : {"-wal", "-journal"}) {
    struct stat there {};
    if (::lstat((path + suffix).c_str(), &there) == 0) {
      return fail(ErrorCode::kUsage, path + suffix + " belongs to another recording",
                  "choose another name");
    }
  }
  const Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0640));
  if (fd.valid()) return {};
  if (errno == EEXIST) {
    return fail(ErrorCode::kUsage, path + " exists", "recordings are never overwritten");
  }
  return fail_errno(errno, "cannot create " + path);
}

}  // namespace
}  // namespace store

Result<std::unique_ptr<RecordingWriter>> RecordingWriter::create(const std::string& path,
                                                                 Meta meta) {
  auto real = store::real_path(path);
  if (!real) return tl::unexpected<Error>(real.error());
  if (auto claimed = store::claim(*real); !claimed) {
    return tl::unexpected<Error>(claimed.error());
  }
  auto db = store::open_database(
      *real, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_NOMUTEX);
  if (!db) return tl::unexpected<Error>(db.error());
  meta.finished.reset();
  auto writer = std::make_unique<store::Writer>(path, std::move(*db), std::move(meta));
  if (auto started = writer->start(); !started) {
    writer.reset();
    ::unlink(real->c_str());
    return tl::unexpected<Error>(started.error());
  }
  return writer;
}

}  // namespace rung
