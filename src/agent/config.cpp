#include "agent/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <string_view>
#include "base/toml.h"

#include "base/files.h"

namespace rung {
namespace {

constexpr std::size_t kMaxConfigBytes = 1 << 20;

struct BadConfig {
  std::string message;
  std::string hint;
};

std::string where(const toml::node& node, const std::string& origin) {
  return fmt::format("{}:{}:{}", origin, node.source().begin.line, node.source().begin.column);
}

// Reads typed values out of one table and complains about keys that nobody asked for.
class TableReader {
 public:
  TableReader(const toml::table& table, std::string name, const std::string& origin)
      : table_(table), name_(std::move(name)), origin_(origin) {}

  template <class T>
  void read(std::string_view key, T& into, std::string_view type) {
    asked_.emplace_back(key);
    const toml::node* node = table_.get(key);
    if (node == nullptr) return;
    const auto value = node->value_exact<T>();
    if (!value) {
      throw BadConfig{fmt::format("{}: {}{} must be {}", where(*node, origin_), name_, key, type),
                      ""};
    }
    into = *value;
  }

  void read_number(std::string_view key, double& into, double least, double most) {
    asked_.emplace_back(key);
    const toml::node* node = table_.get(key);
    if (node == nullptr) return;
    const auto value = node->value<double>();
    if (!node->is_number() || !value || !(*value >= least && *value <= most)) {
      throw BadConfig{fmt::format("{}: {}{} must be a number from {} to {}", where(*node, origin_),
                                  name_, key, least, most),
                      ""};
    }
    into = *value;
  }

  const toml::node* take(std::string_view key) {
    asked_.emplace_back(key);
    return table_.get(key);
  }

  void refuse_the_rest() const {
    for (const auto& [key, node] : table_) {
      const std::string_view name = key.str();
      if (std::find(asked_.begin(), asked_.end(), name) != asked_.end()) continue;
      throw BadConfig{fmt::format("{}: unknown key '{}{}'", where(node, origin_), name_, name),
                      fmt::format("known here: {}", fmt::join(asked_, ", "))};
    }
  }

 private:
  const toml::table& table_;
  std::string name_;
  const std::string& origin_;
  std::vector<std::string> asked_;
};

const toml::table& as_table(const toml::node& node, std::string_view name,
                            const std::string& origin) {
  const toml::table* table = node.as_table();
  if (table == nullptr) {
    throw BadConfig{fmt::format("{}: [{}] must be a table", where(node, origin), name), ""};
  }
  return *table;
}

bool is_hex(std::string_view text) {
  return !text.empty() && text.size() <= 64 &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::vector<AcceptedNccl> read_accepted(const toml::node& node, const std::string& origin) {
  const toml::array* list = node.as_array();
  const BadConfig bad{
      fmt::format("{}: host.accepted_nccl must be a list of {{build_id, layout}}",
                  where(node, origin)),
      "for example: accepted_nccl = [{ build_id = \"9fcf...\", layout = \"2.28.9\" }]"};
  if (list == nullptr) throw bad;
  std::vector<AcceptedNccl> out;
  for (const toml::node& item : *list) {
    const toml::table* table = item.as_table();
    if (table == nullptr) throw bad;
    TableReader reader(*table, "host.accepted_nccl.", origin);
    AcceptedNccl accepted;
    reader.read("build_id", accepted.build_id, "a string of hex digits");
    reader.read("layout", accepted.layout, "a string such as \"2.28.9\"");
    reader.refuse_the_rest();
    if (!is_hex(accepted.build_id) || accepted.layout.empty()) throw bad;
    out.push_back(std::move(accepted));
  }
  return out;
}

void check_log_level(const std::string& level) {
  constexpr std::string_view kLevels[] = {"debug", "info", "warning", "error"};
  if (std::find(std::begin(kLevels), std::end(kLevels), level) != std::end(kLevels)) return;
  throw BadConfig{fmt::format("log_level is '{}'", level), "one of debug, info, warning, error"};
}

AgentConfig read_config(const toml::table& root, const std::string& origin) {
  AgentConfig config;
  TableReader top(root, "", origin);
  top.read("socket", config.socket, "a path");
  top.read("state_dir", config.state_dir, "a path");
  top.read("prometheus_listen", config.prometheus_listen, "a string such as \"127.0.0.1:9478\"");
  top.read("log_level", config.log_level, "a string");
  top.read("proc_root", config.proc_root, "a path");
  check_log_level(config.log_level);
  if (const toml::node* node = top.take("host")) {
    TableReader host(as_table(*node, "host", origin), "host.", origin);
    host.read("enabled", config.host_enabled, "true or false");
    host.read_number("budget_percent", config.host_budget_percent, 0.001, 100);
    double ring = config.host_ring_kib;
    host.read_number("ring_kib", ring, 4, 1 << 20);
    config.host_ring_kib = static_cast<std::uint32_t>(ring);
    if (!std::has_single_bit(config.host_ring_kib) || ring != config.host_ring_kib) {
      throw BadConfig{fmt::format("{}: host.ring_kib must be a power of two", where(*node, origin)),
                      "for example 4096"};
    }
    if (const toml::node* accepted = host.take("accepted_nccl")) {
      config.accepted_nccl = read_accepted(*accepted, origin);
    }
    host.refuse_the_rest();
  }
  if (const toml::node* node = top.take("nvml")) {
    TableReader nvml(as_table(*node, "nvml", origin), "nvml.", origin);
    nvml.read("enabled", config.nvml_enabled, "true or false");
    nvml.read("library", config.nvml_library, "a path");
    nvml.read_number("deadline_s", config.nvml_deadline_s, 0.1, 3600);
    nvml.refuse_the_rest();
  }
  top.refuse_the_rest();
  // sun_path holds 107 bytes and a final zero (unix(7)).
  if (config.socket.empty() || config.socket.size() > 107) {
    throw BadConfig{fmt::format("{}: socket must be a path of 1 to 107 bytes", origin), ""};
  }
  return config;
}

}  // namespace

Result<AgentConfig> parse_config(const std::string& text, const std::string& origin) {
  // toml++ 3.3 has undefined behaviour for some characters above U+FC00; no path needs one.
  constexpr unsigned char kLeadsHighCharacters = 0xEF;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < kLeadsHighCharacters) continue;
    return fail(ErrorCode::kBadInput, origin + ": holds characters above U+EFFF", "remove them");
  }
  const toml::parse_result parsed = toml::parse(text, origin);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return fail(ErrorCode::kBadInput,
                fmt::format("{}:{}:{}: {}", origin, error.source().begin.line,
                            error.source().begin.column, error.description()),
                "the file is TOML; see deploy/agent.toml for every key");
  }
  try {
    return read_config(parsed.table(), origin);
  } catch (const BadConfig& bad) {
    return fail(ErrorCode::kBadInput, bad.message, bad.hint);
  }
}

Result<AgentConfig> load_config(const std::string& path) {
  const Result<std::string> text = read_file(path, kMaxConfigBytes);
  if (text) return parse_config(*text, path);
  if (text.error().code == ErrorCode::kNotFound && path == kDefaultConfigPath) return AgentConfig{};
  Error error = text.error();
  if (error.code == ErrorCode::kUnavailable) error.code = ErrorCode::kBadInput;
  error.hint = "name another file with --config, or leave it out for the defaults";
  return tl::unexpected<Error>(error);
}

}  // namespace rung
