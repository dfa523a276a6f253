// How verdicts word things: one place, so that they all sound the same.
#pragma once

#include <string>

#include "model/job_view.h"
#include "timeline/matching.h"
#include "timeline/wait_graph.h"

namespace rung {

double seconds_of(std::chrono::nanoseconds d);
std::string duration_text(std::chrono::nanoseconds d);  // "12.3 s", "4 min 5 s"
std::string bytes_text(std::uint64_t bytes);            // "1 MiB", "512 B", "1.5 KiB"

// "rank 3", "ranks 0-2,5", "no rank"; a long set is cut and its size told.
std::string ranks_text(const RankSet& ranks);
// "rank 3 waits", "5 ranks wait".
std::string count_text(std::size_t ranks, const char* one, const char* many);

// "AllReduce of 262144 float32 (1 MiB)"; the root of rooted operations is told.
std::string signature_text(const CollectiveSignature& what);
// "communicator 0x9250b9ac1b69107a".
std::string comm_text(const CommView& comm);
// What is waited for at a point: "AllReduce of ... on communicator 0x..., index 42".
std::string point_text(const JobView& view, const WaitPoint& point);

// "its last call was cuStreamSynchronize, entered 12.3 s ago" or that none was seen.
std::string last_call_text(const JobView& view, const RankView& rank);

}  // namespace rung
