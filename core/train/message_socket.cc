#include "core/train/message_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/file_system.h"
#include "core/base/status_macros.h"

namespace gdf::train {
namespace {

constexpr size_t kReceiveBytes = size_t{64} << 10;
constexpr int kReceivesPerCall = 16;

absl::Status Closed() { return absl::UnavailableError("the other end closed the worker's socket"); }

bool Again(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

// Takes the descriptors out of a received control block.
absl::Status TakeFds(const msghdr& header, std::deque<UniqueFd>* out) {
  for (const cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr;
       c = CMSG_NXTHDR(const_cast<msghdr*>(&header), const_cast<cmsghdr*>(c))) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
      out->emplace_back(fd);
    }
  }
  if ((header.msg_flags & MSG_CTRUNC) != 0 || out->size() > kMaxMessageFds) {
    return absl::InvalidArgumentError(
        absl::StrCat("more than ", kMaxMessageFds, " files came with a worker message"));
  }
  return absl::OkStatus();
}

absl::Status WaitFor(int fd, short events) {
  pollfd p{fd, events, 0};
  while (poll(&p, 1, -1) < 0) {
    if (errno != EINTR) return ErrnoToStatus(errno, "wait for", "the worker's socket");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status MessageReader::TakeMessages(std::vector<Message>* out) {
  while (true) {
    GDF_ASSIGN_OR_RETURN(std::optional<Frame> frame, parser_.Next());
    if (!frame) return absl::OkStatus();
    if (fds_.size() < frame->num_fds) {
      return absl::InvalidArgumentError(absl::StrCat("worker message says ", frame->num_fds,
                                                     " files, ", fds_.size(), " came with it"));
    }
    Message message;
    GDF_ASSIGN_OR_RETURN(message.body, ParseMessageBody(frame->body));
    for (size_t i = 0; i < frame->num_fds; ++i) {
      message.fds.push_back(std::move(fds_.front()));
      fds_.pop_front();
    }
    out->push_back(std::move(message));
  }
}

absl::Status MessageReader::ReadAvailable(int fd, std::vector<Message>* out) {
  std::vector<char> bytes(kReceiveBytes);
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxMessageFds * sizeof(int))];
  for (int i = 0; i < kReceivesPerCall; ++i) {
    iovec iov{bytes.data(), bytes.size()};
    msghdr header{};
    header.msg_iov = &iov;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    const ssize_t got = recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && Again(errno)) return absl::OkStatus();
    if (got < 0 && errno != ECONNRESET) {
      return ErrnoToStatus(errno, "receive from", "the worker's socket");
    }
    if (got <= 0) return Closed();
    GDF_RETURN_IF_ERROR(TakeFds(header, &fds_));
    parser_.Append({bytes.data(), static_cast<size_t>(got)});
    GDF_RETURN_IF_ERROR(TakeMessages(out));
  }
  return absl::OkStatus();
}

absl::StatusOr<OutgoingMessage> Encode(Message message) {
  OutgoingMessage outgoing;
  GDF_ASSIGN_OR_RETURN(outgoing.bytes, EncodeFrame(message.body, message.fds.size()));
  outgoing.fds = std::move(message.fds);
  return outgoing;
}

absl::Status MessageWriter::WriteAvailable(int fd) {
  while (!queue_.empty()) {
    OutgoingMessage& pending = queue_.front();
    iovec iov{pending.bytes.data() + pending.sent, pending.bytes.size() - pending.sent};
    msghdr header{};
    header.msg_iov = &iov;
    header.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(kMaxMessageFds * sizeof(int))] = {};
    if (pending.sent == 0 && !pending.fds.empty()) {
      header.msg_control = control;
      header.msg_controllen = CMSG_SPACE(pending.fds.size() * sizeof(int));
      cmsghdr* c = CMSG_FIRSTHDR(&header);
      c->cmsg_level = SOL_SOCKET;
      c->cmsg_type = SCM_RIGHTS;
      c->cmsg_len = CMSG_LEN(pending.fds.size() * sizeof(int));
      for (size_t i = 0; i < pending.fds.size(); ++i) {
        const int passed = pending.fds[i].get();
        std::memcpy(CMSG_DATA(c) + i * sizeof(int), &passed, sizeof(int));
      }
    }
    const ssize_t sent = sendmsg(fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && Again(errno)) return absl::OkStatus();
    if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) return Closed();
    if (sent < 0) return ErrnoToStatus(errno, "send to", "the worker's socket");
    pending.fds.clear();
    pending.sent += static_cast<size_t>(sent);
    if (pending.sent == pending.bytes.size()) queue_.pop_front();
  }
  return absl::OkStatus();
}

absl::Status MessageSocket::Send(Message message) {
  GDF_ASSIGN_OR_RETURN(OutgoingMessage outgoing, Encode(std::move(message)));
  writer_.Push(std::move(outgoing));
  while (true) {
    GDF_RETURN_IF_ERROR(writer_.WriteAvailable(fd_.get()));
    if (writer_.empty()) return absl::OkStatus();
    GDF_RETURN_IF_ERROR(WaitFor(fd_.get(), POLLOUT));
  }
}

absl::StatusOr<Message> MessageSocket::Receive() {
  while (next_ == received_.size()) {
    received_.clear();
    next_ = 0;
    GDF_RETURN_IF_ERROR(WaitFor(fd_.get(), POLLIN));
    const absl::Status status = reader_.ReadAvailable(fd_.get(), &received_);
    // What came before the end of the stream is still served.
    if (!status.ok() && received_.empty()) return status;
  }
  return std::move(received_[next_++]);
}

absl::StatusOr<std::pair<UniqueFd, UniqueFd>> MakeSocketPair() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot make a socket pair: ", std::strerror(errno)));
  }
  return std::make_pair(UniqueFd(fds[0]), UniqueFd(fds[1]));
}

}  // namespace gdf::train
