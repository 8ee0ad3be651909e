// A worker that means harm, inside the sandbox that every worker has. It speaks the session's
// protocol; a "generate" request is its order, and what came of it the text that it generates:
//   "connect PORT", "connect-to-itself", "open PATH", "ptrace PID", "read-memory PID", "kill PID", "fork", "exec PATH",
//   "resize-segment", "write-theta", "nested-namespaces", "user": OK or an errno's name
//   "mode NAME": how to answer from now on (see Mode)
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <new>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/train/message_socket.h"
#include "core/train/messages.h"
#include "core/train/shared_segment.h"
#include "gdfd/supervisor/sandbox/sandbox.h"

namespace gdf {
namespace {

using nlohmann::json;
using train::Message;
using train::MessageSocket;

struct Hostile {
  MessageSocket socket{train::UniqueFd(train::kWorkerSocketFd)};
  std::string mode;
  train::UniqueFd theta, window;
  std::vector<std::string> eaten;
};

std::string Outcome(bool worked) { return worked ? "OK" : strerrorname_np(errno); }

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

std::string Connect(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0) return Outcome(false);
  const sockaddr_in to = Loopback(port);
  return Outcome(connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0);
}

// Whether this process reaches itself, as NCCL does.
std::string ConnectToItself() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in here = Loopback(0);
  socklen_t length = sizeof(here);
  auto* generic = reinterpret_cast<sockaddr*>(&here);
  if (listener < 0 || bind(listener, generic, length) != 0 || listen(listener, 1) != 0 ||
      getsockname(listener, generic, &length) != 0) {
    return Outcome(false);
  }
  return Connect(ntohs(here.sin_port));
}

std::string Fork() {
  const pid_t child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, 0));
  if (child == 0) _exit(0);
  return Outcome(child > 0);
}

std::string Resize(const Hostile& hostile) {
  std::string outcome;
  for (const int fd : {hostile.theta.get(), hostile.window.get()}) {
    for (const off_t size : {off_t{0}, off_t{1} << 30}) {
      if (ftruncate(fd, size) == 0) return "OK";
      outcome = Outcome(false);
    }
  }
  return outcome;
}

std::string ReadMemory(pid_t pid) {
  char byte;
  iovec local{&byte, 1}, remote{&byte, 1};
  if (syscall(SYS_process_vm_readv, pid, &local, 1, &remote, 1, 0) >= 0) return "OK";
  const int error = errno;
  if (open(absl::StrCat("/proc/", pid, "/mem").c_str(), O_RDONLY) >= 0) return "OK";
  errno = error;
  return Outcome(false);
}

std::string Attempt(Hostile& hostile, const std::string& order) {
  const std::vector<std::string> words = absl::StrSplit(order, ' ');
  const std::string& what = words[0];
  const std::string argument = words.size() > 1 ? words[1] : "";
  int number = 0;
  (void)absl::SimpleAtoi(argument, &number);
  if (what == "mode") hostile.mode = argument;
  if (what == "connect") return Connect(number);
  if (what == "connect-to-itself") return ConnectToItself();
  if (what == "open") return Outcome(open(argument.c_str(), O_RDONLY) >= 0);
  if (what == "ptrace") return Outcome(ptrace(PTRACE_ATTACH, number, nullptr, nullptr) == 0);
  if (what == "read-memory") return ReadMemory(number);
  if (what == "kill") return Outcome(kill(number, SIGTERM) == 0);
  if (what == "fork") return Fork();
  if (what == "exec") return Outcome(execl(argument.c_str(), argument.c_str(), nullptr) == 0);
  if (what == "nested-namespaces") return Outcome(unshare(CLONE_NEWUSER) == 0);
  if (what == "resize-segment") return Resize(hostile);
  if (what == "write-theta") {
    return Outcome(mmap(nullptr, 1, PROT_WRITE, MAP_SHARED, hostile.theta.get(), 0) != MAP_FAILED);
  }
  if (what == "user") return absl::StrCat(getuid());
  return "OK";
}

// Allocates until the limit stops it, as a model too large would.
[[noreturn]] void EatMemory(Hostile& hostile) {
  try {
    while (true) hostile.eaten.emplace_back(size_t{16} << 20, 'x');
  } catch (const std::bad_alloc&) {
    _exit(train::kExitOutOfMemory);
  }
}

json LoadReply() {
  tensor::Layout layout;
  if (!layout.Add("weight", {2, 3}).ok()) std::abort();
  return {{"layout", layout.ToJson()}, {"vocab", 3},   {"train_tokens", 10},   {"valid_tokens", 0},
          {"tokens_per_step", 1},      {"threads", 1}, {"device_name", "cpu"}, {"precision", 1}};
}

[[noreturn]] void Hang() {
  while (true) poll(nullptr, 0, -1);
}

// Things to do instead of an answer, once.
void Misbehave(Hostile& hostile, const json& request) {
  const std::string mode = hostile.mode;
  hostile.mode.clear();
  if (mode == "hang") Hang();
  if (mode == "abort") {
    std::cerr << "something is badly wrong" << std::endl;
    std::abort();
  }
  if (mode == "exit") _exit(7);
  if (mode == "eat-memory") EatMemory(hostile);
  if (mode == "garbage") {
    const std::string bytes("\xff\xff\xff\xff\xff\xff\xff\xff", 8);
    (void)!write(train::kWorkerSocketFd, bytes.data(), bytes.size());
  }
  if (mode == "close") close(train::kWorkerSocketFd);
  if (mode == "wrong-id") {
    Message message;
    message.body = {{"id", 1'000'000}};
    hostile.socket.Send(std::move(message)).IgnoreError();
  }
  if (mode == "endless-state") {
    Message message;
    message.body = {{"id", request["id"]}, {"bytes", int64_t{1} << 50}};
    hostile.socket.Send(std::move(message)).IgnoreError();
  }
  if (mode == "growing-state") {
    json id = request["id"];
    for (int bytes = 1 << 20;; bytes += 4) {
      Message message;
      message.body = {{"id", id}, {"bytes", bytes}};
      if (!hostile.socket.Send(std::move(message)).ok()) _exit(0);
      absl::StatusOr<Message> next = hostile.socket.Receive();
      if (!next.ok()) _exit(0);
      id = next->body["id"];
    }
  }
  if (mode == "flood") {
    while (true) {
      Message message;
      message.body = {
          {"id", request["id"]}, {"event", "step"}, {"step", 1}, {"loss", 1.0}, {"lr", 0.1}};
      if (!hostile.socket.Send(std::move(message)).ok()) _exit(0);
    }
  }
  Hang();
}

json Answer(Hostile& hostile, Message& request) {
  const std::string op = request.body["op"];
  if (op == "load") return LoadReply();
  if (op == "segment") hostile.window = std::move(request.fds[0]);
  if (op == "apply") hostile.theta = std::move(request.fds[0]);
  if (op == "generate") {
    Message event;
    event.body = {{"id", request.body["id"]},
                  {"event", "text"},
                  {"text", Attempt(hostile, request.body["prompt"])}};
    hostile.socket.Send(std::move(event)).IgnoreError();
    return {{"tokens", 1}, {"seconds", 0}};
  }
  return json::object();
}

int Main(int argc, char** argv) {
  supervisor::SandboxOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::vector<std::string> parts = absl::StrSplit(argv[i], '=');
    if (parts[0] == "--parent") (void)absl::SimpleAtoi(parts[1], &options.parent);
    if (parts[0] == "--gpus") (void)absl::SimpleAtoi(parts[1], &options.gpus);
  }
  absl::StatusOr<supervisor::SandboxReport> report = supervisor::EnterSandbox(options);
  if (!report.ok()) {
    std::cerr << report.status() << std::endl;
    return 1;
  }
  Hostile hostile;
  Message hello;
  hello.body = {{"hello", train::kProtocolVersion},
                {"in_force", report->in_force},
                {"missing", report->missing}};
  if (!hostile.socket.Send(std::move(hello)).ok()) return 1;
  while (true) {
    absl::StatusOr<Message> request = hostile.socket.Receive();
    if (!request.ok()) return 0;
    if (!hostile.mode.empty()) Misbehave(hostile, request->body);
    Message reply;
    reply.body = Answer(hostile, *request);
    reply.body["id"] = request->body["id"];
    if (!hostile.socket.Send(std::move(reply)).ok()) return 0;
  }
}

}  // namespace
}  // namespace gdf

int main(int argc, char** argv) { return gdf::Main(argc, argv); }
