// The report of doctor as JSON and as text.
#include <fmt/format.h>

#include <optional>

#include "base/json_writer.h"
#include "capability/doctor.h"

namespace rung {
namespace {

// As in rung.doctor/1: a name of the closed list, or words for a rung that is not there at all.
std::optional<std::string> reason_of(const RungReport& rung) {
  if (!rung.built) return rung.message;
  if (rung.reason == Reason::kNone) return std::nullopt;
  return name_of(rung.reason);
}

class Painter {
 public:
  explicit Painter(bool colour) : colour_(colour) {}
  std::string mark(std::optional<bool> good) const {
    if (!good) return painted("?", "33");
    return *good ? painted("yes", "32") : painted("no", "31");
  }

 private:
  // Padded to the width of a column before the colour, which has no width.
  std::string painted(std::string_view text, std::string_view code) const {
    const std::string padded = fmt::format("{:<4}", text);
    return colour_ ? fmt::format("\x1b[{}m{}\x1b[0m", code, padded) : padded;
  }
  bool colour_;
};

void add_rungs(const DoctorReport& report, const Painter& painter, std::string* out) {
  *out += "Rungs\n";
  for (const RungReport& rung : report.rungs) {
    const std::string line =
        fmt::format("  {:<9} {} {}", name_of(rung.rung), painter.mark(rung.possible), rung.message);
    *out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    if (!rung.hint.empty()) *out += fmt::format("                 hint: {}\n", rung.hint);
  }
}

void add_host(const DoctorReport& report, const Painter& painter, std::string* out) {
  *out += fmt::format("\nHost: Linux {}, uid {}\n", report.kernel, report.uid);
  for (const CapabilityReport& capability : report.capabilities) {
    *out += fmt::format("  {:<24} {} {}\n", capability.name, painter.mark(capability.held),
                        capability.purpose);
  }
  for (const CheckReport& check : report.checks) {
    if (check.name.starts_with("CAP_")) continue;  // shown above
    *out += fmt::format("  {:<24} {} {}{}\n", check.name, painter.mark(check.ok), check.detail,
                        check.required ? "" : " (not required)");
  }
  *out += fmt::format("  {:<24} {}\n", "kernel.yama.ptrace_scope",
                      report.ptrace_scope ? std::to_string(*report.ptrace_scope) : "no Yama");
  *out += fmt::format("  {:<24} {}\n", "NVML", report.nvml.value_or("not found"));
  *out += fmt::format("  {:<24} {}\n", "NVIDIA driver",
                      report.nvidia_driver ? "present" : "not loaded");
}

void add_libraries(const DoctorReport& report, std::string* out) {
  *out += fmt::format("\nProcess {}{}\n", *report.pid, report.simulated ? " (simulated)" : "");
  if (report.libraries.empty()) *out += "  maps no CUDA or NCCL library\n";
  for (const LibraryReport& library : report.libraries) {
    const LibraryFingerprint& file = library.fingerprint;
    *out += fmt::format("  {:<13} {}\n", name_of(file.kind), file.path);
    *out += fmt::format("                version {}, build-id {}{}\n",
                        file.version.empty() ? "unknown" : file.version,
                        file.build_id.empty() ? "none" : file.build_id,
                        !library.accepted   ? ""
                        : *library.accepted ? ", accepted"
                                            : ", not on the accepted list");
    if (!library.problem.empty()) *out += fmt::format("                {}\n", library.problem);
  }
}

void write_libraries(const DoctorReport& report, JsonWriter* json) {
  json->key("libraries").begin_array();
  for (const LibraryReport& library : report.libraries) {
    const LibraryFingerprint& file = library.fingerprint;
    const auto known = [](const std::string& text) {
      return text.empty() ? std::nullopt : std::optional(text);
    };
    json->begin_object()
        .field("library", name_of(file.kind))
        .field("path", file.path)
        .field("build_id", known(file.build_id))
        .field("version", known(file.version))
        .field("accepted", library.accepted)
        .field("problem", known(library.problem))
        .end_object();
  }
  json->end_array();
}

}  // namespace

std::string doctor_json(const DoctorReport& report) {
  JsonWriter json;
  json.begin_object().field("schema", "rung.doctor/1").key("rungs").begin_array();
  for (const RungReport& rung : report.rungs) {
    json.begin_object()
        .field("rung", name_of(rung.rung))
        .field("possible", rung.possible)
        .field("reason", reason_of(rung))
        .field("message", rung.message)
        .field("hint", rung.hint)
        .end_object();
  }
  json.end_array().field("kernel", report.kernel).field("uid", report.uid);
  json.key("capabilities").begin_array();
  for (const CapabilityReport& capability : report.capabilities) {
    json.begin_object()
        .field("name", capability.name)
        .field("held", capability.held)
        .field("purpose", capability.purpose)
        .end_object();
  }
  json.end_array().key("checks").begin_array();
  for (const CheckReport& check : report.checks) {
    json.begin_object()
        .field("name", check.name)
        .field("ok", check.ok)
        .field("required", check.required)
        .field("detail", check.detail)
        .end_object();
  }
  json.end_array()
      .field("ptrace_scope", report.ptrace_scope)
      .field("nvml", report.nvml)
      .field("nvidia_driver", report.nvidia_driver)
      .field("pid", report.pid)
      .field("simulated", report.simulated);
  write_libraries(report, &json);
  json.end_object();
  return json.take();
}

std::string doctor_text(const DoctorReport& report, bool colour) {
  const Painter painter(colour);
  std::string out;
  add_rungs(report, painter, &out);
  add_host(report, painter, &out);
  if (report.pid) add_libraries(report, &out);
  return out;
}

}  // namespace rung
