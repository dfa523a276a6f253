// The single entry of diagnosis: all rules over one view, then the resolver.
#pragma once

#include <vector>

#include "diagnose/resolver.h"
#include "model/job_view.h"
#include "model/verdict.h"

namespace rung {

// The verdicts that stand for this job at view.now. `resolver` is the job's own and remembers when
// each verdict was first found. Pure: no file, no socket, no clock.
std::vector<Verdict> diagnose(const JobView& view, Resolver& resolver);

}  // namespace rung
