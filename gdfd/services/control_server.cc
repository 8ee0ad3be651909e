#include "gdfd/services/control_server.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>
#include <poll.h>
#include <pwd.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/log.h"
#include "core/base/status_macros.h"
#include "core/net/certificate.h"
#include "core/train/unique_fd.h"
#include "gdfd/services/control_service.h"
#include "gdfd/services/onlookers.h"

namespace gdf::services {
namespace {

constexpr int kBacklog = 64;
// When the process is out of descriptors, accepting again at once would only spin.
constexpr int kAcceptRetryMillis = 200;
constexpr std::chrono::seconds kShutdownPatience{2};
// For those whose waiting was ended then, to answer their callers.
constexpr std::chrono::seconds kLastAnswers{1};

// Which file a path names now.
struct FileId {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileId&) const = default;
};

std::optional<FileId> FileIdOf(const std::string& path) {
  struct stat found {};
  if (lstat(path.c_str(), &found) != 0) return std::nullopt;
  return FileId{found.st_dev, found.st_ino};
}

// Makes way for a socket at `address`: removes one that nobody listens on any more, and nothing else.
absl::Status RemoveDeadSocket(const std::string& path, const sockaddr_un& address) {
  struct stat found {};
  if (lstat(path.c_str(), &found) != 0) {
    return errno == ENOENT ? absl::OkStatus() : ErrnoToStatus(errno, "look at", path);
  }
  if (!S_ISSOCK(found.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "control socket path '", path, "' is taken by something that is no socket; move it away"));
  }
  const train::UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe.valid()) return ErrnoToStatus(errno, "make a socket to try", path);
  if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ||
      errno != ECONNREFUSED) {
    return absl::UnavailableError(absl::StrCat(
        "another program answers on control socket '", path, "'; give one of them another path"));
  }
  return unlink(path.c_str()) == 0 ? absl::OkStatus() : ErrnoToStatus(errno, "remove", path);
}

absl::StatusOr<int> ListenUnix(FileSystem& files, const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("control socket path '", path, "' has ",
                                                   path.size(), " characters, at most ",
                                                   sizeof(address.sun_path) - 1, " fit"));
  }
  path.copy(address.sun_path, path.size());
  const size_t slash = path.rfind('/');
  if (slash != std::string::npos && slash > 0)
    GDF_RETURN_IF_ERROR(files.MakeFolders(path.substr(0, slash), 0755));
  GDF_RETURN_IF_ERROR(RemoveDeadSocket(path, address));
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return ErrnoToStatus(errno, "make the socket", path);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      chmod(path.c_str(), 0666) != 0 ||  // who may do what is decided by peer credentials
      listen(fd, kBacklog) != 0) {
    const int error = errno;
    close(fd);
    return ErrnoToStatus(error, "listen on", path);
  }
  return fd;
}

bool InGroup(uid_t uid, gid_t primary, gid_t group) {
  if (primary == group) return true;
  const passwd* user = getpwuid(uid);
  if (user == nullptr) return false;
  int count = 64;
  std::vector<gid_t> groups(count);
  if (getgrouplist(user->pw_name, user->pw_gid, groups.data(), &count) < 0) return false;
  return std::find(groups.begin(), groups.begin() + count, group) != groups.begin() + count;
}

}  // namespace

class ControlServer::Impl {
 public:
  explicit Impl(Node& node)
      : node_(node),
        bridge_(std::make_unique<Bridge>(node.executor)),
        full_(node, *bridge_, Rights::kOperator),
        read_only_(node, *bridge_, Rights::kReadOnly) {}

  ~Impl() {
    Shutdown();
    if (stop_fd_ >= 0) close(stop_fd_);
  }

  absl::Status Start() {
    const config::NodeConfig& config = node_.config;
    if (!config.operator_group.empty()) {
      const group* found = getgrnam(config.operator_group.c_str());
      if (found == nullptr) {
        return absl::InvalidArgumentError(
            absl::StrCat("operator_group: no group '", config.operator_group, "' here"));
      }
      operator_group_ = found->gr_gid;
    }
    GDF_ASSIGN_OR_RETURN(listen_fd_, ListenUnix(node_.files, config.control_socket));
    socket_file_ = FileIdOf(config.control_socket);
    stop_fd_ = eventfd(0, EFD_CLOEXEC);
    grpc::ResourceQuota quota("operators");
    quota.SetMaxThreads(kOperatorThreads);
    operators_ = Build(full_, quota, nullptr);
    grpc::ResourceQuota onlookers("onlookers");
    onlookers.SetMaxThreads(kOnlookerThreads);
    onlookers_ = Build(read_only_, onlookers, nullptr);
    if (config.remote_control.listen) {
      GDF_ASSIGN_OR_RETURN(net::CertificatePem mine,
                           net::MakeCertificatePem(node_.key.private_seed()));
      GDF_ASSIGN_OR_RETURN(std::string clients,
                           node_.files.Read(config.remote_control.client_certificates));
      if (clients.find("-----BEGIN CERTIFICATE-----") == std::string::npos) {
        return absl::InvalidArgumentError(absl::StrCat(config.remote_control.client_certificates,
                                                       " holds no certificate; expected PEM"));
      }
      grpc::SslServerCredentialsOptions tls(
          GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
      tls.pem_root_certs = clients;
      tls.pem_key_cert_pairs.push_back({mine.private_key, mine.certificate});
      // What a remote caller pins.
      GDF_RETURN_IF_ERROR(
          node_.files.WriteAtomic(node_.state_dir + "/control-cert.pem", mine.certificate, 0644));
      remote_ = Build(full_, quota, grpc::SslServerCredentials(tls));
      if (remote_ == nullptr) {
        return absl::UnavailableError(absl::StrCat("cannot listen on ",
                                                   config::ToString(*config.remote_control.listen),
                                                   " for remote control"));
      }
    }
    accept_thread_.emplace([this] { Accept(); });
    return absl::OkStatus();
  }

  void Shutdown() {
    if (accept_thread_) {
      const uint64_t one = 1;
      if (write(stop_fd_, &one, sizeof(one)) == sizeof(one)) accept_thread_->join();
      accept_thread_.reset();
    }
    if (const int listening = std::exchange(listen_fd_, -1); listening >= 0) {
      const std::string& path = node_.config.control_socket;
      if (socket_file_ && FileIdOf(path) == socket_file_) unlink(path.c_str());
      close(listening);
    }
    if (operators_ == nullptr) return;
    const auto deadline = std::chrono::system_clock::now() + kShutdownPatience + kLastAnswers;
    bridge_->CloseAfter(absl::FromChrono(kShutdownPatience));  // ends those that wait for others
    for (std::unique_ptr<grpc::Server>* server : {&operators_, &onlookers_, &remote_}) {
      if (*server) (*server)->Shutdown(deadline);
      server->reset();
    }
  }

  const std::string& remote_address() const { return remote_address_; }

 private:
  std::unique_ptr<grpc::Server> Build(ControlService& service, const grpc::ResourceQuota& quota,
                                      std::shared_ptr<grpc::ServerCredentials> remote) {
    grpc::ServerBuilder builder;
    builder.SetResourceQuota(quota);
    builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
    builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
    builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
    int port = 0;
    const std::string where = remote ? config::ToString(*node_.config.remote_control.listen) : "";
    if (remote) builder.AddListeningPort(where, remote, &port);
    builder.RegisterService(&service);
    std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    if (remote && port == 0) return nullptr;
    if (remote) remote_address_ = absl::StrCat(where.substr(0, where.rfind(':')), ":", port);
    return server;
  }

  void Accept() {
    Onlookers present;
    while (true) {
      std::vector<pollfd> watched = present.Watch();
      watched.push_back({stop_fd_, POLLIN, 0});
      watched.push_back({listen_fd_, POLLIN, 0});
      if (poll(watched.data(), watched.size(), -1) < 0) {
        if (errno == EINTR) continue;
        return;
      }
      const bool caller = watched.back().revents != 0;
      watched.pop_back();
      pollfd stop = watched.back();
      if (stop.revents != 0) return;
      present.Forget(watched);
      if (!caller) continue;
      const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd >= 0) {
        Admit(fd, present);
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
        Log(LogLevel::kWarning, "control_accept_failed", {{"errno", errno}});
        poll(&stop, 1, kAcceptRetryMillis);
      }
    }
  }

  void Admit(int fd, Onlookers& present) {
    ucred peer{};
    socklen_t length = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) {
      close(fd);
      return;
    }
    const bool may = peer.uid == geteuid() || peer.uid == 0 ||
                     (operator_group_ && InGroup(peer.uid, peer.gid, *operator_group_));
    if (!may && !present.Admit(fd, peer.uid)) {
      Log(LogLevel::kDebug, "onlooker_refused", {{"user", peer.uid}});
      close(fd);
      return;
    }
    grpc::AddInsecureChannelFromFd(may ? operators_.get() : onlookers_.get(), fd);
  }

  Node& node_;
  std::unique_ptr<Bridge> bridge_;
  ControlService full_, read_only_;
  std::optional<gid_t> operator_group_;
  int listen_fd_ = -1;
  std::optional<FileId> socket_file_;  // as this server made it; the path may be another's since
  int stop_fd_ = -1;
  std::string remote_address_;
  std::unique_ptr<grpc::Server> operators_, onlookers_, remote_;
  std::optional<std::thread> accept_thread_;
};

ControlServer::ControlServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

absl::StatusOr<std::unique_ptr<ControlServer>> ControlServer::Start(Node& node) {
  auto impl = std::make_unique<Impl>(node);
  absl::Status started = impl->Start();
  if (started.ok()) return std::unique_ptr<ControlServer>(new ControlServer(std::move(impl)));
  impl->Shutdown();
  node.executor.Post([impl = std::move(impl)] {});  // the bridge goes where it was used
  return started;
}

ControlServer::~ControlServer() = default;
void ControlServer::Shutdown() { impl_->Shutdown(); }
const std::string& ControlServer::remote_address() const { return impl_->remote_address(); }

}  // namespace gdf::services
