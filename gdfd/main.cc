// gdfd: the GDF daemon.

#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/file_system.h"
#include "core/base/log.h"
#include "core/base/status_macros.h"
#include "core/config/node_config.h"
#include "core/trust/lock_file.h"
#include "gdfd/daemon.h"
#include "gdfd/services/backup.h"
#include "gdfd/state_folder.h"
#include "gdfd/supervisor/sandbox/sandbox.h"
#include "gdfd/version.h"

namespace gdf {
namespace {

// docs/exit-codes.md.
constexpr int kExitOk = 0;
constexpr int kExitFailed = 5;
constexpr int kExitUsage = 4;

struct Arguments {
  std::string config_file;
  std::string state_dir, control_socket, name, worker, log_level, restore;
  std::vector<std::string> listen, advertise;
  int ready_fd = -1;
  bool recover = false;
};

absl::StatusOr<config::NodeConfig> ReadConfig(const Arguments& arguments) {
  PosixFileSystem files;
  std::string text;
  if (!arguments.config_file.empty()) {
    GDF_ASSIGN_OR_RETURN(text, files.Read(arguments.config_file, 1 << 20));
  }
  GDF_ASSIGN_OR_RETURN(config::NodeConfig config, config::ParseNodeConfig(text, arguments.config_file));
  if (!arguments.state_dir.empty()) config.state_dir = arguments.state_dir;
  if (!arguments.control_socket.empty()) config.control_socket = arguments.control_socket;
  if (!arguments.name.empty()) config.name = arguments.name;
  if (!arguments.worker.empty()) config.worker = arguments.worker;
  if (!arguments.listen.empty()) config.listen.clear();
  for (const std::string& text_endpoint : arguments.listen) {
    GDF_ASSIGN_OR_RETURN(config::Endpoint endpoint, config::ParseEndpoint(text_endpoint));
    config.listen.push_back(endpoint);
  }
  if (!arguments.advertise.empty()) config.advertise.clear();
  for (const std::string& text_endpoint : arguments.advertise) {
    GDF_ASSIGN_OR_RETURN(config::Endpoint endpoint, config::ParseEndpoint(text_endpoint));
    config.advertise.push_back(endpoint);
  }
  static const std::vector<std::pair<std::string, config::LogLevel>> kLevels = {
      {"debug", config::LogLevel::kDebug}, {"info", config::LogLevel::kInfo},
      {"warning", config::LogLevel::kWarning}, {"error", config::LogLevel::kError}};
  for (const auto& [word, level] : kLevels) {
    if (word == arguments.log_level) config.log.level = level;
  }
  return config;
}

absl::Status SetUpLog(const config::LogConfig& log) {
  switch (log.level) {
    case config::LogLevel::kDebug: SetLogLevel(LogLevel::kDebug); break;
    case config::LogLevel::kInfo: SetLogLevel(LogLevel::kInfo); break;
    case config::LogLevel::kWarning: SetLogLevel(LogLevel::kWarning); break;
    case config::LogLevel::kError: SetLogLevel(LogLevel::kError); break;
  }
  // journald takes standard error of a unit; lines there are the same.
  return log.target == config::LogTarget::kFile ? LogToFile(log.file) : absl::OkStatus();
}

// sd_notify(3): one datagram to the socket that systemd names.
void NotifySystemd(const char* state) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr || path[0] == '\0') return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = path;
  if (name.size() >= sizeof(address.sun_path)) return;
  name.copy(address.sun_path, name.size());
  if (name[0] == '@') address.sun_path[0] = '\0';
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  const socklen_t length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  sendto(fd, state, std::string_view(state).size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address), length);
  close(fd);
}

absl::Status Restore(const std::string& file, const std::string& state_dir) {
  PosixFileSystem files;
  GDF_ASSIGN_OR_RETURN(std::string archive, files.Read(file, services::kMaxArchiveBytes));
  const char* passphrase = std::getenv("GDF_PASSPHRASE");
  if (passphrase == nullptr) return absl::InvalidArgumentError("put the backup's passphrase into GDF_PASSPHRASE");
  GDF_ASSIGN_OR_RETURN(services::Restored restored,
                       services::RestoreBackup(files, archive, passphrase, state_dir));
  const std::string network =
      restored.network.empty() ? "in no network"
                               : absl::StrCat("network ", restored.network, " up to log entry ", restored.log_entries);
  std::printf("restored node %s, %s, to %s\n", restored.node.Short().c_str(), network.c_str(), state_dir.c_str());
  return absl::OkStatus();
}

absl::Status Recover(const std::string& state_dir) {
  PosixFileSystem files;
  SystemRng rng;
  const SystemClock clock;
  GDF_RETURN_IF_ERROR(CheckStateFolder(files, state_dir));
  GDF_ASSIGN_OR_RETURN(const trust::LockFile lock, trust::LockFile::Acquire(state_dir + "/gdfd.lock"));
  GDF_ASSIGN_OR_RETURN(const uint64_t entries, RecoverNetwork(files, state_dir, rng, clock.Now()));
  std::printf("this node is its network's only coordinator, from log entry %llu on\n",
              static_cast<unsigned long long>(entries));
  return absl::OkStatus();
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "gdfd: %s\n", std::string(status.message()).c_str());
  return status.code() == absl::StatusCode::kInvalidArgument ? kExitUsage : kExitFailed;
}

void TellReady(int ready_fd) {
  NotifySystemd("READY=1");
  if (ready_fd < 0) return;
  if (write(ready_fd, "ready\n", 6) != 6) Log(LogLevel::kWarning, "ready_not_told");
  close(ready_fd);
}

// Serves until a signal ends it (OK) or the node has to begin anew (kAborted): it left its network, or took a new key.
absl::Status RunOnce(const config::NodeConfig& config, const sigset_t& signals, int ready_fd) {
  GDF_ASSIGN_OR_RETURN(const std::unique_ptr<Daemon> daemon, Daemon::Start(config));
  // A thread that only waits for a signal, so that nothing runs in a handler.
  std::thread stopper([&] {
    int signal = 0;
    if (sigwait(&signals, &signal) == 0) daemon->Stop();
  });
  const absl::Status end = daemon->Run([ready_fd] { TellReady(ready_fd); });
  pthread_kill(stopper.native_handle(), SIGTERM);
  stopper.join();
  return end;
}

// Callers, peers and files each take descriptors; the usual limit of 1024 is for programs that use select().
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) Log(LogLevel::kWarning, "descriptor_limit_stays", {{"errno", errno}});
}

int RunDaemon(const config::NodeConfig& config, int ready_fd) {
  sigset_t signals;
  sigemptyset(&signals);
  for (int signal : {SIGINT, SIGTERM}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // before any thread: all inherit it
  ::signal(SIGPIPE, SIG_IGN);
  absl::Status end = RunOnce(config, signals, ready_fd);
  while (absl::IsAborted(end)) end = RunOnce(config, signals, -1);
  NotifySystemd("STOPPING=1");
  return end.ok() ? kExitOk : Fail(end);
}

int Main(int argc, char** argv) {
  CLI::App app("Pools this machine with others to train models.", "gdfd");
  Arguments arguments;
  app.footer("Exit codes: 0 ended by SIGTERM or SIGINT, or done; 4 usage or invalid input; 5 it cannot start or go on.");
  app.set_version_flag("--version", std::string("gdfd ") + kVersion);
  app.add_option("--config", arguments.config_file, "gdfd.yaml; what follows here overrides it");
  app.add_option("--state-dir", arguments.state_dir, "keys, records, chunks, checkpoints");
  app.add_option("--control-socket", arguments.control_socket, "where gdfctl finds this daemon");
  app.add_option("--listen", arguments.listen, "ADDRESS:PORT for other nodes; port 0: the last one, or any free one");
  app.add_option("--advertise", arguments.advertise, "HOST:PORT at which others reach this node");
  app.add_option("--name", arguments.name, "of this node, for people");
  app.add_option("--worker", arguments.worker, "the gdf-worker program");
  app.add_option("--log-level", arguments.log_level)->check(CLI::IsMember({"debug", "info", "warning", "error"}));
  app.add_option("--ready-fd", arguments.ready_fd, "writes 'ready' to this descriptor once it serves");
  app.add_option("--restore", arguments.restore, "puts what a backup has into the state folder and exits");
  app.add_flag("--recover-network", arguments.recover,
               "makes this node the only coordinator, when most are lost for good, and exits");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (app.exit(error) != 0) return kExitUsage;
    if (std::cout.flush()) return kExitOk;
    return Fail(absl::DataLossError("standard output did not take all data"));
  }
  absl::StatusOr<config::NodeConfig> config = ReadConfig(arguments);
  if (!config.ok()) return Fail(config.status());
  if (!arguments.restore.empty()) {
    const absl::Status restored = Restore(arguments.restore, config->state_dir);
    return restored.ok() ? kExitOk : Fail(restored);
  }
  if (arguments.recover) {
    const absl::Status recovered = Recover(config->state_dir);
    return recovered.ok() ? kExitOk : Fail(recovered);
  }
  if (absl::Status log = SetUpLog(config->log); !log.ok()) return Fail(log);
  if (absl::Status hidden = supervisor::MakeUndumpable(); !hidden.ok()) return Fail(hidden);
  RaiseDescriptorLimit();
  return RunDaemon(*config, arguments.ready_fd);
}

}  // namespace
}  // namespace gdf

int main(int argc, char** argv) { return gdf::Main(argc, argv); }
