// Holds network namespaces with slow links between them, for a program that cannot: prints where they are, obeys lines
// such as "cut 2" and "join 2", each answered with "done", and takes all away when standard input ends.
//
//   chaos_links NODES MBIT_PER_SEC RTT_MS
#include <cstdlib>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/shaped_links.h"

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: chaos_links NODES MBIT_PER_SEC RTT_MS\n";
    return 4;
  }
  const int nodes = std::atoi(argv[1]);
  const gdf::testing::LinkShape shape{.rate_bits_per_sec = std::atof(argv[2]) * 1e6, .rtt = absl::Milliseconds(std::atof(argv[3]))};
  absl::StatusOr<std::unique_ptr<gdf::testing::ShapedLinks>> links = gdf::testing::ShapedLinks::Create(nodes, shape);
  if (!links.ok()) {
    std::cerr << links.status().message() << "\n";
    return absl::IsPermissionDenied(links.status()) || absl::IsNotFound(links.status()) ? 77 : 1;
  }
  (*links)->Start();
  nlohmann::json places = nlohmann::json::array();
  for (int i = 0; i < nodes; ++i) {
    places.push_back({{"namespace", (*links)->NamespacePath(i)}, {"address", gdf::testing::ShapedLinks::Address(i)}});
  }
  std::cout << places << std::endl;
  std::string what;
  int node = 0;
  while (std::cin >> what >> node) {
    const bool known = (what == "cut" || what == "join") && node >= 0 && node < nodes;
    if (known) (*links)->Cut(node, what == "cut");
    std::cout << (known ? "done" : "not understood") << std::endl;
  }
}
