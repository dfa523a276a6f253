// Strongly connected components of a directed graph (Tarjan), without recursion.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <vector>

namespace rung {

// The components of nodes 0..nodes-1; one comes after all that it leads to. `degree(node)` is the
// number of edges out of a node, `target(node, n)` where the n-th leads.
inline std::vector<std::vector<std::size_t>> strong_components(
    std::size_t nodes, const std::function<std::size_t(std::size_t)>& degree,
    const std::function<std::size_t(std::size_t, std::size_t)>& target) {
  constexpr std::size_t kUnvisited = static_cast<std::size_t>(-1);
  struct Frame {
    std::size_t node;
    std::size_t next_edge;
  };
  std::vector<std::size_t> order(nodes, kUnvisited);
  std::vector<std::size_t> low(nodes, 0);
  std::vector<bool> on_stack(nodes, false);
  std::vector<std::size_t> stack;
  std::vector<Frame> frames;
  std::vector<std::vector<std::size_t>> out;
  std::size_t counter = 0;
  const auto enter = [&](std::size_t node) {
    order[node] = low[node] = counter++;
    stack.push_back(node);
    on_stack[node] = true;
    frames.push_back({node, 0});
  };
  for (std::size_t root = 0; root < nodes; ++root) {
    if (order[root] != kUnvisited) continue;
    enter(root);
    while (!frames.empty()) {
      const std::size_t node = frames.back().node;
      if (frames.back().next_edge < degree(node)) {
        const std::size_t to = target(node, frames.back().next_edge++);
        if (order[to] == kUnvisited) {
          enter(to);
        } else if (on_stack[to]) {
          low[node] = std::min(low[node], order[to]);
        }
        continue;
      }
      frames.pop_back();
      if (!frames.empty()) low[frames.back().node] = std::min(low[frames.back().node], low[node]);
      if (low[node] != order[node]) continue;
      std::vector<std::size_t>& component = out.emplace_back();
      std::size_t member;
      do {
        member = stack.back();
        stack.pop_back();
        on_stack[member] = false;
        component.push_back(member);
      } while (member != node);
    }
  }
  return out;
}

}  // namespace rung
