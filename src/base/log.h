// Log lines of the agent and its workers, to stderr (the service manager keeps them). Libraries and
// rooms below agent/ do not log: they return errors and counts.
#pragma once

#include <spdlog/spdlog.h>
