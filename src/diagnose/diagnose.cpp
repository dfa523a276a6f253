#include "diagnose/diagnose.h"

#include <iterator>

#include "diagnose/rules.h"

namespace rung {

std::vector<Verdict> diagnose(const JobView& view, Resolver& resolver) {
  std::vector<Finding> findings;
  for (const Rule rule : kRules) {
    std::vector<Finding> found = rule(view);
    findings.insert(findings.end(), std::make_move_iterator(found.begin()),
                    std::make_move_iterator(found.end()));
  }
  return resolver.resolve(view, std::move(findings));
}

}  // namespace rung
