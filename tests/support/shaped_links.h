// A star of nodes, each in a network namespace of its own, whose packets go through a router in this process: every link
// has a rate, the router adds delay and loses packets. Needs root, /dev/net/tun and tc.
//
//   GDF_ASSIGN_OR_RETURN(std::unique_ptr<ShapedLinks> links, ShapedLinks::Create(2, {.rate_bits_per_sec = 100e6}));
//   if (fork() == 0) { links->Enter(0); ... listen on links->Address(0) ... }
//   links->Start();  // after the forks: it begins the router's thread
#ifndef GDF_TESTS_SUPPORT_SHAPED_LINKS_H_
#define GDF_TESTS_SUPPORT_SHAPED_LINKS_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace gdf::testing {

struct LinkShape {
  double rate_bits_per_sec = 1e9;  // of each node's upload (tbf) and of its download (the router), headers of Ethernet included
  double first_bits_per_sec = 0;   // of node 0's, where it is another; else 0
  absl::Duration rtt;              // between any two nodes; the router keeps a packet half of it
  double loss = 0;                 // share of packets, 0 to 1, that the router drops
  double RateOf(size_t node) const { return node == 0 && first_bits_per_sec > 0 ? first_bits_per_sec : rate_bits_per_sec; }
};

class ShapedLinks {
 public:
  // kPermissionDenied without the privileges; kNotFound where the kernel or tc lacks what is needed.
  static absl::StatusOr<std::unique_ptr<ShapedLinks>> Create(int nodes, const LinkShape& shape);
  ~ShapedLinks();  // ends the router; the namespaces go with their last process

  // Moves the calling thread, and processes that it starts, into the node's namespace.
  absl::Status Enter(int node) const;
  // IPv4, without a port.
  static std::string Address(int node);
  void Start();
  // A node that is cut off neither sends nor receives: its packets vanish, as behind a router that died. Any thread.
  void Cut(int node, bool cut) { nodes_[static_cast<size_t>(node)].cut = cut; }
  // A file that other programs enter the node's namespace by, such as `nsenter --net=PATH`, while this process runs.
  std::string NamespacePath(int node) const;

 private:
  struct Node {
    int name_space = -1;
    int tun = -1;
    std::atomic<bool> cut = false;
  };
  class Router;

  explicit ShapedLinks(const LinkShape& shape) : shape_(shape) {}
  absl::Status AddNode();

  const LinkShape shape_;
  std::deque<Node> nodes_;
  std::atomic<bool> stop_ = false;
  std::thread router_;
};

}  // namespace gdf::testing

#endif  // GDF_TESTS_SUPPORT_SHAPED_LINKS_H_
