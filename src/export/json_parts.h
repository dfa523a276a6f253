// Pieces of JSON that several views share.
#pragma once

#include <optional>
#include <string_view>

#include "base/json_writer.h"
#include "model/job_view.h"
#include "model/verdict.h"

namespace rung::view {

// NAME_unix_ns (integer) and NAME (RFC 3339); both null when not known.
void write_time(JsonWriter& json, std::string_view name, std::optional<std::int64_t> unix_ns);

// NAME: {"set": "0-2,5", "count": 4}
void write_ranks(JsonWriter& json, std::string_view name, const RankSet& ranks);

// "job", "attempt", "label", "scope", "simulated": who it is.
void write_job_identity(JsonWriter& json, const JobView& job);

void write_verdict(JsonWriter& json, const Verdict& verdict);

// Fields of one coverage entry, into an open object.
void write_coverage(JsonWriter& json, const RungCoverage& coverage);

std::optional<std::int64_t> maybe_ns(const Known<JobNs>& at);
const char* name_of(Scope scope);  // "node", "hub", "files"

}  // namespace rung::view
