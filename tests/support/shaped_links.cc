#include "tests/support/shaped_links.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"

namespace gdf::testing {
namespace {

// What precedes a packet of an interface with IFF_VNET_HDR: the virtio specification, 5.1.6, whose C header is no C++.
struct VirtioHeader {
  uint8_t flags, gso_type;
  uint16_t header_bytes, gso_size, checksum_start, checksum_offset;
};
static_assert(sizeof(VirtioHeader) == 10);

constexpr char kInterface[] = "link0";
constexpr int kMtu = 1500;
constexpr uint64_t kEthernetBytes = 14;  // that a packet has beside its IP length
constexpr auto kLongestQueue = std::chrono::milliseconds(100);  // of a download
constexpr double kLeastBurstBytes = 64 << 10;
constexpr double kBurstSeconds = 1e-3;
constexpr size_t kMostPacketBytes = (64 << 10) + sizeof(VirtioHeader);
constexpr int kPacketsPerTurn = 64;

absl::Status Failed(const char* what) {
  return absl::ErrnoToStatus(errno, absl::StrCat("shaped links: ", what));
}

absl::Status Unless(bool done, const char* what) { return done ? absl::OkStatus() : Failed(what); }

absl::Status Configure(int node) {
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  GDF_RETURN_IF_ERROR(Unless(socket >= 0, "socket"));
  const auto set = [socket](const char* name, unsigned long what, auto fill) {
    ifreq request{};
    std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
    fill(request);
    return ioctl(socket, what, &request) == 0;
  };
  const auto address = [](const std::string& text) {
    return [text](ifreq& request) {
      auto* to = reinterpret_cast<sockaddr_in*>(&request.ifr_addr);
      to->sin_family = AF_INET;
      inet_pton(AF_INET, text.c_str(), &to->sin_addr);
    };
  };
  const auto up = [](ifreq& request) { request.ifr_flags = IFF_UP | IFF_RUNNING; };
  const bool done = set("lo", SIOCSIFFLAGS, up) && set(kInterface, SIOCSIFADDR, address(ShapedLinks::Address(node))) &&
                    set(kInterface, SIOCSIFNETMASK, address("255.255.255.0")) &&
                    set(kInterface, SIOCSIFMTU, [](ifreq& request) { request.ifr_mtu = kMtu; }) &&
                    set(kInterface, SIOCSIFFLAGS, up);
  const absl::Status status = Unless(done, "an interface's address");
  close(socket);
  return status;
}

absl::Status ShapeUpload(double bits_per_sec) {
  const double burst = std::max(kLeastBurstBytes, bits_per_sec / 8 * kBurstSeconds);
  const std::string command =
      absl::StrFormat("tc qdisc add dev %s root stab overhead %d linklayer ethernet tbf rate %.0fbit burst %.0f latency %dms",
                      kInterface, kEthernetBytes, bits_per_sec, burst, kLongestQueue.count());
  if (std::system(command.c_str()) == 0) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("shaped links: this failed: ", command));
}

}  // namespace

// Reads packets of all nodes and writes each to its destination when it is due. A packet may be a large one that the
// kernel would still cut (TSO): it counts as what it would be cut to, unless single packets are to be lost.
class ShapedLinks::Router {
 public:
  Router(const std::deque<Node>& nodes, const LinkShape& shape, const std::atomic<bool>& stop)
      : nodes_(nodes), shape_(shape), stop_(stop), downloads_(nodes.size()), lose_(shape.loss) {
    const auto nanoseconds = absl::ToInt64Nanoseconds(shape.rtt / 2);
    delay_ = std::chrono::nanoseconds(nanoseconds);
  }

  void Run() {
    prctl(PR_SET_TIMERSLACK, 1);
    std::vector<pollfd> polls;
    for (const Node& node : nodes_) polls.push_back({node.tun, POLLIN, 0});
    while (!stop_) {
      const Clock::duration wait = Deliver();
      const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(wait);
      const timespec timeout{seconds.count(), (wait - seconds).count()};
      if (ppoll(polls.data(), polls.size(), &timeout, nullptr) <= 0) continue;
      for (size_t from = 0; from < polls.size(); ++from) {
        for (int i = 0; (polls[from].revents & POLLIN) != 0 && i < kPacketsPerTurn && Take(from); ++i) {
        }
      }
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr Clock::duration kLongestWait = std::chrono::milliseconds(20);  // after which it looks at `stop`
  struct Packet {
    Clock::time_point due;
    std::vector<uint8_t> bytes;  // a VirtioHeader and the packet
  };
  struct Download {
    Clock::time_point free;  // when the link has sent all that was queued
    std::deque<Packet> queue;
  };

  // False when there is none.
  bool Take(size_t from) {
    const ssize_t size = read(nodes_[from].tun, scratch_.data(), scratch_.size());
    if (size < static_cast<ssize_t>(sizeof(VirtioHeader) + sizeof(in_addr) * 5)) return size >= 0;
    const uint8_t* ip = scratch_.data() + sizeof(VirtioHeader);
    const size_t node = ip[19] - size_t{1};  // the last byte of its destination's address
    if (ip[0] >> 4 != 4 || node >= nodes_.size() || nodes_[from].cut || nodes_[node].cut || lose_(random_)) return true;
    Download& download = downloads_[node];
    const Clock::time_point arrival = Clock::now() + delay_;
    const Clock::time_point begin = std::max(arrival, download.free);
    if (begin - arrival > kLongestQueue) return true;
    const double seconds = static_cast<double>(WireBytes(static_cast<size_t>(size) - sizeof(VirtioHeader))) * 8 / shape_.RateOf(node);
    download.free = begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    download.queue.push_back({download.free, {scratch_.data(), scratch_.data() + size}});
    return true;
  }

  // Of the packet in scratch_, with the headers that its parts would have.
  uint64_t WireBytes(size_t ip_bytes) const {
    VirtioHeader header;
    std::memcpy(&header, scratch_.data(), sizeof(header));
    uint64_t bytes = ip_bytes + kEthernetBytes;
    if (header.gso_type != 0 && header.gso_size > 0 && ip_bytes > header.header_bytes) {
      const uint64_t parts = (ip_bytes - header.header_bytes + header.gso_size - 1) / header.gso_size;
      bytes += (parts - 1) * (header.header_bytes + kEthernetBytes);
    }
    return bytes;
  }

  // Gives how long the next packet has still to wait.
  Clock::duration Deliver() {
    const Clock::time_point now = Clock::now();
    Clock::duration wait = kLongestWait;
    for (size_t node = 0; node < nodes_.size(); ++node) {
      std::deque<Packet>& queue = downloads_[node].queue;
      for (; !queue.empty() && queue.front().due <= now; queue.pop_front()) {
        const std::vector<uint8_t>& bytes = queue.front().bytes;
        (void)!write(nodes_[node].tun, bytes.data(), bytes.size());  // a full interface drops it, as links do
      }
      if (!queue.empty()) wait = std::min(wait, queue.front().due - now);
    }
    return wait;
  }

  const std::deque<Node>& nodes_;
  const LinkShape shape_;
  const std::atomic<bool>& stop_;
  Clock::duration delay_;
  std::vector<Download> downloads_;
  std::vector<uint8_t> scratch_ = std::vector<uint8_t>(kMostPacketBytes);
  std::mt19937_64 random_{1};
  std::bernoulli_distribution lose_;
};

std::string ShapedLinks::NamespacePath(int node) const {
  return absl::StrCat("/proc/", getpid(), "/fd/", nodes_[static_cast<size_t>(node)].name_space);
}

std::string ShapedLinks::Address(int node) { return absl::StrCat("10.0.0.", node + 1); }

absl::StatusOr<std::unique_ptr<ShapedLinks>> ShapedLinks::Create(int nodes, const LinkShape& shape) {
  std::unique_ptr<ShapedLinks> links(new ShapedLinks(shape));
  // A thread of its own, since what enters a namespace is a thread.
  absl::Status status;
  std::thread([&] {
    for (int i = 0; i < nodes && status.ok(); ++i) status = links->AddNode();
  }).join();
  GDF_RETURN_IF_ERROR(status);
  return links;
}

absl::Status ShapedLinks::AddNode() {
  GDF_RETURN_IF_ERROR(Unless(unshare(CLONE_NEWNET) == 0, "a network namespace"));
  Node& node = nodes_.emplace_back();
  node.name_space = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
  node.tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  GDF_RETURN_IF_ERROR(Unless(node.name_space >= 0 && node.tun >= 0, "/dev/net/tun"));
  ifreq request{};
  std::strncpy(request.ifr_name, kInterface, IFNAMSIZ - 1);
  request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
  GDF_RETURN_IF_ERROR(Unless(ioctl(node.tun, TUNSETIFF, &request) == 0, "a TUN interface"));
  const unsigned offload = TUN_F_CSUM | (shape_.loss == 0 ? TUN_F_TSO4 : 0);
  GDF_RETURN_IF_ERROR(Unless(ioctl(node.tun, TUNSETOFFLOAD, offload) == 0, "a TUN interface's offloads"));
  GDF_RETURN_IF_ERROR(Configure(static_cast<int>(nodes_.size()) - 1));
  return ShapeUpload(shape_.RateOf(nodes_.size() - 1));
}

absl::Status ShapedLinks::Enter(int node) const {
  return Unless(setns(nodes_[static_cast<size_t>(node)].name_space, CLONE_NEWNET) == 0, "entering a namespace");
}

void ShapedLinks::Start() {
  router_ = std::thread([this] { Router(nodes_, shape_, stop_).Run(); });
}

ShapedLinks::~ShapedLinks() {
  stop_ = true;
  if (router_.joinable()) router_.join();
  for (const Node& node : nodes_) {
    if (node.tun >= 0) close(node.tun);
    if (node.name_space >= 0) close(node.name_space);
  }
}

}  // namespace gdf::testing
