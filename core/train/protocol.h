// The bytes between daemon and worker (docs/formats/worker-protocol.md): frames that hold one JSON
// object each, with file descriptors beside it. Neither end trusts the other's lengths or numbers.
#ifndef GDF_CORE_TRAIN_PROTOCOL_H_
#define GDF_CORE_TRAIN_PROTOCOL_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/train/unique_fd.h"

namespace gdf::train {

inline constexpr int64_t kProtocolVersion = 6;
inline constexpr size_t kFrameHeaderBytes = 8;
inline constexpr size_t kMaxMessageBytes = size_t{1} << 20;  // of JSON text; bulk goes elsewhere
inline constexpr size_t kMaxMessageFds = 64;                 // below the kernel's SCM_MAX_FD (253)
inline constexpr int kMaxJsonDepth = 16;
// Any one number of a message; counts of tokens and steps stay far below, and doubles hold it.
inline constexpr int64_t kMaxCount = int64_t{1} << 53;

// The worker finds its socket at this descriptor.
inline constexpr int kWorkerSocketFd = 3;
// Exit status of a worker that ran out of memory where it could not go on.
inline constexpr int kExitOutOfMemory = 42;

struct Message {
  nlohmann::json body = nlohmann::json::object();
  std::vector<UniqueFd> fds;
};

// A frame as it came: its text is not parsed yet, its descriptors travel beside the bytes.
struct Frame {
  std::string body;
  size_t num_fds = 0;
};

// Header and text of one message. kResourceExhausted when the text is over kMaxMessageBytes or
// there are too many descriptors. Text that is not UTF-8 is repaired with U+FFFD.
absl::StatusOr<std::string> EncodeFrame(const nlohmann::json& body, size_t num_fds);

// Cuts a stream into frames. Holds at most one frame beside what one Append brought.
class FrameParser {
 public:
  void Append(std::string_view bytes) { buffer_.append(bytes); }
  // The next whole frame, or nullopt when more bytes are needed. kInvalidArgument for a length of
  // 0 or over kMaxMessageBytes, or too many descriptors; the stream is of no use after that.
  absl::StatusOr<std::optional<Frame>> Next();

 private:
  std::string buffer_;
  size_t read_at_ = 0;
};

// One JSON object. kInvalidArgument for anything else, or nesting deeper than kMaxJsonDepth.
absl::StatusOr<nlohmann::json> ParseMessageBody(std::string_view text);

// Reads the fields of a message from the other end. The first one that is missing, of another type
// or out of range becomes status() ("worker message: steps is -1, expected 0 to 100"), and every
// read after it gives the lowest value.
class FieldReader {
 public:
  explicit FieldReader(const nlohmann::json& body) : body_(body) {}

  int64_t Int(const char* name, int64_t min = 0, int64_t max = kMaxCount);
  uint64_t Word(const char* name);  // any 64 bits
  double Number(const char* name);  // null, for what JSON cannot say, gives NaN
  bool Bool(const char* name);
  std::string String(const char* name, size_t max_bytes = kMaxMessageBytes);
  bool Has(const char* name) const { return body_.contains(name); }
  // The array or object of that name; an empty one after an error.
  const nlohmann::json& Array(const char* name, size_t max_items);

  void Fail(const char* name, std::string_view problem);
  const absl::Status& status() const { return status_; }

 private:
  const nlohmann::json* Find(const char* name);

  const nlohmann::json& body_;
  absl::Status status_;
};

}  // namespace gdf::train

#endif  // GDF_CORE_TRAIN_PROTOCOL_H_
