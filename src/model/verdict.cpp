#include "model/verdict.h"

#include <algorithm>

namespace rung {

std::string_view family_of(std::string_view kind) { return kind.substr(0, kind.find('.')); }

int why_exit_code(const std::vector<Verdict>& verdicts, const std::vector<std::string>& fail_on) {
  constexpr std::string_view kAccusing[] = {"hang", "rank", "init", "device", "slow", "observer"};
  bool only_unknown = !verdicts.empty();
  for (const Verdict& verdict : verdicts) {
    const std::string_view family = family_of(verdict.kind);
    const bool accuses =
        std::find(std::begin(kAccusing), std::end(kAccusing), family) != std::end(kAccusing);
    const bool wanted = std::any_of(fail_on.begin(), fail_on.end(), [&](const std::string& name) {
      return name == verdict.kind || name == family;
    });
    if (accuses || wanted) return 1;
    only_unknown = only_unknown && family == "unknown";
  }
  return only_unknown ? 2 : 0;
}

}  // namespace rung
