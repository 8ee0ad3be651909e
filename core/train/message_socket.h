// Messages over a connected Unix stream socket, descriptors passed beside them (SCM_RIGHTS).
#ifndef GDF_CORE_TRAIN_MESSAGE_SOCKET_H_
#define GDF_CORE_TRAIN_MESSAGE_SOCKET_H_

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/train/protocol.h"
#include "core/train/unique_fd.h"

namespace gdf::train {

// The receiving half of a socket. One thread at a time.
class MessageReader {
 public:
  // Receives what is there, without waiting, and appends the whole messages to `out`; reads at most
  // about one message's worth, so that a flooding peer cannot hold the caller. kUnavailable when
  // the peer has closed; kInvalidArgument when it broke the protocol.
  absl::Status ReadAvailable(int fd, std::vector<Message>* out);

 private:
  absl::Status TakeMessages(std::vector<Message>* out);

  FrameParser parser_;
  std::deque<UniqueFd> fds_;  // received, and not yet claimed by a frame
};

// A message ready to be sent.
struct OutgoingMessage {
  std::string bytes;
  std::vector<UniqueFd> fds;  // leave with the first byte
  size_t sent = 0;
};
// kResourceExhausted when the message is too large.
absl::StatusOr<OutgoingMessage> Encode(Message message);

// The sending half. One thread at a time.
class MessageWriter {
 public:
  void Push(OutgoingMessage message) { queue_.push_back(std::move(message)); }
  bool empty() const { return queue_.empty(); }
  // Sends what the socket takes without waiting. kUnavailable when the peer has closed.
  absl::Status WriteAvailable(int fd);

 private:
  std::deque<OutgoingMessage> queue_;
};

// Both halves, waiting. For the worker, which does one thing at a time.
class MessageSocket {
 public:
  explicit MessageSocket(UniqueFd fd) : fd_(std::move(fd)) {}
  // Errors of Encode and MessageWriter.
  absl::Status Send(Message message);
  // The next message. Errors of MessageReader.
  absl::StatusOr<Message> Receive();
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
  MessageReader reader_;
  MessageWriter writer_;
  std::vector<Message> received_;
  size_t next_ = 0;
};

// Two connected sockets, closed on exec. kUnavailable when the system has no more.
absl::StatusOr<std::pair<UniqueFd, UniqueFd>> MakeSocketPair();

}  // namespace gdf::train

#endif  // GDF_CORE_TRAIN_MESSAGE_SOCKET_H_
